import type { NetHost } from '@anchorhold/protocol/api/records'
import { eventBodies } from '@anchorhold/protocol/events'
import type { Database } from 'better-sqlite3'
import type { Store } from '../store.ts'
import { seenIds } from './people.ts'

export function sqliteNet(db: Database): Store['net'] {
  const ofOne = db.prepare<[{ session: string; since: number }], { at: number; body: string }>(
    `select at, body from event where session_id = @session and type = 'net' and at >= @since order by seq`,
  )
  const ofAll = db.prepare<[{ since: number; seenBy: string | null }], { at: number; body: string }>(
    `select at, body from event indexed by event_net where type = 'net' and at >= @since
       and (@seenBy is null or session_id in ${seenIds}) order by pos`,
  )
  return ({ session, since, seenBy }) => {
    const hosts = new Map<string, NetHost>()
    const events = session === null ? ofAll.iterate({ since, seenBy }) : ofOne.iterate({ session, since })
    for (const { at, body } of events) {
      const one = eventBodies.net.parse(JSON.parse(body))
      const key = `${one.host} ${one.port}`
      const before = hosts.get(key)
      hosts.set(key, {
        host: one.host,
        port: one.port,
        connections: one.connections + (before?.connections ?? 0),
        bytes_out: one.bytes_out + (before?.bytes_out ?? 0),
        bytes_in: one.bytes_in + (before?.bytes_in ?? 0),
        blocked: one.blocked + (before?.blocked ?? 0),
        why: one.why ?? before?.why ?? null,
        secrets: added(before?.secrets ?? [], one.secrets),
        last_at: at,
      })
    }
    return [...hosts.values()].sort(
      (a, b) => Number(b.blocked > 0) - Number(a.blocked > 0) || b.bytes_out + b.bytes_in - a.bytes_out - a.bytes_in,
    )
  }
}

type Used = NetHost['secrets']
function added(before: Used, more: Used): Used {
  const counts = new Map(before.map(({ name, count }) => [name, count]))
  for (const { name, count } of more) counts.set(name, count + (counts.get(name) ?? 0))
  return [...counts].map(([name, count]) => ({ name, count }))
}
