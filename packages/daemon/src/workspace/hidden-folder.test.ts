import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { firstSessionUid, folders as foldersOf } from '../folders.ts'
import { hiddenFolderOf, reapHidden } from './hidden-folder.ts'

const isRoot = process.getuid?.() === 0
let state = ''
let workspace = ''
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'ah-'))
  workspace = join(state, 'workspace')
  for (const folder of [workspace, foldersOf(state).hidden]) mkdirSync(folder)
})
afterEach(() => rmSync(state, { recursive: true }))

/** A folder in which something is remembered. */
function remembered(of: string, uid: number | null = null): string {
  const folder = hiddenFolderOf(foldersOf(state), of, uid === null ? null : { uid, gid: uid })
  writeFileSync(join(folder, 'hidden-0.json'), '{}')
  return folder
}
const reap = (isUsed: Parameters<typeof reapHidden>[1] = () => false) => reapHidden(foldersOf(state).hidden, isUsed)

test('reapHidden() removes what was remembered of a folder that is gone, unless a session still has it', async () => {
  const [gone, used, here] = [remembered('/nowhere/gone'), remembered('/nowhere/used'), remembered(workspace)]
  await reap((of, uid) => of === '/nowhere/used' && uid === null)
  expect([gone, used, here].map((each) => existsSync(each))).toEqual([false, true, true])
  expect(readdirSync(foldersOf(state).hidden)).toHaveLength(4)
})

test.runIf(isRoot)(
  "reapHidden() removes what a session's own user remembered once no session has it, and nothing of the folder's owner",
  async () => {
    const [own, owners] = [remembered(workspace, firstSessionUid + 7), remembered(workspace, 1234)]
    await reap((_, uid) => uid === firstSessionUid + 7)
    expect([own, owners].map((each) => existsSync(each))).toEqual([true, true])
    await reap()
    expect([own, owners].map((each) => existsSync(each))).toEqual([false, true])
  },
)

test('reapHidden() leaves what it cannot tell whose it is', async () => {
  const { hidden } = foldersOf(state)
  const [bare, forged] = [join(hidden, '0123456789abcdef'), join(hidden, 'fedcba9876543210')]
  for (const folder of [bare, forged]) mkdirSync(folder)
  writeFileSync(`${forged}.json`, JSON.stringify({ workspace: '/nowhere/gone', uid: null }))
  await reap()
  expect([bare, forged].map((each) => existsSync(each))).toEqual([true, true])
})
