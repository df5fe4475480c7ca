import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { takeLock } from '@anchorhold/link/lock'
import { ownerMark } from '@anchorhold/link/owner'
import type { SessionId } from '@anchorhold/protocol/ids'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Folders, folders as foldersOf } from '../folders.ts'
import { fakeAccessLists } from '../workspace/fake-access-lists.ts'
import { grantedIn, writeGranted } from '../workspace/granted.ts'
import { hiddenFolderOf } from '../workspace/hidden-folder.ts'
import { isUnsettled, markUnsettled } from '../workspace/unsettled.ts'
import { reapAll, reapLaunched, sessionsOnDisk } from './reap.ts'
import type { Runtime } from './runtime.ts'
import { nodeForAll } from './test-node.ts'

let state: string
let folders: Folders
let runtime: Runtime
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'ah-'))
  // Where a reaper that is not root writes down what it was called for.
  chmodSync(state, 0o777)
  folders = foldersOf(state)
  // Others of this machine have things in the folder for temporary files.
  vi.stubEnv('TMPDIR', join(state, 'tmp'))
  // Writes down what it was called for; `cells/reap.test.ts` has what the real one does.
  const reap = join(state, 'reap.mjs')
  writeFileSync(
    reap,
    `import { appendFileSync } from 'node:fs'; appendFileSync(${JSON.stringify(join(state, 'reaped'))}, process.argv[2] + '\\n')`,
  )
  runtime = { node: nodeForAll(state), reap } as Runtime
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(state, { recursive: true, force: true })
})

const [owned, lost, held] = ['ses_0000000000000001', 'ses_0000000000000002', 'ses_0000000000000003'] as SessionId[]
const reaped = () => (existsSync(join(state, 'reaped')) ? readFileSync(join(state, 'reaped'), 'utf8').trim().split('\n') : [])

function makeSession(id: SessionId): void {
  mkdirSync(join(state, 'unsettled'), { recursive: true })
  makeCell(folders.cell(id))
}
/** A folder of a cell, with something in it. As root it is a user's: in one of root's own no cell was. */
function makeCell(path: string): void {
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, 'left'), '')
  if (process.getuid?.() === 0) chownSync(path, 1_900_000_777, 1_900_000_777)
}
const reapThem = (log: (message: string) => void = () => {}) =>
  reapAll({
    ...{ folders, runtime, sessions: sessionsOnDisk(folders), log },
    isOwned: (id) => id === owned,
    worksIn: () => false,
  })

test('reapAll() removes the session that nobody owns, and none that somebody owns or tends', async () => {
  for (const id of [owned!, lost!, held!]) {
    makeSession(id)
    markUnsettled(folders, id)
  }
  const lock = takeLock(folders.keeperLock(held!))
  expect(lock).not.toBeNull()
  await reapThem()
  lock?.release()
  expect([owned!, lost!, held!].map((id) => existsSync(folders.session(id)))).toEqual([true, false, true])
  expect(reaped()).toEqual([folders.cell(lost!)])
  // The log has the one, and the other is nobody's once its keeper has ended.
  expect([owned!, lost!, held!].map((id) => isUnsettled(folders, id))).toEqual([false, false, true])
})

test('reapAll() leaves alone what may be the work of a session that an older database does not know, and says where it is', async () => {
  for (const id of [owned!, lost!, held!]) makeSession(id)
  mkdirSync(folders.windows(lost!), { recursive: true })
  const said: string[] = []
  await reapThem((message) => void said.push(message))
  expect(
    [folders.cell(owned!), folders.cell(lost!), folders.windows(lost!), folders.cell(held!)].map((path) => existsSync(path)),
  ).toEqual(Array(4).fill(true))
  expect(reaped()).toEqual([])
  expect(said).toEqual([
    `2 session folders belong to no session of this database; they are left alone: ${folders.session(lost!)}; ${folders.session(held!)}`,
  ])
})

test('reapAll() removes the mark of what was never begun, and windows without a session', async () => {
  mkdirSync(join(state, 'unsettled'))
  markUnsettled(folders, lost!)
  mkdirSync(folders.windows(held!), { recursive: true })
  await reapThem()
  expect([isUnsettled(folders, lost!), existsSync(folders.windows(held!))]).toEqual([false, false])
})

test('reapAll() removes what was hidden in a folder that is gone', async () => {
  mkdirSync(folders.hidden)
  const gone = hiddenFolderOf(folders, join(state, 'was here'), null)
  await reapThem()
  expect(existsSync(gone)).toBe(false)
})

test('reapAll() takes back what was granted to a session that was never made, nothing of a fork, and believes no word of a folder that is a user’s', async () => {
  const lists = fakeAccessLists(join(state, 'bin'))
  vi.stubEnv('PATH', `${lists.path}:${process.env['PATH']}`)
  const own = { uid: process.getuid!(), gid: process.getgid!() }
  const [never, forked, others] = ['never', 'forked', 'others'].map((name) => join(state, name))
  for (const [id, workspace, runAs] of [
    [owned!, never!, own],
    [lost!, never!, own],
    [held!, forked!, own],
  ] as const) {
    mkdirSync(workspace, { recursive: true })
    makeSession(id)
    markUnsettled(folders, id)
    writeGranted(join(folders.session(id), 'granted.json'), { runAs: own, grants: [others!] })
    writeGranted(folders.unsettled(id), { runAs, grants: [workspace] })
  }
  await reapAll({
    ...{ folders, runtime, sessions: sessionsOnDisk(folders), log: () => {} },
    isOwned: (id) => id === owned,
    worksIn: (workspace, uid) => workspace === forked && uid === own.uid,
  })
  expect(lists.done()).toEqual([`-x u:${own.uid},d:u:${own.uid} ${never}`])
  expect(sessionsOnDisk(folders)).toEqual([owned])
})

test('reapAll() touches nothing that is not named as we name things', async () => {
  const others = ['notes', 'ses_short', 'ses_000000000000000X', '.ses_0000000000000009'].map((name) =>
    join(state, 'sessions', name),
  )
  for (const folder of others) mkdirSync(folder, { recursive: true })
  await reapThem()
  expect(others.map((folder) => existsSync(folder))).toEqual([true, true, true, true])
})

/** As a process names what it makes that has since ended, another under the number of this one. */
function deadMark(): string {
  const [pid, startedAt, namespace] = ownerMark().split('.')
  return [pid, ((Number.parseInt(startedAt!, 36) + 1) % 36 ** 4).toString(36), namespace].join('.')
}

test('reapAll() removes what was never finished once its maker has ended, and nothing of one that lives or is unknown', async () => {
  const [images, machine, image] = [folders.images, join(folders.images, 'machine'), join(folders.images, 'base-0123456789ab')]
  const places = [images, folders.runtime, machine, join(machine, 'runtimes')]
  const namedBy = (owner: string) => [
    ...places.map((folder) => join(folder, `new-${owner}AbC123`)),
    join(image, `root.erofs-${owner}.part`),
    join(image, `snapshots/0123456789abcdef-${owner}.part`),
  ]
  const [left, alive, unknown] = [namedBy(`${deadMark()}-`), namedBy(`${ownerMark()}-`), namedBy('')].map((paths) =>
    paths.map((path) => path.replace('-.part', '.part')),
  )
  for (const path of [...left!, ...alive!, ...unknown!]) {
    mkdirSync(join(path, '..'), { recursive: true })
    if (path.endsWith('.part')) writeFileSync(path, 'half')
    else mkdirSync(join(path, 'root'), { recursive: true })
  }
  await reapThem()
  expect(left!.filter((path) => existsSync(path))).toEqual([])
  expect([...alive!, ...unknown!].filter((path) => !existsSync(path))).toEqual([])
})

test('reapAll() removes trials in the folder for temporary files whose process has ended, their cells first', async () => {
  const at = (name: string) => join(state, 'tmp', name)
  const names = [
    ...['trial', 'trial-files', 'attack'].map((kind) => `ah-${kind}-${deadMark()}-AbC123`),
    ...[`ah-trial-${ownerMark()}-AbC123`, 'ah-trial-AbC123', `notes-${deadMark()}-AbC123`, `ah-attack-${deadMark()}-busy00`],
  ]
  for (const name of names) mkdirSync(join(at(name), 'scratch'), { recursive: true })
  makeCell(join(at(names[0]!), 'scratch'))
  // Something that an attack has started lives still.
  mkdirSync(join(at(names.at(-1)!), `ah-trial-${ownerMark()}-AbC123/scratch`), { recursive: true })
  mkdirSync(at('elsewhere'))
  const [file, held] = [deadMark(), ownerMark()].map((mark) => at(`ah-file-${mark}-0123456789abcdef`))
  for (const path of [file!, held!]) writeFileSync(path, '')
  symlinkSync(at('elsewhere'), at(`ah-trial-${deadMark()}-link00`))
  await reapThem()
  expect(names.map((name) => existsSync(at(name)))).toEqual([false, false, false, true, true, true, true])
  expect(reaped()).toEqual([join(at(names[0]!), 'scratch')])
  expect([file!, held!].map((path) => existsSync(path))).toEqual([false, true])
  expect(existsSync(at('elsewhere'))).toBe(true)
})

test('reapLaunched() clears away what a launcher left, and nothing of one that lives', async () => {
  const [dead, alive, unknown] = ['dead', 'alive', 'unknown'].map((name) => join(folders.launched, name))
  const [cut, begun] = [deadMark(), ownerMark()].map((mark) => join(folders.launched, `${mark}-AbC123`))
  for (const base of [dead!, alive!, unknown!, cut!, begun!]) {
    makeCell(join(base, 'cell'))
  }
  takeLock(join(dead!, 'lock'))?.release()
  const lock = takeLock(join(alive!, 'lock'))
  await reapLaunched(folders, runtime, () => {})
  lock?.release()
  // One without a lock yet is just being made, unless its launcher was killed over it.
  expect([dead!, alive!, unknown!, cut!, begun!].map((base) => existsSync(base))).toEqual([false, true, true, false, true])
  expect(reaped().toSorted()).toEqual([join(dead!, 'cell'), join(cut!, 'cell')].toSorted())
})

test('reapLaunched() takes back what was granted, and keeps the folder where that could not be', async () => {
  const lists = fakeAccessLists(join(state, 'bin'))
  vi.stubEnv('PATH', `${lists.path}:${process.env['PATH']}`)
  const [base, workspace] = [join(folders.launched, 'dead'), join(state, 'project')]
  for (const folder of [base, workspace]) mkdirSync(folder, { recursive: true })
  takeLock(join(base, 'lock'))?.release()
  writeGranted(grantedIn(base), { runAs: { uid: 7, gid: 7 }, grants: [workspace] })
  const said: string[] = []
  const reap = () => reapLaunched(folders, runtime, (line) => said.push(line))
  lists.refuse('u:7')
  await reap()
  expect(said).toEqual([expect.stringContaining('Cannot take back the access of the user 7')])
  lists.refuse(null)
  await reap()
  expect(lists.done()).toEqual([`-x u:7,d:u:7 ${workspace}`])
  expect(readdirSync(folders.launched)).toEqual([])
})

test('reapLaunched() goes on to the next where one cannot be cleared away, and says which', async () => {
  const [first, second] = ['1', '2'].map((name) => join(folders.launched, name))
  for (const base of [first!, second!]) {
    mkdirSync(join(base, 'cell'), { recursive: true })
    takeLock(join(base, 'lock'))?.release()
  }
  // Only the first has something that a cell left, which is cleared away by a program that is not there.
  makeCell(join(first!, 'cell'))
  const said: string[] = []
  await reapLaunched(folders, { ...runtime, reap: join(state, 'nothing.mjs') }, (line) => said.push(line))
  expect([first!, second!].map((base) => existsSync(base))).toEqual([true, false])
  expect(said).toEqual([expect.stringContaining(`cannot clear the launched cell "${first}" away`)])
})

test('reapLaunched() leaves to whoever is at it what is being cleared away', async () => {
  const base = join(folders.launched, 'dead')
  makeCell(join(base, 'cell'))
  takeLock(join(base, 'lock'))?.release()
  const said: string[] = []
  const reap = () => reapLaunched(folders, runtime, (line) => said.push(line))
  await Promise.all([reap(), reap(), reap()])
  expect(existsSync(base)).toBe(false)
  expect([reaped(), said]).toEqual([[join(base, 'cell')], []])
})
