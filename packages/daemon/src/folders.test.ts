import type { SessionId } from '@anchorhold/protocol/ids'
import { rehearsalSocket, statePathBytesMax } from '@anchorhold/core/places'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folders, makeFolder, makeFolders } from './folders.ts'

const id = 'ses_0000000000000000' as SessionId

test('folders() leaves room for every socket below the longest state folder', () => {
  const all = folders('x'.repeat(statePathBytesMax))
  for (const path of [all.gateSocket, all.keeperSocket(id), `${all.windows(id)}/model.sock`, rehearsalSocket(all.rehearsal)])
    expect(Buffer.byteLength(path)).toBeLessThanOrEqual(103)
})

test('makeFolders() makes what only its owner can enter', () => {
  const root = mkdtempSync(join(tmpdir(), 'ah-folders-'))
  const all = folders(join(root, 'state'))
  const mask = process.umask(0)
  makeFolders(all, false)
  process.umask(mask)
  for (const path of [all.state, all.gate, all.runtime, `${all.state}/sessions`, `${all.state}/windows`])
    expect((statSync(path).mode & 0o777).toString(8)).toBe('700')
  rmSync(root, { recursive: true })
})

test('makeFolders() says that the state folder cannot be made, and what to do', () => {
  const root = mkdtempSync(join(tmpdir(), 'ah-folders-'))
  writeFileSync(join(root, 'file'), '')
  expect(() => makeFolders(folders(join(root, 'file/state')), false)).toThrow(
    expect.objectContaining({
      message: `Cannot make the state folder "${root}/file/state": a part of its path is not a folder`,
      hint: expect.stringContaining('--state') as string,
    }),
  )
  rmSync(root, { recursive: true })
})

test('makeFolder() gives a folder that is there already the mode it should have', () => {
  const path = mkdtempSync(join(tmpdir(), 'ah-folders-'))
  makeFolder(path, 0o711)
  makeFolder(path, 0o750)
  expect((statSync(path).mode & 0o777).toString(8)).toBe('750')
  rmSync(path, { recursive: true })
})
