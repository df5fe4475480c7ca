import { expect, test } from 'vitest'
import { type Listed, lineage } from './lineage.ts'

const one = (pid: number, parent: number, group = pid, startedAt = 'then'): Listed => ({
  ...{ pid, parent, group, startedAt, residentBytes: 1 },
})

test('lineage() finds children of children, and who stays in their group', () => {
  let living: Listed[] = []
  const kin = lineage(() => living)
  const pids = () => kin.look().map(({ pid }) => pid)
  kin.add(10)
  living = [one(1, 0), one(10, 1), one(11, 10, 10), one(12, 11), one(13, 1, 10), one(20, 1)]
  expect(pids()).toEqual([10, 11, 12, 13])
  // Parents end, and what they left is nobody's child any more.
  living = [one(1, 0), one(12, 1), one(14, 12), one(20, 1)]
  expect(pids()).toEqual([12, 14])
})

test('lineage() takes no one else for its own: a number is given away again', () => {
  let living = [one(10, 1), one(11, 10)]
  const kin = lineage(() => living)
  kin.add(10)
  expect(kin.look()).toHaveLength(2)
  kin.leave(10)
  living = [one(10, 1, 10, 'later'), one(11, 1, 11, 'later')]
  expect(kin.look()).toEqual([])
})
