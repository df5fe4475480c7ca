import type { Actor } from '@anchorhold/core/actors'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import type { Event, NewEvent } from '@anchorhold/protocol/events'
import { firstOwner, type SessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../config.ts'
import { folders as foldersOf, makeFolder, makeFolders } from '../folders.ts'
import { hub } from '../hub.ts'
import { type FakeGate, fakeGate, type FakeKeepers, fakeKeepers } from '../processes/fake-processes.ts'
import { sources } from '../processes/sources.ts'
import { sqliteStore } from '../store/sqlite/sqlite-store.ts'
import { attempts } from '../logins/attempts.ts'
import { passwords } from '../logins/passwords.ts'
import { policies } from '../policy/policies.ts'
import { presence } from '../presence.ts'
import { pushService } from '../push/push-service.ts'
import { transaction, type Writes } from '../transaction.ts'
import { watches } from '../watches.ts'
import type { Parts } from './parts.ts'

export const owner: Actor = { kind: 'owner', user: firstOwner, name: 'owner', door: 'test' }

export type TestParts = Omit<Parts, 'now'> & {
  now: () => number
  readonly gate: FakeGate
  readonly keepers: FakeKeepers
  readonly logged: string[]
  /** What the machine is said to be able to isolate. */
  lacking: DoctorReport['rungs'][number]['missing']
  /** The toolchains that it is said to have. */
  toolchains: DoctorReport['toolchains']
  /** The time that `now` gives. */
  at: number
  all(id: SessionId): readonly Event[]
  [Symbol.dispose](): void
}

/** The daemon's parts over a real store in memory and a folder of its own, with keepers and gate that are no processes. */
export function testParts(): TestParts {
  const root = mkdtempSync(join(tmpdir(), 'ah-app-'))
  // As an ordinary user has it: as root, workspaces are given to users, which is tested where that is done.
  const config = { ...readConfig(['--state', join(root, 's')], {}), root: false }
  const folders = foldersOf(config.state)
  makeFolders(folders, false)
  makeFolder(config.config, 0o700)
  const store = sqliteStore(':memory:')
  const events = hub()
  const logged: string[] = []
  const log = (message: string) => void logged.push(message)
  const parts: TestParts = {
    config,
    folders,
    store,
    hub: events,
    watches: watches(),
    policies: policies({ folder: config.config, memory: folders.policies, log }),
    presence: presence(() => parts.now()),
    push: pushService({ keyFile: folders.pushKey, subject: 'mailto:test@example.invalid', ownHosts: config.pushHosts, log }),
    passwords: passwords(),
    attempts: attempts({ now: () => parts.now(), random: randomBytes }),
    sources: sources({ store, hub: events, log }),
    gate: fakeGate(),
    keepers: fakeKeepers(),
    newUser: () => null,
    lacking: [],
    toolchains: [],
    at: 1000,
    now: () => parts.at++,
    async doctor() {
      const available = parts.lacking.length === 0
      const rung = { rung: 'bwrap' as const, available, tried_at: 1, start_ms: 1, limits: [], missing: parts.lacking }
      return { rungs: [rung], toolchains: parts.toolchains, kernel: {} } as unknown as DoctorReport
    },
    random: randomBytes,
    log,
    logged,
    all: (id) => store.events.after(id, 0, 1000),
    [Symbol.dispose]() {
      parts.policies.close()
      store.close()
      rmSync(root, { recursive: true })
    },
  }
  return parts
}

/** Puts events into a session's log. */
export const record = (parts: Writes, session: SessionId, ...events: readonly NewEvent[]): void =>
  transaction(parts, (tx) => tx.record(session, ...events))

/** On a machine that has the rung that is no wall, too. */
export function withoutWall(parts: TestParts): TestParts {
  const { doctor } = parts
  return Object.assign(parts, {
    async doctor() {
      const report = await doctor({ fresh: false, rung: 'bwrap' })
      return { ...report, rungs: [...report.rungs, { ...report.rungs[0]!, rung: 'none' }] }
    },
  })
}
