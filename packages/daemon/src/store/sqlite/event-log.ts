import { isActivity } from '@anchorhold/core/activity'
import { lineOf, nextHash } from '@anchorhold/core/chain'
import { after, type Standing, takesBack, takesUp } from '@anchorhold/core/session-states'
import { type Event, type NewEvent, parseNewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { Entry, EventLog } from '../store.ts'
import { sha256 } from './chains.ts'
import { seenIds } from './people.ts'
import { ledgerProjection } from './ledger.ts'
import { projection } from './projection.ts'
import { sqliteDocket } from './requests.ts'
import { usageProjection } from './usage.ts'

/** An event on its way into the log. */
type Row = {
  readonly event: NewEvent
  readonly at: number
  readonly origin: string
  readonly n: number | null
  readonly seq: number
}
type EventRow = { pos: number; session_id: string; seq: number; at: number; type: string; body: string }

/** Many rows in one statement cost less than the same one by one: the next position is looked up and kept once. */
const mostPerInsert = 32

export function sqliteEventLog(db: Database): EventLog {
  const project = projection(db)
  const bookNodes = ledgerProjection(db)
  const bookUsage = usageProjection(db)
  const docket = sqliteDocket(db)
  /** By how many rows they take beyond the first. */
  const inserts = Array.from({ length: mostPerInsert }, (_, more) =>
    db.prepare<(string | number | null)[]>(
      `insert into event (session_id, seq, source, n, at, type, body, hash) values ${'(?, ?, ?, ?, ?, ?, ?, ?), '.repeat(more)}(?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
  )
  const rowOf = db.prepare<[string], { last_seq: number; standing: string; active_at: number; head: string | null }>(
    `select last_seq, standing, active_at, head from session where id = ?`,
  )
  // Setting a column costs an entry in each index over it, also when it stays as it was.
  const advance = db.prepare<[number, number, string | null, string]>(
    `update session set last_seq = ?, active_at = ?, head = ? where id = ?`,
  )
  const stand = db.prepare<[string, string]>(`update session set standing = ? where id = ?`)
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
  type Seen = { readonly pos: number; readonly limit: number; readonly seenBy: string }
  const lastPos = db.prepare<[], { pos: number }>("select seq as pos from sqlite_sequence where name = 'event'")
  // Not by the index over sessions, hence the plus: it would go through all that they have ever had.
  const seenAfter = db.prepare<[Seen], EventRow>(
    `select ${columns} from event where pos > @pos and +session_id in ${seenIds} order by pos limit @limit`,
  )
  // Likewise, and from the last that they have had: others may have had much since.
  const seenBefore = db.prepare<[Seen], EventRow>(
    `select ${columns} from event where pos < @pos and +session_id in ${seenIds} and pos <= (
       select max(newest.pos) from session join event as newest on newest.session_id = session.id and newest.seq = session.last_seq
       where session.id in ${seenIds}
     ) order by pos desc limit @limit`,
  )

  // The types are written out, because only then does the index over these two serve.
  const acts = db.prepare<[{ before: number; since: number; limit: number; seenBy: string | null }], EventRow>(
    `select ${columns} from event where type in ('tool.started', 'decision') and pos < @before and at >= @since
      and (@seenBy is null or session_id in ${seenIds}) order by pos desc limit @limit`,
  )

  // The type is written out for the sake of its index.
  const lastCalls = db.prepare<[number], EventRow>(`select ${columns} from event where type = 'usage' order by pos desc limit ?`)

  /** The session's row is read once and brought up to date once, however many events come together. */
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
    if (row === undefined) {
      // What it cost is spent all the same.
      for (const { event, at } of fresh) {
        if (event.type !== 'usage') continue
        bookNodes(event.body, event.body.began_at ?? at)
        bookUsage(null, event.body, event.body.began_at ?? at)
      }
      return []
    }
    let standing = JSON.parse(row.standing) as Standing
    const rows: Row[] = []
    const add = (event: NewEvent, at: number, origin: string, n: number | null) => {
      if (!docket.admits(session, event, at, origin)) return
      const before = standing
      rows.push({ event, at, origin, n, seq: row.last_seq + rows.length + 1 })
      const next = after(standing, event)
      const from = standing.state
      standing = next.standing
      if (standing.state !== from && event.type !== 'session.state') {
        const goesOn = standing.state === 'interrupted' && takesUp(standing) ? { goes_on: true } : {}
        add({ type: 'session.state', body: { from, to: standing.state, why: next.why, ...goesOn } }, at, 'daemon', null)
      }
      const unwanted = takesBack(before, event)
      for (const id of unwanted === 'all' ? docket.openOf(session) : unwanted) {
        const body = { id, answer: { decision: 'withdrawn' as const }, actor: 'daemon', door: 'none' }
        add({ type: 'request.answered', body }, at, 'daemon', null)
      }
    }
    for (const { event, at, n } of fresh) add(event, at, source, n)
    const { stored, head } = insertAll(session, rows, row.head)
    for (const one of stored) project(one)
    const active = rows.findLast(({ event }) => isActivity(event))
    advance.run(row.last_seq + rows.length, Math.max(row.active_at, active?.at ?? 0), head, session)
    const stands = JSON.stringify(standing)
    if (stands !== row.standing) stand.run(stands, session)
    return stored
  }
  /** Within a statement, and with nobody else writing, positions follow each other. */
  const insertAll = (session: SessionId, rows: readonly Row[], head: string | null) => {
    const stored: Event[] = []
    while (stored.length < rows.length) {
      const part = rows.slice(stored.length, stored.length + mostPerInsert)
      const values: (string | number | null)[] = []
      for (const { event, at, origin, n, seq } of part) {
        const body = JSON.stringify(event.body)
        // While the older part of the chain is being filled in, what is new waits for its turn too.
        if (head !== null) head = nextHash(sha256, head, lineOf({ seq, at, source: origin, type: event.type, body }))
        values.push(session, seq, origin, n, at, event.type, body, head)
      }
      const first = Number(inserts[part.length - 1]!.run(...values).lastInsertRowid) - part.length + 1
      for (const [index, { event, at, seq }] of part.entries()) {
        stored.push({ type: event.type, body: event.body, pos: first + index, seq, session, at } as Event)
      }
    }
    return { stored, head }
  }
  const alone = db.transaction(appendAll)
  // Within a transaction already, none of its own is needed.
  const append: EventLog['append'] = (...args) => (db.inTransaction ? appendAll(...args) : alone(...args))

  return {
    append,
    after: (session, seq, limit) => following.all(session, seq, limit).map(toEvent),
    before: (session, seq, limit) => before.all(session, seq, limit).map(toEvent).reverse(),
    afterPos: (pos, limit, seenBy) =>
      (seenBy === null ? afterPos.all(pos, limit) : seenAfter.all({ pos, limit, seenBy })).map(toEvent),
    lastPos: () => lastPos.get()?.pos ?? 0,
    beforePos: (pos, limit, seenBy) =>
      (seenBy === null ? beforePos.all(pos, limit) : seenBefore.all({ pos, limit, seenBy })).map(toEvent).reverse(),
    acts: (before, since, limit, seenBy) => acts.all({ before, since, limit, seenBy }).map(toEvent),
    lastCalls: (limit) => lastCalls.all(limit).map((row) => toEvent(row) as Extract<Event, { type: 'usage' }>),
    pass: (source, n) => void took.run(source, n),
    lastOf,
  }
}

function toEvent({ pos, session_id, seq, at, type, body }: EventRow): Event {
  return { ...parseNewEvent(type, JSON.parse(body)), pos, seq, at, session: session_id as SessionId }
}
