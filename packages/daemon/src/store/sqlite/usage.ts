import type { SessionId } from '@anchorhold/protocol/ids'
import { microsUp } from '@anchorhold/protocol/money'
import type { Database } from 'better-sqlite3'
import type { Store } from '../store.ts'

type Sum = { simulated: number; calls: number; cost_nanos: number }

export function sqliteUsage(db: Database): Store['usage'] {
  const sums = `sum(usage.calls) as calls, sum(usage.cost_nanos) as cost_nanos from usage`
  const mine = `where ?1 is null or usage.session_id = ?1`
  const totals = db.prepare<[string | null], Sum>(`select simulated, ${sums} ${mine} group by simulated`)
  const days = db.prepare<[string | null], Sum & { day: string }>(
    `select day, simulated, ${sums} ${mine} group by day, simulated order by day desc limit 366`,
  )
  const sessions = db.prepare<[string | null], Sum & { id: string; name: string }>(
    `select session.id, session.name, usage.simulated, ${sums} join session on session.id = usage.session_id ${mine}
     group by session.id, usage.simulated order by sum(usage.cost_nanos) desc limit 500`,
  )
  const shown = ({ simulated, calls, cost_nanos }: Sum) => ({
    simulated: simulated === 1,
    calls,
    cost_micros: microsUp(cost_nanos),
  })
  return (session) => {
    const all = totals.all(session).map(shown)
    const total = (simulated: boolean) => {
      const sum = all.find((one) => one.simulated === simulated)
      return { cost_micros: sum?.cost_micros ?? 0, calls: sum?.calls ?? 0 }
    }
    return {
      total: total(false),
      simulated: total(true),
      days: days.all(session).map((row) => ({ day: row.day, ...shown(row) })),
      sessions: sessions.all(session).map((row) => ({ id: row.id as SessionId, name: row.name, ...shown(row) })),
    }
  }
}
