import { expect, test } from 'vitest'
import { lane } from './lane.ts'

test('lane() lets in as many as there is room for, in their order', async () => {
  const enter = lane(10)
  const log: string[] = []
  const open = new Map<string, () => void>()
  const go = (name: string, size: number) =>
    enter(size, () => {
      log.push(name)
      return new Promise<void>((leave) => open.set(name, leave))
    })
  const all = [go('a', 6), go('b', 4), go('c', 10), go('d', 1)]
  await Promise.resolve()
  await new Promise(setImmediate)
  expect(log).toEqual(['a', 'b'])
  open.get('a')!()
  await all[0]
  await new Promise(setImmediate)
  // Nobody goes past one that waits for more room: it would never have that.
  expect(log).toEqual(['a', 'b'])
  open.get('b')!()
  await all[1]
  await new Promise(setImmediate)
  expect(log).toEqual(['a', 'b', 'c'])
  open.get('c')!()
  await all[2]
  await new Promise(setImmediate)
  expect(log).toEqual(['a', 'b', 'c', 'd'])
  open.get('d')!()
})

test('lane() lets the next one in after work that failed', async () => {
  const enter = lane(1)
  await expect(enter(1, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await enter(5, async () => 'in')).toBe('in')
})
