import { hub } from '@anchorhold/daemon/hub'
import { sources as daemonSources } from '@anchorhold/daemon/processes/sources'
import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import { newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import Database from 'better-sqlite3'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { interleave, type Ratio } from './measure.ts'

const text = 'x'.repeat(200)
const twenty = 20

/** The event log against raw SQLite, and against itself when it was small. */
export async function storeBench(): Promise<Ratio[]> {
  const folder = mkdtempSync(join(tmpdir(), 'ah-bench-'))
  try {
    return [await appending(folder), ...(await growing(folder))]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What twenty keepers have to tell at once, twenty records each, through all that the daemon does with it until it may be acknowledged:
 *  one transaction. Raw SQLite takes a transaction for each twenty. */
async function appending(folder: string): Promise<Ratio> {
  const raw = new Database(join(folder, 'raw.db'))
  raw.exec('pragma journal_mode = wal; pragma synchronous = full; create table event (pos integer primary key, body text)')
  const insert = raw.prepare('insert into event (body) values (?)')
  const insertTwenty = raw.transaction(() => {
    for (let i = 0; i < twenty; i++) insert.run(text)
  })
  const body = { call: 'c', tool: 'Bash', output: text, truncated: false, failed: false } as const
  const store = sqliteStore(join(folder, 'append.db'))
  const sessions = Array.from({ length: twenty }, () => makeSession(store))
  const sources = daemonSources({ store, hub: hub(store.events.lastPos()), log() {} })
  const alone = sqliteStore(join(folder, 'alone.db'))
  const session = makeSession(alone)
  let [last, lastAlone] = [0, 0]
  const times = await interleave(
    30,
    {
      raw: async () => {
        for (let i = 0; i < twenty; i++) insertTwenty()
      },
      log: async () => {
        const at = Date.now()
        for (const id of sessions) {
          const records = Array.from({ length: twenty }, (_, i) => ({
            n: last + i + 1,
            at,
            session: id,
            type: 'tool.finished',
            body,
          }))
          sources.take(`keeper/${id}`, records)
        }
        last += twenty
        sources.flush()
      },
      alone: async () => {
        for (let i = 0; i < twenty; i++) {
          const at = Date.now()
          const entries = Array.from({ length: twenty }, () => ({
            n: ++lastAlone,
            at,
            event: { type: 'tool.finished', body } as const,
          }))
          alone.atomically(() => alone.events.append(session, `keeper/${session}`, entries))
        }
      },
    },
    { warmUp: 3 },
  )
  for (const id of sessions)
    if (store.events.lastOf(`keeper/${id}`) !== last) throw new Error('The log has not stored what it was given')
  for (const db of [raw, store, alone]) db.close()
  const perSecond = (ms: number) => ((twenty * twenty) / ms) * 1000
  return {
    name: 'durable append, grouped ÷ raw SQLite, 20 a transaction',
    value: times.ratio('raw', 'log'),
    must: 0.4,
    record: 0.8,
    better: 'above',
    note: `${perSecond(times.ms.log).toFixed(0)} events a second of 20 sessions, checked, with sequence, state and chain; no more than 20 a transaction, of one session: ${times.ratio('raw', 'alone').toFixed(2)}`,
  }
}

async function growing(folder: string): Promise<Ratio[]> {
  const open = (sessions: number, events: number, name: string) => {
    const path = join(folder, name)
    const store = sqliteStore(path)
    const made = store.atomically(() => Array.from({ length: sessions }, () => makeSession(store)))
    const first = made.at(-1)!
    // Straight into the tables: a million events through the log would take minutes.
    const db = new Database(path)
    const insert = db.prepare(
      `insert into event (session_id, seq, source, n, at, type, body) values (?, ?, 'bench', ?, 1, 'notice', ?)`,
    )
    const body = JSON.stringify({ level: 'info', code: 'bench', message: text })
    db.transaction(() => {
      for (let seq = 10; seq < events + 10; seq++) insert.run(first, seq, seq, body)
    })()
    db.close()
    return { store, first, events }
  }
  const small = open(10, 1000, 'small.db')
  const large = open(10_000, 1_000_000, 'large.db')
  const page =
    ({ store, first, events }: typeof small) =>
    async () => {
      for (let i = 0; i < 50; i++) store.events.before(first, events - 100, 50)
    }
  const list =
    ({ store }: typeof small) =>
    async () => {
      for (let i = 0; i < 50; i++) store.sessions.list({ archived: false, state: null, before: null, limit: 10, seenBy: null })
    }
  const pages = await interleave(20, { small: page(small), large: page(large) }, { warmUp: 3 })
  const lists = await interleave(20, { small: list(small), large: list(large) }, { warmUp: 3 })
  small.store.close()
  large.store.close()
  return [
    {
      name: 'history page at 1,000,000 events ÷ at 1,000',
      value: pages.ratio('large', 'small'),
      must: 1.5,
      record: 1.1,
      better: 'below',
      note: `${(pages.ms.large / 50).toFixed(3)} ms a page of 50`,
    },
    {
      name: 'session list at 10,000 sessions ÷ at 10',
      value: lists.ratio('large', 'small'),
      must: 1.5,
      record: 1.1,
      better: 'below',
      note: `${(lists.ms.large / 50).toFixed(3)} ms a page of 10`,
    },
  ]
}

export function makeSession(store: ReturnType<typeof sqliteStore>): SessionId {
  const id = newSessionId(randomBytes)
  store.sessions.insert({ id, options: {}, runAs: null, conversation: randomUUID(), conversing: false, grants: [] })
  const at = Date.now()
  const body = {
    name: 'bench',
    rung: 'bwrap',
    provider: 'rehearsal',
    model: 'rehearsal-1',
    simulated: true,
    workspace: '/tmp',
    budget_nanos: null,
    forked_from: null,
    actor: 'bench',
  } as const
  store.events.append(id, 'daemon', [
    { n: null, at, event: { type: 'session.created', body } },
    { n: null, at, event: { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } } },
  ])
  return id
}
