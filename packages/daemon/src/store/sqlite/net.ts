import type { NetHost } from '@anchorhold/protocol/api/records'
import type { EventBody } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Database } from 'better-sqlite3'
import type { Store } from '../store.ts'
import { seenIds } from './people.ts'
import { perScope, type Scopes } from './per-scope.ts'

const dayMs = 24 * 60 * 60 * 1000
/** So many hosts are told apart; a cell can ask for any number. */
const hostsMax = 1000

/** Adds what went through a window to the sums of its day. What named no host is under none. */
export function netProjection(db: Database): (session: SessionId, net: EventBody<'net'>, atMs: number) => void {
  const counted = ['connections', 'bytes_out', 'bytes_in', 'blocked'].map((name) => `${name} = ${name} + excluded.${name}`)
  const add = db.prepare(
    `insert into net_day (session_id, day, host, port, connections, bytes_out, bytes_in, blocked, why, last_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do update set ${counted.join(', ')},
       why = coalesce(excluded.why, why), last_at = max(last_at, excluded.last_at)`,
  )
  const addSecret = db.prepare(
    `insert into net_secret (session_id, day, host, port, name, count) values (?, ?, ?, ?, ?, ?)
     on conflict do update set count = count + excluded.count`,
  )
  return (session, { host, port, connections, bytes_out, bytes_in, blocked, why, secrets }, atMs) => {
    const key = [session, Math.floor(atMs / dayMs), host ?? '', port ?? 0]
    add.run(...key, connections, bytes_out, bytes_in, blocked, why, atMs)
    for (const { name, count } of secrets) addSecret.run(...key, name, count)
  }
}

type Filter = {
  readonly session: string | null
  readonly seenBy: string | null
  readonly since: number
  /** The first day that lies after `since` as a whole. */
  readonly day: number
}
type HostRow = Omit<NetHost, 'host' | 'port' | 'secrets'> & { readonly host: string; readonly port: number }
type SecretRow = { readonly host: string; readonly port: number; readonly name: string; readonly count: number }

const seen = `(@seenBy is null or session_id in ${seenIds})`
const scopes: Scopes = { all: seen, one: `session_id = @session and ${seen}` }

/** Of the day that `since` lies in, the events themselves; of those after it, their sums. */
const sums = (where: string) => `
  select host, port, sum(connections) as connections, sum(bytes_out) as bytes_out, sum(bytes_in) as bytes_in,
    sum(blocked) as blocked, substr(max(printf('%020d', last_at) || why), 21) as why, max(last_at) as last_at
  from (
    select host, port, connections, bytes_out, bytes_in, blocked, why, last_at from net_day where day >= @day and ${where}
    union all
    select ${ofEvent('host')}, ${ofEvent('port')}, body ->> 'connections', body ->> 'bytes_out', body ->> 'bytes_in', body ->> 'blocked',
      body ->> 'why', at from event indexed by event_net where ${beforeDay} and ${where}
  ) group by host, port order by sum(blocked) > 0 desc, sum(bytes_out) + sum(bytes_in) desc, last_at desc`
const secretSums = (where: string) => `
  select host, port, name, sum(count) as count from (
    select host, port, name, count from net_secret where day >= @day and ${where}
    union all
    select ${ofEvent('host')}, ${ofEvent('port')}, secret.value ->> 'name', secret.value ->> 'count'
      from event indexed by event_net, json_each(body, '$.secrets') as secret where ${beforeDay} and ${where}
  ) group by host, port, name order by name`
const beforeDay = `event.type = 'net' and event.at >= @since and event.at < @day * ${dayMs}`
function ofEvent(name: 'host' | 'port'): string {
  return `coalesce(body ->> '${name}', ${name === 'host' ? `''` : 0})`
}

export function sqliteNet(db: Database): Store['net'] {
  const hosts = perScope<Filter, HostRow>(db, scopes, sums)
  const secrets = perScope<Filter, SecretRow>(db, scopes, secretSums)
  return (filter) => {
    const only = { ...filter, day: Math.ceil(filter.since / dayMs) }
    const told = new Map<string, NetHost>()
    for (const { host, port, ...row } of hosts(filter).iterate(only)) {
      const key = told.size < hostsMax || host === '' ? keyOf({ host, port }) : keyOf(theRest)
      const before = told.get(key)
      told.set(
        key,
        before === undefined ? { ...named(key, { host, port }), ...row, secrets: [] } : { ...before, ...together(before, row) },
      )
    }
    for (const { host, port, name, count } of secrets(filter).iterate(only)) {
      const one = told.get(keyOf({ host, port })) ?? told.get(keyOf(theRest))
      const known = one?.secrets.find((secret) => secret.name === name)
      if (known !== undefined) known.count += count
      else one?.secrets.push({ name, count })
    }
    return [...told.values()]
  }
}

const theRest = { host: '', port: 0 }
const keyOf = ({ host, port }: { readonly host: string; readonly port: number }) => `${host} ${port}`
const named = (key: string, { host, port }: { readonly host: string; readonly port: number }) =>
  key === keyOf(theRest) ? { host: null, port: null } : { host: host === '' ? null : host, port: port === 0 ? null : port }

function together(one: Omit<NetHost, 'host' | 'port' | 'secrets'>, other: Omit<NetHost, 'host' | 'port' | 'secrets'>) {
  return {
    connections: one.connections + other.connections,
    bytes_out: one.bytes_out + other.bytes_out,
    bytes_in: one.bytes_in + other.bytes_in,
    blocked: one.blocked + other.blocked,
    why: one.why ?? other.why,
    last_at: Math.max(one.last_at, other.last_at),
  }
}
