import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test, vi } from 'vitest'
import { isBeingEnded, isOwnerGone, killWaits, ownerMark } from './owner.ts'

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

test.runIf(process.platform === 'linux')(
  'isBeingEnded() is true of who has ended and was not reaped, and not of who hangs',
  async () => {
    // Its parent becomes one that reaps nobody.
    const parent = spawn('/bin/sh', ['-c', 'true & echo $!; exec sleep 60'], { stdio: ['ignore', 'pipe', 'ignore'] })
    const [zombie] = (await once(parent.stdout, 'data')) as [Buffer]
    await vi.waitFor(() => expect(isBeingEnded(Number(String(zombie)))).toBe(true))
    parent.kill('SIGSTOP')
    expect(isBeingEnded(parent.pid!)).toBe(false)
    parent.kill('SIGKILL')
    await once(parent, 'exit')
    expect(isBeingEnded(parent.pid!)).toBe(true)
  },
)

test('killWaits() finds SIGKILL among the signals that a process has not taken yet', () => {
  const status = (own: string, shared: string) => `Threads:\t11\nSigPnd:\t${own}\nShdPnd:\t${shared}\nSigBlk:\t0000000000000100\n`
  const [none, kill, term] = ['0000000000000000', '0000000000000100', '0000000000004000']
  expect([status(kill, none), status(none, kill), status(term, term), status(none, none)].map(killWaits)).toEqual([
    ...[true, true],
    ...[false, false],
  ])
})
