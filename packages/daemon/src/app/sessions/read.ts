import { type Actor, may, seenBy } from '@anchorhold/core/actors'
import type { Spending, TurnCost, Usage } from '@anchorhold/protocol/api/money'
import type { NetHost } from '@anchorhold/protocol/api/records'
import type { Event } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Network, Session, SessionState } from '@anchorhold/protocol/sessions'
import type { Found, SpendingFilter } from '../../store/store.ts'
import type { Seen } from '../../hub.ts'
import { type Parts, type Reads, require, sessionFor, shown } from '../parts.ts'

export function getSession(parts: Reads, actor: Actor, id: SessionId): Session {
  require(parts, actor, 'session.read', id)
  return shown(sessionFor(parts, id, null))
}

export type SessionFilter = {
  readonly archived: boolean
  readonly state: SessionState | null
  /** Only those that wait for an answer. */
  readonly needing?: boolean
  readonly before: number | null
  readonly limit: number
}

export function listSessions(
  parts: Reads,
  actor: Actor,
  filter: SessionFilter,
): { readonly sessions: Session[]; readonly more: boolean } {
  require(parts, actor, 'house.read')
  const rows = parts.store.sessions.list({ ...filter, seenBy: seenBy(actor), limit: filter.limit + 1 })
  const next = rows[filter.limit]
  if (next === undefined) return { sessions: rows.map(shown), more: false }
  // The next page begins before an instant: those of one instant are on one page, or some would be on none.
  const whole = rows.findLastIndex(({ active_at }) => active_at !== next.active_at) + 1
  if (whole === 0) return listSessions(parts, actor, { ...filter, limit: 2 * filter.limit })
  return { sessions: rows.slice(0, whole).map(shown), more: true }
}

export type EventRange = { readonly after: number | null; readonly before: number | null; readonly limit: number }
type EventPage = { readonly events: Event[]; readonly more: boolean }

export function sessionEvents(parts: Reads, actor: Actor, id: SessionId, { after, before, limit }: EventRange): EventPage {
  require(parts, actor, 'session.read', id)
  const log = parts.store.events
  return before === null
    ? forwards(log.after(id, after ?? 0, limit + 1), limit)
    : backwards(log.before(id, before, limit + 1), limit)
}

export function allEvents(parts: Reads, actor: Actor, { after, before, limit }: EventRange): EventPage {
  require(parts, actor, 'house.read')
  const log = parts.store.events
  return before === null
    ? forwards(log.afterPos(after ?? 0, limit + 1, seenBy(actor)), limit)
    : backwards(log.beforePos(before, limit + 1, seenBy(actor)), limit)
}

const forwards = (events: readonly Event[], limit: number) => ({ events: events.slice(0, limit), more: events.length > limit })
const backwards = (events: readonly Event[], limit: number) => ({ events: events.slice(-limit), more: events.length > limit })

export function watchSession(
  parts: Reads & Pick<Parts, 'hub'>,
  actor: Actor,
  id: SessionId,
  after: number,
  signal: AbortSignal,
): AsyncIterable<Seen> {
  require(parts, actor, 'session.read', id)
  return parts.hub.watch({ session: id, after, read: (seq, limit) => parts.store.events.after(id, seq, limit), signal })
}

export function watchAll(
  parts: Reads & Pick<Parts, 'hub'>,
  actor: Actor,
  after: number,
  signal: AbortSignal,
): AsyncIterable<Seen> {
  require(parts, actor, 'house.read')
  const last = parts.store.events.lastPos()
  // Numbers begin anew where older files were put back: whoever waited behind them would hear nothing for as long as that takes.
  if (after > last)
    throw new Failure('conflict', `Nothing is known up to event ${after}: this house has had ${last}`, {
      hint: 'Its database was put back from a backup. Read it anew',
    })
  const only = seenBy(actor)
  const all = parts.hub.watch({
    session: null,
    after,
    read: (pos, limit) => parts.store.events.afterPos(pos, limit, only),
    end: () => parts.store.events.lastPos(),
    signal,
  })
  return only === null ? all : seenOf(parts, actor, all)
}

/** What is being said right now is no part of the log: it is held against what its session is to the watcher. */
async function* seenOf(parts: Reads, actor: Actor, all: AsyncIterable<Seen>): AsyncIterable<Seen> {
  for await (const seen of all) {
    const session = 'event' in seen ? seen.event.session : seen.session
    if (may(actor, 'session.read', parts.store.people.ties(session) ?? undefined)) yield seen
  }
}

export function search(
  parts: Reads,
  actor: Actor,
  query: { readonly q: string; readonly session: SessionId | null; readonly limit: number; readonly perSession: number | null },
): Omit<Found, 'sessions'> & { readonly sessions: readonly Session[] } {
  if (query.session === null) require(parts, actor, 'house.read')
  else require(parts, actor, 'session.read', query.session)
  const found = parts.store.search({ ...query, seenBy: seenBy(actor) })
  return { ...found, sessions: found.sessions.map((id) => shown(sessionFor(parts, id, null))) }
}

export function usage(parts: Reads, actor: Actor, session: SessionId | null): Usage {
  if (session === null) require(parts, actor, 'house.read')
  else require(parts, actor, 'session.read', session)
  return parts.store.usage({ session, seenBy: seenBy(actor) })
}

export function spending(
  parts: Reads,
  actor: Actor,
  { session, ...query }: Pick<SpendingFilter, 'session' | 'by' | 'since'>,
): readonly Spending[] {
  if (session === null) require(parts, actor, 'house.read')
  else require(parts, actor, 'session.read', session)
  return parts.store.spending({ session, ...query, seenBy: seenBy(actor) })
}

const turnsShown = 200

export function turnCosts(parts: Reads, actor: Actor, id: SessionId): readonly TurnCost[] {
  require(parts, actor, 'session.read', id)
  return parts.store.turns(id, turnsShown)
}

/** What left all the sessions that one sees. */
export function net(parts: Reads, actor: Actor, since: number): readonly NetHost[] {
  require(parts, actor, 'house.read')
  return parts.store.net({ session: null, since, seenBy: seenBy(actor) })
}

export function sessionNet(
  parts: Reads,
  actor: Actor,
  id: SessionId,
  since: number,
): { readonly network: Network; readonly hosts: NetHost[] } {
  require(parts, actor, 'session.read', id)
  return { network: sessionFor(parts, id, null).network, hosts: [...parts.store.net({ session: id, since, seenBy: null })] }
}
