import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { attempts } from './attempts.ts'

test('names that nobody has, in any number, do not make it forget how often one was guessed at', () => {
  const tries = attempts({ now: () => 0, random: randomBytes })
  const guess = () => tries.charge([{ key: 'account owner', max: 10 }])
  for (let n = 0; n < 10; n++) guess()
  for (let n = 0; n < 30_000; n++) tries.charge([{ key: `account nobody-${n}`, max: 10 }])
  expect(guess).toThrow(expect.objectContaining({ code: 'too_many' }))
})

test('a window that has passed is forgotten', () => {
  let at = 0
  const tries = attempts({ now: () => at, random: randomBytes })
  const guess = () => tries.charge([{ key: 'account owner', max: 1 }])
  guess()
  expect(guess).toThrow(expect.objectContaining({ code: 'too_many' }))
  at += 16 * 60_000
  guess()
})
