import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { takeLock } from '@anchorhold/link/lock'
import type { SessionId } from '@anchorhold/protocol/ids'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Folders, folders as foldersOf } from '../folders.ts'
import { reapAll, reapLaunched, sessionsOnDisk } from './reap.ts'
import type { Runtime } from './runtime.ts'

let state: string
let folders: Folders
let runtime: Runtime
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'ah-'))
  folders = foldersOf(state)
  // Writes down what it was called for; `cells/reap.test.ts` has what the real one does.
  const reap = join(state, 'reap.mjs')
  writeFileSync(
    reap,
    `import { appendFileSync } from 'node:fs'; appendFileSync(${JSON.stringify(join(state, 'reaped'))}, process.argv[2] + '\\n')`,
  )
  runtime = { node: process.execPath, reap } as Runtime
})
afterEach(() => rmSync(state, { recursive: true, force: true }))

const [owned, lost, held] = ['ses_0000000000000001', 'ses_0000000000000002', 'ses_0000000000000003'] as SessionId[]
const reaped = () => (existsSync(join(state, 'reaped')) ? readFileSync(join(state, 'reaped'), 'utf8').trim().split('\n') : [])

function makeSession(id: SessionId): void {
  mkdirSync(folders.cell(id), { recursive: true })
  writeFileSync(join(folders.cell(id), 'left'), '')
}
const reapThem = () =>
  reapAll({ folders, runtime, sessions: sessionsOnDisk(folders), isOwned: (id) => id === owned, log: () => {} })

test('reapAll() removes the session that nobody owns, and none that somebody owns or tends', async () => {
  for (const id of [owned!, lost!, held!]) makeSession(id)
  const lock = takeLock(folders.keeperLock(held!))
  expect(lock).not.toBeNull()
  await reapThem()
  lock?.release()
  expect([owned!, lost!, held!].map((id) => existsSync(folders.session(id)))).toEqual([true, false, true])
  expect(reaped()).toEqual([folders.cell(lost!)])
})

test('reapAll() touches nothing that is not named as we name things', async () => {
  const others = ['notes', 'ses_short', 'ses_000000000000000X', '.ses_0000000000000009'].map((name) =>
    join(state, 'sessions', name),
  )
  for (const folder of others) mkdirSync(folder, { recursive: true })
  await reapThem()
  expect(others.map((folder) => existsSync(folder))).toEqual([true, true, true, true])
})

test('reapLaunched() clears away what a launcher left, and nothing of one that lives', async () => {
  const [dead, alive, unknown] = ['dead', 'alive', 'unknown'].map((name) => join(folders.launched, name))
  for (const base of [dead!, alive!, unknown!]) {
    mkdirSync(join(base, 'cell'), { recursive: true })
    writeFileSync(join(base, 'cell/left'), '')
  }
  takeLock(join(dead!, 'lock'))?.release()
  const lock = takeLock(join(alive!, 'lock'))
  await reapLaunched(folders, runtime)
  lock?.release()
  // One without a lock yet is just being made.
  expect([dead!, alive!, unknown!].map((base) => existsSync(base))).toEqual([false, true, true])
  expect(reaped()).toEqual([join(dead!, 'cell')])
})
