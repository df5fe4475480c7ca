import { expect, test } from 'vitest'
import { inbox } from './inbox.ts'

test('inbox() gives what was pushed, in order, until its end', async () => {
  const box = inbox<number>()
  box.push(1)
  const taken: number[] = []
  const reading = (async () => {
    for await (const item of box.stream) {
      taken.push(item)
      if (item === 1) box.push(2)
      if (item === 2) box.end()
    }
  })()
  await reading
  expect(taken).toEqual([1, 2])
})

test('inbox() gives what was pushed before its end', async () => {
  const box = inbox<number>()
  box.push(1)
  box.end()
  const taken: number[] = []
  for await (const item of box.stream) taken.push(item)
  expect(taken).toEqual([1])
})
