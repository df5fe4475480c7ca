import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { folders as foldersOf, makeFolders } from '../folders.ts'
import type { Runtime } from './runtime.ts'
import { spareKeepers } from './spare-keepers.ts'

let root = ''
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ah-spare-'))
  makeFolders(foldersOf(root), false)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
  rmSync(root, { recursive: true })
})

test('spareKeepers() goes on when the disk is full, and has one wait again when there is room', () => {
  const keeper = join(root, 'keeper.js')
  writeFileSync(keeper, 'process.stdin.resume()')
  const me = { uid: process.getuid!(), gid: process.getgid!() }
  const logged: string[] = []
  let full = true
  const spares = spareKeepers({
    folders: foldersOf(root),
    runtime: { node: process.execPath, keeper } as Runtime,
    spare: true,
    newUser() {
      if (full) throw new Error('ENOSPC')
      return me
    },
    log: (message) => void logged.push(message),
  })
  spares.makeReady()
  vi.advanceTimersByTime(0)
  expect(logged).toEqual(['a spare keeper: Error: ENOSPC'])
  full = false
  vi.advanceTimersByTime(10_000)
  expect(spares.claimUser()).toEqual(me)
  spares.discard()
})

test('a spare keeper of a daemon that is not root has no user to give, and waits for whoever takes it', () => {
  const keeper = join(root, 'keeper.js')
  writeFileSync(keeper, 'process.stdin.resume()')
  const runtime = { node: process.execPath, keeper } as Runtime
  let made = 0
  const spares = spareKeepers({ folders: foldersOf(root), runtime, spare: true, newUser: () => (made++, null), log: () => {} })
  spares.makeReady()
  vi.advanceTimersByTime(0)
  expect(spares.claimUser()).toBeNull()
  vi.advanceTimersByTime(10_000)
  expect(made).toBe(1)
  const taken = spares.take(null)
  vi.advanceTimersByTime(10_000)
  expect(made).toBe(2)
  taken.discard()
  spares.discard()
})
