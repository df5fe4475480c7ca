import type { EventBody } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { microsUp } from '@anchorhold/protocol/money'
import type { Database } from 'better-sqlite3'
import type { SpendingFilter, Store } from '../store.ts'
import { seenIds } from './people.ts'
import { perScope, type Scopes } from './per-scope.ts'
import { ofTurns } from './turns.ts'

type Only = { readonly session: string | null; readonly seenBy: string | null; readonly since?: string | null }
type Sum = { simulated: number; calls: number; cost_nanos: number }

/** What removed sessions have cost is kept under whose they were, in the place of a session's id. */
const removed = 'removed/'
/** Whose row of `usage` a filter lets through. */
const seen = `(@seenBy is null or usage.session_id = '${removed}' || @seenBy or usage.session_id in ${seenIds})`
const scopes: Scopes = { all: seen, one: `usage.session_id = @session and ${seen}` }
function rowsOf<Row>(db: Database, sql: (where: string) => string): (filter: Only) => Row[] {
  const statement = perScope<Only, Row>(db, scopes, sql)
  return (filter) => statement(filter).all(filter)
}

const counted = ['calls', 'cost_nanos', 'input', 'output', 'cache_read', 'cache_write'] as const
const columns = ['day', 'session_id', 'model', 'simulated', ...counted].join(', ')
const adding = `on conflict do update set ${counted.map((column) => `${column} = ${column} + excluded.${column}`).join(', ')}`

/** Adds a model call to what its session has cost, or to what removed sessions have. */
export function usageProjection(db: Database): (session: SessionId | null, usage: EventBody<'usage'>, beganMs: number) => void {
  const book = db.prepare(
    `insert into usage (${columns}) values (date(? / 1000, 'unixepoch'), ?, ?, ?, 1, ?, ?, ?, ?, ?) ${adding}`,
  )
  return (session, { model, simulated, cost_nanos, tokens }, beganMs) => {
    const { input, output, cache_read, cache_write } = tokens
    book.run(beganMs, session ?? removed, model, simulated ? 1 : 0, cost_nanos, input, output, cache_read, cache_write)
  }
}

/** Takes a session's name off what it has cost. In the session's place stands its owner, who sees the sum as before. */
export const keepUsageSql = `insert into usage (${columns})
  select day, '${removed}' || (select owner from session where id = session_id), model, simulated, ${counted.join(', ')}
  from usage where session_id = ? ${adding}`

export function sqliteUsage(db: Database): Store['usage'] {
  const sums = `sum(usage.calls) as calls, sum(usage.cost_nanos) as cost_nanos from usage`
  const totals = rowsOf<Sum>(db, (where) => `select simulated, ${sums} where ${where} group by simulated`)
  const days = rowsOf<Sum & { day: string }>(
    db,
    (where) => `select day, simulated, ${sums} where ${where} group by day, simulated order by day desc limit 366`,
  )
  const sessions = rowsOf<Sum & { id: string; name: string }>(
    db,
    (where) => `select session.id, session.name, usage.simulated, ${sums} join session on session.id = usage.session_id
      where ${where} group by session.id, usage.simulated order by sum(usage.cost_nanos) desc limit 500`,
  )
  const models = rowsOf<Sum & { model: string }>(
    db,
    (where) => `select usage.model, usage.simulated, ${sums} where ${where} group by usage.model, usage.simulated
      order by sum(usage.cost_nanos) desc limit 100`,
  )
  const gone = rowsOf<Sum>(
    db,
    (where) => `select simulated, ${sums} where ${where} and usage.session_id >= '${removed}' and usage.session_id < 'removed0'
      group by simulated`,
  )
  const shown = ({ simulated, calls, cost_nanos }: Sum) => ({
    simulated: simulated === 1,
    calls,
    cost_micros: microsUp(cost_nanos),
  })
  return (only) => {
    const all = totals(only).map(shown)
    const total = (simulated: boolean) => {
      const sum = all.find((one) => one.simulated === simulated)
      return { cost_micros: sum?.cost_micros ?? 0, calls: sum?.calls ?? 0 }
    }
    return {
      total: total(false),
      simulated: total(true),
      days: days(only).map((row) => ({ day: row.day, ...shown(row) })),
      removed: gone(only).map(shown),
      sessions: sessions(only).map((row) => ({ id: row.id as SessionId, name: row.name, ...shown(row) })),
      models: models(only).map((row) => ({ model: row.model, ...shown(row) })),
    }
  }
}

/** What each way of summing up goes by, and what it is called for people. */
const ways = {
  session: { key: `coalesce(session.id, '')`, name: `coalesce(session.name, 'Removed sessions')` },
  group: { key: `coalesce(json_extract(session.options, '$.group'), '')`, name: 'null' },
  day: { key: 'usage.day', name: 'null' },
  model: { key: 'usage.model', name: 'null' },
} as const satisfies Record<SpendingFilter['by'], { key: string; name: string }>

export function sqliteSpending(db: Database): Store['spending'] {
  const sums = counted.map((column) => `sum(usage.${column}) as ${column}`).join(', ')
  type Row = { key: string; name: string | null; simulated: number } & Record<(typeof counted)[number], number>
  const prepared = Object.entries(ways).map(([by, { key, name }]) => {
    const sql = (where: string) => `select ${key} as key, ${name} as name, usage.simulated, ${sums}
      from usage left join session on session.id = usage.session_id where ${where} and (@since is null or usage.day >= @since)
      group by 1, usage.simulated order by ${by === 'day' ? '1 desc' : 'sum(usage.cost_nanos) desc'}, usage.simulated`
    return [by, rowsOf<Row>(db, sql)] as const
  })
  const statements = Object.fromEntries(prepared) as Record<SpendingFilter['by'], (typeof prepared)[number][1]>
  return ({ by, ...filter }) =>
    statements[by](filter).map(({ simulated, cost_nanos, input, output, cache_read, cache_write, ...row }) => ({
      ...row,
      simulated: simulated === 1,
      tokens: { input, output, cache_read, cache_write },
      cost_nanos,
      cost_micros: microsUp(cost_nanos),
    }))
}

export function sqliteCalls(db: Database): Store['calls'] {
  const calls = db.prepare<[string], { requests: number; errors: number | null; mean_ms: number | null }>(
    `select count(*) as requests, sum(json_extract(body, '$.status') >= 400) as errors, avg(json_extract(body, '$.duration_ms')) as mean_ms
     from event where session_id = ? and ${ofTurns} and type = 'usage'`,
  )
  return (session) => {
    const { requests, errors, mean_ms } = calls.get(session)!
    return { requests, errors: errors ?? 0, meanMs: mean_ms === null ? null : Math.round(mean_ms) }
  }
}
