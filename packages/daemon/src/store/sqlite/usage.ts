import type { SessionId } from '@anchorhold/protocol/ids'
import { microsUp } from '@anchorhold/protocol/money'
import type { Database } from 'better-sqlite3'
import type { SpendingFilter, Store } from '../store.ts'
import { seenIds } from './people.ts'

type Only = { readonly session: string | null; readonly seenBy: string | null }
type Sum = { simulated: number; calls: number; cost_nanos: number }

export function sqliteUsage(db: Database): Store['usage'] {
  const sums = `sum(usage.calls) as calls, sum(usage.cost_nanos) as cost_nanos from usage`
  const mine = `where (@session is null or usage.session_id = @session) and (@seenBy is null or usage.session_id in ${seenIds})`
  const totals = db.prepare<[Only], Sum>(`select simulated, ${sums} ${mine} group by simulated`)
  const days = db.prepare<[Only], Sum & { day: string }>(
    `select day, simulated, ${sums} ${mine} group by day, simulated order by day desc limit 366`,
  )
  const sessions = db.prepare<[Only], Sum & { id: string; name: string }>(
    `select session.id, session.name, usage.simulated, ${sums} join session on session.id = usage.session_id ${mine}
     group by session.id, usage.simulated order by sum(usage.cost_nanos) desc limit 500`,
  )
  const models = db.prepare<[Only], Sum & { model: string }>(
    `select usage.model, usage.simulated, ${sums} ${mine} group by usage.model, usage.simulated order by sum(usage.cost_nanos) desc limit 100`,
  )
  const shown = ({ simulated, calls, cost_nanos }: Sum) => ({
    simulated: simulated === 1,
    calls,
    cost_micros: microsUp(cost_nanos),
  })
  return (only) => {
    const all = totals.all(only).map(shown)
    const total = (simulated: boolean) => {
      const sum = all.find((one) => one.simulated === simulated)
      return { cost_micros: sum?.cost_micros ?? 0, calls: sum?.calls ?? 0 }
    }
    return {
      total: total(false),
      simulated: total(true),
      days: days.all(only).map((row) => ({ day: row.day, ...shown(row) })),
      sessions: sessions.all(only).map((row) => ({ id: row.id as SessionId, name: row.name, ...shown(row) })),
      models: models.all(only).map((row) => ({ model: row.model, ...shown(row) })),
    }
  }
}

/** What each way of summing up goes by, and what it is called for people. */
const ways = {
  session: { key: 'usage.session_id', name: 'session.name' },
  group: { key: `coalesce(json_extract(session.options, '$.group'), '')`, name: 'null' },
  day: { key: 'usage.day', name: 'null' },
  model: { key: 'usage.model', name: 'null' },
} as const satisfies Record<SpendingFilter['by'], { key: string; name: string }>

export function sqliteSpending(db: Database): Store['spending'] {
  const columns = ['calls', 'input', 'output', 'cache_read', 'cache_write', 'cost_nanos'] as const
  const sums = columns.map((column) => `sum(usage.${column}) as ${column}`).join(', ')
  type Row = { key: string; name: string | null; simulated: number } & Record<(typeof columns)[number], number>
  const prepared = Object.entries(ways).map(([by, { key, name }]) => {
    const sql = `select ${key} as key, ${name} as name, usage.simulated, ${sums} from usage join session on session.id = usage.session_id
      where (@session is null or usage.session_id = @session) and (@seenBy is null or usage.session_id in ${seenIds})
        and (@since is null or usage.day >= @since)
      group by 1, usage.simulated order by ${by === 'day' ? '1 desc' : 'sum(usage.cost_nanos) desc'}, usage.simulated`
    return [by, db.prepare<[Only & { since: string | null }], Row>(sql)] as const
  })
  const statements = Object.fromEntries(prepared) as Record<SpendingFilter['by'], (typeof prepared)[number][1]>
  return ({ by, ...filter }) =>
    statements[by].all(filter).map(({ simulated, cost_nanos, input, output, cache_read, cache_write, ...row }) => ({
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
     from event where session_id = ? and type = 'usage'`,
  )
  return (session) => {
    const { requests, errors, mean_ms } = calls.get(session)!
    return { requests, errors: errors ?? 0, meanMs: mean_ms === null ? null : Math.round(mean_ms) }
  }
}
