import { parseNewEvent, type Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { EventLog } from '../store.ts'
import { projection } from './projection.ts'

type EventRow = { pos: number; session_id: string; seq: number; at: number; type: string; body: string }

export function sqliteEventLog(db: Database): EventLog {
  const project = projection(db)
  const insert = db.prepare<[string, number, string, number | null, number, string, string], { pos: number }>(`
    insert into event (session_id, seq, source, n, at, type, body) values (?, ?, ?, ?, ?, ?, ?) returning pos`)
  const nextSeq = db.prepare<[string], { last_seq: number }>(
    `update session set last_seq = last_seq + 1 where id = ? returning last_seq`,
  )
  const known = db.prepare<[string, number], { pos: number }>(`select pos from event where source = ? and n = ?`)
  const took = db.prepare<[string, number]>(`
    insert into source (name, last_n) values (?, ?) on conflict do update set last_n = max(last_n, excluded.last_n)`)
  const last = db.prepare<[string], { last_n: number }>(`select last_n from source where name = ?`)
  const columns = 'pos, session_id, seq, at, type, body'
  const after = db.prepare<[string, number, number], EventRow>(
    `select ${columns} from event where session_id = ? and seq > ? order by seq limit ?`,
  )
  const before = db.prepare<[string, number, number], EventRow>(
    `select ${columns} from event where session_id = ? and seq < ? order by seq desc limit ?`,
  )
  const afterPos = db.prepare<[number, number], EventRow>(`select ${columns} from event where pos > ? order by pos limit ?`)
  const beforePos = db.prepare<[number, number], EventRow>(`select ${columns} from event where pos < ? order by pos desc limit ?`)

  const appendAll = db.transaction((session: SessionId, at: number, event, origin): Event[] => {
    const n = 'n' in origin ? origin.n : null
    if (n !== null && known.get(origin.source, n) !== undefined) return []
    if (n !== null) took.run(origin.source, n)
    const row = nextSeq.get(session)
    // A session that was purged has no log any more; what a late keeper still says of it is let go.
    if (row === undefined) return []
    const { pos } = insert.get(session, row.last_seq, origin.source, n, at, event.type, JSON.stringify(event.body))!
    const stored: Event = { ...event, pos, seq: row.last_seq, session, at }
    const moved = project(stored)
    return moved === null ? [stored] : [stored, ...appendAll(session, at, moved, { source: 'daemon' })]
  }) as EventLog['append'] as (...args: Parameters<EventLog['append']>) => Event[]

  return {
    append: appendAll,
    after: (session, seq, limit) => after.all(session, seq, limit).map(toEvent),
    before: (session, seq, limit) => before.all(session, seq, limit).map(toEvent).reverse(),
    afterPos: (pos, limit) => afterPos.all(pos, limit).map(toEvent),
    beforePos: (pos, limit) => beforePos.all(pos, limit).map(toEvent).reverse(),
    pass: (source, n) => void took.run(source, n),
    lastOf: (source) => last.get(source)?.last_n ?? 0,
  }
}

function toEvent({ pos, session_id, seq, at, type, body }: EventRow): Event {
  return { ...parseNewEvent(type, JSON.parse(body)), pos, seq, at, session: session_id as SessionId }
}
