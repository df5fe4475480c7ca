import { after, type Standing } from '@anchorhold/core/session-states'
import { type Event, type NewEvent, parseNewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { Entry, EventLog } from '../store.ts'
import { projection } from './projection.ts'

type EventRow = { pos: number; session_id: string; seq: number; at: number; type: string; body: string }

export function sqliteEventLog(db: Database): EventLog {
  const project = projection(db)
  const insert = db.prepare<[string, number, string, number | null, number, string, string]>(`
    insert into event (session_id, seq, source, n, at, type, body) values (?, ?, ?, ?, ?, ?, ?)`)
  const rowOf = db.prepare<[string], { last_seq: number; standing: string; active_at: number }>(
    `select last_seq, standing, active_at from session where id = ?`,
  )
  const advance = db.prepare<[number, string, number, string]>(
    `update session set last_seq = ?, standing = ?, active_at = ? where id = ?`,
  )
  const took = db.prepare<[string, number]>(`
    insert into source (name, last_n) values (?, ?) on conflict do update set last_n = max(last_n, excluded.last_n)`)
  const last = db.prepare<[string], { last_n: number }>(`select last_n from source where name = ?`)
  const lastOf = (source: string) => last.get(source)?.last_n ?? 0
  const columns = 'pos, session_id, seq, at, type, body'
  const following = db.prepare<[string, number, number], EventRow>(
    `select ${columns} from event where session_id = ? and seq > ? order by seq limit ?`,
  )
  const before = db.prepare<[string, number, number], EventRow>(
    `select ${columns} from event where session_id = ? and seq < ? order by seq desc limit ?`,
  )
  const afterPos = db.prepare<[number, number], EventRow>(`select ${columns} from event where pos > ? order by pos limit ?`)
  const beforePos = db.prepare<[number, number], EventRow>(`select ${columns} from event where pos < ? order by pos desc limit ?`)

  /** The session's row is read once and written once, however many events come together. */
  const appendAll = (session: SessionId, source: string, entries: readonly Entry[]): Event[] => {
    const row = rowOf.get(session)
    // A source's records come in order, so what is not beyond the last one is stored already.
    let cursor = lastOf(source)
    const fresh = entries.filter(({ n }) => {
      const isNew = n === null || n > cursor
      if (isNew && n !== null) cursor = n
      return isNew
    })
    const newest = fresh.at(-1)
    if (newest === undefined) return []
    if (newest.n !== null) took.run(source, newest.n)
    // A session that was purged has no log any more; what a late keeper still says of it is let go.
    if (row === undefined) return []
    let seq = row.last_seq
    let standing = JSON.parse(row.standing) as Standing
    const stored: Event[] = []
    const store = (event: NewEvent, at: number, origin: string, n: number | null) => {
      const { lastInsertRowid } = insert.run(session, ++seq, origin, n, at, event.type, JSON.stringify(event.body))
      const pos = Number(lastInsertRowid)
      const one: Event = { ...event, pos, seq, session, at }
      stored.push(one)
      project(one)
      const next = after(standing, event)
      const from = standing.state
      standing = next.standing
      if (standing.state !== from && event.type !== 'session.state') {
        store({ type: 'session.state', body: { from, to: standing.state, why: next.why } }, at, 'daemon', null)
      }
    }
    for (const { event, at, n } of fresh) store(event, at, source, n)
    advance.run(seq, JSON.stringify(standing), Math.max(row.active_at, newest.at), session)
    return stored
  }
  const alone = db.transaction(appendAll)
  // Within a transaction already, none of its own is needed.
  const append: EventLog['append'] = (...args) => (db.inTransaction ? appendAll(...args) : alone(...args))

  return {
    append,
    after: (session, seq, limit) => following.all(session, seq, limit).map(toEvent),
    before: (session, seq, limit) => before.all(session, seq, limit).map(toEvent).reverse(),
    afterPos: (pos, limit) => afterPos.all(pos, limit).map(toEvent),
    beforePos: (pos, limit) => beforePos.all(pos, limit).map(toEvent).reverse(),
    pass: (source, n) => void took.run(source, n),
    lastOf,
  }
}

function toEvent({ pos, session_id, seq, at, type, body }: EventRow): Event {
  return { ...parseNewEvent(type, JSON.parse(body)), pos, seq, at, session: session_id as SessionId }
}
