import { periodOf, type Span, spans } from '@anchorhold/core/ledger'
import type { EventBody, NodeName } from '@anchorhold/protocol/events'
import type { Nanos } from '@anchorhold/protocol/money'
import type { Database } from 'better-sqlite3'
import type { LedgerTable } from '../store.ts'

const minuteMs = 60_000
/** The row of a node's whole life. */
const life = -1
/** Longer ago than any day or tick that may still be asked for: a policy's tick may be a year. */
const keptMinutes = 367 * 24 * 60
/** What a session and its sub-agents spend is known from the session's own sum, and from the gate alone. */
const isTold = (name: NodeName) => /^(owner$|policy\/|group\/)/.test(name)

const add = `insert into ledger (node, simulated, minute, nanos) values (?, ?, ?, ?)
  on conflict do update set nanos = nanos + excluded.nanos`

/** Within a period a cap is only ever raised. */
export const raiseSql = `insert into raise (node, simulated, span, period, nanos) values (?, ?, ?, ?, ?)
  on conflict do update set period = excluded.period,
    nanos = case when period = excluded.period then max(nanos, excluded.nanos) else excluded.nanos end`

/** Books what a call cost at every node that it went through. */
export function ledgerProjection(db: Database): (usage: EventBody<'usage'>, beganMs: number) => void {
  const book = db.prepare<[string, number, number, number]>(add)
  return ({ nodes = [], simulated, cost_nanos }, beganMs) => {
    for (const name of nodes.filter(isTold)) {
      for (const minute of [life, Math.floor(beganMs / minuteMs)]) book.run(name, simulated ? 1 : 0, minute, cost_nanos)
    }
  }
}

export function sqliteLedger(db: Database): LedgerTable {
  db.exec(`delete from ledger where minute >= 0 and minute < (select max(minute) from ledger) - ${keptMinutes}`)
  // Every call goes through the owner, so that the end of two ranges of the key tells, however long the books are.
  const latest = db.prepare<[number], { minute: number | null }>(
    `select max(minute) as minute from ledger where node = 'owner' and simulated = ?`,
  )
  const between = db.prepare<[string, number, number, number], { nanos: number | null }>(
    `select sum(nanos) as nanos from ledger where node = ? and simulated = ? and minute >= ? and minute < ?`,
  )
  const seen = db.prepare<[], { node: string; simulated: number }>(
    `select node, simulated from ledger where minute = ${life} union select node, 0 from cap order by 1, 2`,
  )
  const seenAs = db.prepare<[string, string], { simulated: number }>(
    `select simulated from ledger where node = ? and minute = ${life} union select 0 from cap where node = ? order by 1`,
  )
  const caps = db.prepare<[string], { span: Span; nanos: number }>(`select span, nanos from cap where node = ?`)
  const setCap = db.prepare(
    `insert into cap (node, span, nanos) values (?, ?, ?) on conflict do update set nanos = excluded.nanos`,
  )
  const dropCap = db.prepare(`delete from cap where node = ? and span = ?`)
  const raises = db.prepare<[string, number], { span: Span; period: number; nanos: number }>(
    `select span, period, nanos from raise where node = ? and simulated = ?`,
  )
  const raise = db.prepare(raiseSql)
  const dropRaises = db.prepare(`delete from raise where node = ? and span = ?`)
  return {
    latestMs: () => Math.max(0, ...[0, 1].map((simulated) => latest.get(simulated)?.minute ?? 0)) * minuteMs,
    spent(node, simulated, atMs, tickMs) {
      const sum = (span: Span): Nanos => {
        const [from, to] =
          span === 'life'
            ? [life, 0]
            : [0, 1].map((more) => ((periodOf(span, atMs, tickMs) + more) * (span === 'day' ? dayMs : tickMs)) / minuteMs)
        return between.get(node, simulated ? 1 : 0, from!, to!)?.nanos ?? 0
      }
      return Object.fromEntries(spans.map((span) => [span, sum(span)])) as Record<Span, Nanos>
    },
    nodes: () => seen.all().map(({ node, simulated }) => ({ node, simulated: simulated === 1 })),
    seenAs: (node) => seenAs.all(node, node).map(({ simulated }) => simulated === 1),
    caps: (node) => Object.fromEntries(caps.all(node).map(({ span, nanos }) => [span, nanos])),
    setCap(node, span, nanos) {
      if (nanos === null) dropCap.run(node, span)
      else setCap.run(node, span, nanos)
      dropRaises.run(node, span)
    },
    raise: (node, simulated, span, period, nanos) => void raise.run(node, simulated ? 1 : 0, span, period, nanos),
    raises: (node, simulated) => raises.all(node, simulated ? 1 : 0),
  }
}

const dayMs = 24 * 60 * minuteMs
