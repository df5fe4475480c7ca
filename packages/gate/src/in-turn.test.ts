import { expect, test } from 'vitest'
import { inTurn } from './in-turn.ts'

test('inTurn() does what belongs together in order, also behind what has failed, and keeps nobody else waiting', async () => {
  const afterOthers = inTurn()
  const order: string[] = []
  const first = Promise.withResolvers<void>()
  const failing = afterOthers('a', async () => {
    await first.promise
    order.push('a1')
    throw new Error('no')
  })
  const second = afterOthers('a', async () => void order.push('a2'))
  await afterOthers('b', async () => void order.push('b1'))
  first.resolve()
  await expect(failing).rejects.toThrow('no')
  await second
  expect(order).toEqual(['b1', 'a1', 'a2'])
})
