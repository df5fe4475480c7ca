import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { isOwnerGone, ownerMark } from './owner.ts'

const [pid, startedAt, namespace] = ownerMark().split('.')
const other = (figure: string | undefined) => ((Number.parseInt(figure!, 36) + 1) % 36 ** 4).toString(36)

test('isOwnerGone() is false for who lives, for a process of another pid namespace, and for names that speak of nobody', () => {
  expect(isOwnerGone(`new-${ownerMark()}-AbC123`)).toBe(false)
  expect(isOwnerGone(`0123456789abcdef-${ownerMark()}.part`)).toBe(false)
  expect(isOwnerGone(`new-${pid}.${other(startedAt)}.${other(namespace)}-AbC123`)).toBe(false)
  for (const name of ['new-AbC123', 'new-12345', '', 'dev-1.2', 'a-1.2.3.4', 'x_1.2.3']) expect(isOwnerGone(name)).toBe(false)
})

test('isOwnerGone() knows a process that has ended, and another one under its number', async () => {
  expect(isOwnerGone(`new-${pid}.${other(startedAt)}.${namespace}-AbC123`)).toBe(true)
  expect(isOwnerGone(`root.erofs-${pid}.${other(startedAt)}.${namespace}.part`)).toBe(true)
  const child = spawn(process.execPath, ['-e', ''])
  const name = `ah-trial-${child.pid!.toString(36)}.1.${namespace}-AbC123`
  await once(child, 'exit')
  expect(isOwnerGone(name)).toBe(true)
})
