import { firstHash, hashedLine, lineOf, nextHash } from '@anchorhold/core/chain'
import type { LogName } from '@anchorhold/protocol/heads'
import { houseBodies, type HouseEvent, type HouseEventType } from '@anchorhold/protocol/house'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import { hash as digest } from 'node:crypto'
import type { Chains, HouseLog } from '../store.ts'

type Row = { seq: number; at: number; source: string; type: string; body: string; hash: string }

export const sha256 = (text: string): string => digest('sha256', text)
/** Whoever changes the house's log says so here: the source of all that stands in it. */
const houseSource = 'daemon'
/** A body may be some megabytes, so a page holds few. */
const linesPerPage = 32
const chainedAtOnce = 500

/** What every log's chain has in common: where it stands, its lines as they are exported, and its older part being filled in. */
export function sqliteChains(db: Database): Chains {
  const headOf = db.prepare<[string], { seq: number; hash: string | null }>(
    `select last_seq as seq, head as hash from session where id = ?`,
  )
  const houseHead = db.prepare<[], { seq: number; hash: string }>(`select seq, hash from house_event order by seq desc limit 1`)
  const lines = db.prepare<[string, number, number, number], Row>(
    `select seq, at, source, type, body, hash from event where session_id = ? and seq > ? and seq <= ? order by seq limit ?`,
  )
  const houseLines = db.prepare<[number, number, number], Omit<Row, 'source'>>(
    `select seq, at, type, body, hash from house_event where seq > ? and seq <= ? order by seq limit ?`,
  )
  const anyUnchained = db.prepare<[], { session_id: string }>(`select session_id from unchained limit 1`)
  const unchained = db.prepare<[string], { seq: number; hash: string | null }>(
    `select seq, hash from unchained where session_id = ?`,
  )
  const setHash = db.prepare(`update event set hash = ? where session_id = ? and seq = ?`)
  const reached = db.prepare(`update unchained set seq = ?, hash = ? where session_id = ?`)
  const setHead = db.prepare(`update session set head = ? where id = ?`)
  const chained = db.prepare(`delete from unchained where session_id = ?`)

  /** Takes a session's chain a bounded step further. When it has caught up with the log, storing goes on from there. */
  const step = db.transaction((session: SessionId): boolean => {
    const from = unchained.get(session)
    if (from === undefined) return false
    let { seq, hash } = { seq: from.seq, hash: from.hash ?? firstHash(sha256, session) }
    const rows = lines.all(session, seq, Number.MAX_SAFE_INTEGER, chainedAtOnce)
    for (const row of rows) {
      hash = nextHash(sha256, hash, lineOf(row))
      setHash.run(hash, session, row.seq)
      seq = row.seq
    }
    if (rows.length === chainedAtOnce) {
      reached.run(seq, hash, session)
      return true
    }
    setHead.run(hash, session)
    chained.run(session)
    return false
  })

  return {
    head(log) {
      const row = log === 'house' ? houseHead.get() : headOf.get(log)
      if (row === undefined) return log === 'house' ? { seq: 0, hash: firstHash(sha256, log) } : null
      return row.hash === null ? null : { seq: row.seq, hash: row.hash }
    },
    lines(log, after, to) {
      const rows = log === 'house' ? houseLines.all(after, to, linesPerPage) : lines.all(log, after, to, linesPerPage)
      return rows.map((row) => ({
        seq: row.seq,
        line: hashedLine(lineOf({ source: houseSource, ...row }), row.hash),
      }))
    },
    fill(session) {
      if (session !== undefined) return step(session)
      const next = anyUnchained.get()
      if (next === undefined) return false
      step(next.session_id as SessionId)
      return true
    },
  }
}

export function sqliteHouseLog(db: Database): HouseLog {
  const insert = db.prepare(`insert into house_event (seq, at, type, body, hash) values (?, ?, ?, ?, ?)`)
  const last = db.prepare<[], { seq: number; hash: string }>(`select seq, hash from house_event order by seq desc limit 1`)
  const before = db.prepare<[number, number], Omit<Row, 'source' | 'hash'>>(
    `select seq, at, type, body from house_event where seq < ? order by seq desc limit ?`,
  )
  const log: LogName = 'house'
  const append = db.transaction((at: number, { type, body: said }: Parameters<HouseLog['append']>[1]) => {
    const { seq, hash } = last.get() ?? { seq: 0, hash: firstHash(sha256, log) }
    const body = JSON.stringify(said)
    const line = lineOf({ seq: seq + 1, at, source: houseSource, type, body })
    insert.run(seq + 1, at, type, body, nextHash(sha256, hash, line))
  })
  return {
    append,
    before: (seq, limit) =>
      before
        .all(seq, limit)
        .map(
          ({ type, body, ...row }) =>
            ({ ...row, type, body: houseBodies[type as HouseEventType].parse(JSON.parse(body)) }) as HouseEvent,
        )
        .reverse(),
  }
}
