import { newSessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { firstSessionUid, folders as foldersOf } from '../folders.ts'
import { sqliteStore } from '../store/sqlite/sqlite-store.ts'
import { sessionsOnDisk } from './reap.ts'
import { sessionUsers } from './session-users.ts'

function house() {
  const root = mkdtempSync(join(tmpdir(), 'ah-users-'))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const folders = foldersOf(root)
  const store = sqliteStore(':memory:')
  return { folders, store, users: () => sessionUsers({ folders, store, onDisk: sessionsOnDisk(folders) }) }
}

test('sessionUsers() gives each session a user of its own', () => {
  const next = house().users()
  expect([next().uid, next().uid]).toEqual([firstSessionUid, firstSessionUid + 1])
})

test.runIf(process.getuid?.() === 0)('sessionUsers() gives none that owns a folder of which the log knows nothing', () => {
  const { folders, users } = house()
  for (const uid of [firstSessionUid + 41, 1000, 2 ** 32 - 2]) {
    const id = newSessionId(randomBytes)
    mkdirSync(folders.session(id), { recursive: true })
    chownSync(folders.session(id), uid, 0)
  }
  expect(users()()).toEqual({ uid: firstSessionUid + 42, gid: firstSessionUid + 42 })
})
