import type { SessionId } from '@anchorhold/protocol/ids'
import { microsUp } from '@anchorhold/protocol/money'
import type { Database } from 'better-sqlite3'
import type { Store } from '../store.ts'
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
    }
  }
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
