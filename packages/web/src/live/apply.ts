import type { Status } from '@anchorhold/protocol/api/daemon'
import type { Usage } from '@anchorhold/protocol/api/money'
import type { SearchAnswer } from '@anchorhold/protocol/api/records'
import { newestPage } from '@anchorhold/protocol/api/addresses'
import type { Request } from '@anchorhold/protocol/requests'
import type { Client } from '@anchorhold/protocol/client'
import { isFailure } from '@anchorhold/protocol/failures'
import type { Event, EventType } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import type { QueryClient } from '@tanstack/react-query'
import { type Log, newest, withLater, withNews } from '../log/log.ts'
import { hearLive, hearStored, type Saying, silence } from '../log/saying.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { merged, patched, type SessionList, type SessionRow } from './session-rows.ts'
import type { Heard } from './stream.ts'

/** Where each thing lies in the cache. */
export const keys = {
  sessions: (archived: boolean) => ['sessions', archived] as const,
  session: (id: string) => ['session', id] as const,
  log: (id: string) => ['log', id] as const,
  saying: (id: string) => ['saying', id] as const,
  requests: ['requests'] as const,
  usage: ['usage'] as const,
  status: ['status'] as const,
  search: (q: string, limit: number, session: string | null) => ['search', q, limit, session] as const,
}
export type Cached = {
  readonly sessions: SessionList
  readonly requests: readonly Request[]
  readonly usage: Usage
  readonly status: Status
  readonly search: SearchAnswer
}

/** Which events change what a session's row says, beside its number and time. */
const ofTheRow = new Set<EventType>([
  'session.created',
  'session.changed',
  'session.shared',
  'session.state',
  'prompt.queued',
  'prompt',
  'prompt.dropped',
  'request.opened',
  'request.answered',
  'usage',
  'turn.ended',
  'workspace.at',
  'keeper.started',
])
const ofRequests = new Set<EventType>(['request.opened', 'request.answered', 'request.deferred'])

/** Rows are fetched at most this often. */
const rowMs = 150
const usageMs = 2000
export const pageEvents = newestPage.limit

export type ApplyOptions = {
  readonly cache: QueryClient
  readonly daemon: Client
  readonly outbox: Outbox
  /** These requests have an answer, wherever it was given. */
  readonly settled: (requests: ReadonlySet<string>) => void
}

/** The one place where events become what the page shows. */
export function applyTo({ cache, daemon, outbox, settled }: ApplyOptions): (heard: readonly Heard[]) => void {
  const stale = new Set<SessionId>()
  let fetching: ReturnType<typeof setTimeout> | undefined
  let usageStale: ReturnType<typeof setTimeout> | undefined

  /** The daemon adds up what a session's events amount to; the page asks it, once for many events. */
  const touch = (session: SessionId) => {
    stale.add(session)
    fetching ??= setTimeout(() => {
      const all = [...stale]
      stale.clear()
      fetching = undefined
      for (const id of all) void refreshSession({ cache, daemon }, id)
    }, rowMs)
  }

  return (heard) => {
    const news = Map.groupBy(heard, (one) => ('event' in one ? one.event.session : one.session))
    for (const [session, list] of news) {
      const events = list.flatMap((one) => ('event' in one ? [one.event] : []))
      const before = cache.getQueryData<Saying>(keys.saying(session)) ?? silence
      const after = list.reduce(
        (saying, one) => ('live' in one ? hearLive(saying, one.live) : hearStored(saying, one.event)),
        before,
      )
      appendToLog(session, events)
      if (after !== before) cache.setQueryData<Saying>(keys.saying(session), after)
      outbox.seen(new Set(events.flatMap(promptIn)))
      if (events.length > 0) patchRows(session, events)
      if (events.some(({ type }) => ofTheRow.has(type))) touch(session)
      if (events.some(({ type }) => ofRequests.has(type))) applyToRequests(events)
      if (events.some(({ type }) => type === 'usage'))
        usageStale ??= setTimeout(() => {
          usageStale = undefined
          void cache.invalidateQueries({ queryKey: keys.usage })
        }, usageMs)
    }
  }

  function appendToLog(session: SessionId, news: readonly Event[]): void {
    const log = cache.getQueryData<Log>(keys.log(session))
    if (log === undefined || news.length === 0) return
    const next = withNews(log, news)
    // Something lies between what the page holds and what the stream brought: it is read from the log.
    if (next === null) void catchUp({ cache, daemon }, session)
    else if (next !== log) cache.setQueryData<Log>(keys.log(session), next)
  }

  /** What can be told without the daemon is shown at once. */
  function patchRows(session: SessionId, events: readonly Event[]): void {
    cache.setQueryData<SessionRow>(keys.session(session), (row) => row && patched(row, events))
    for (const archived of [false, true])
      cache.setQueryData<SessionList>(
        keys.sessions(archived),
        (list) => list && { ...list, sessions: list.sessions.map((row) => (row.id === session ? patched(row, events) : row)) },
      )
  }

  function applyToRequests(events: readonly Event[]): void {
    const answered = new Set<string>(events.flatMap((event) => (event.type === 'request.answered' ? [event.body.id] : [])))
    cache.setQueryData<readonly Request[]>(keys.requests, (list) => list?.filter(({ id }) => !answered.has(id)))
    void cache.invalidateQueries({ queryKey: keys.requests })
    if (answered.size > 0) settled(answered)
  }
}

const promptIn = (event: Event): readonly string[] =>
  event.type === 'prompt.queued' || event.type === 'prompt' ? [event.body.id] : []

type Where = Pick<ApplyOptions, 'cache' | 'daemon'>

/** Reads whatever of a log lies behind what is held. */
export async function catchUp({ cache, daemon }: Where, session: SessionId): Promise<void> {
  for (;;) {
    const log = cache.getQueryData<Log>(keys.log(session))
    if (log === undefined || log.later) return
    const asked = daemon.sessionEvents({ params: { id: session }, query: { after: log.last, limit: 500 } })
    const page = await asked.catch((error: unknown) => {
      if (isGone(error)) dropSession(cache, session)
      return null
    })
    if (page === null) return
    const now = cache.getQueryData<Log>(keys.log(session))
    // Another part of the log may have been opened meanwhile: the page does not join onto that.
    if (now === undefined || now.later || now.last < log.last) return
    cache.setQueryData<Log>(keys.log(session), { ...withLater(now, page), later: false })
    if (!page.more) return
  }
}

export const newestOf = async (daemon: Client, id: SessionId): Promise<Log> =>
  newest(await daemon.sessionEvents({ params: { id }, query: newestPage }))

/** The newest page of a log; the rest comes when somebody scrolls there. */
export async function openLog({ cache, daemon }: Where, id: SessionId): Promise<void> {
  await cache.fetchQuery({ queryKey: keys.log(id), queryFn: () => newestOf(daemon, id) })
  // What the stream brought while the page was under way had nothing to be added to.
  await catchUp({ cache, daemon }, id)
}

/** The same in the place of another part of it. */
export async function showNewest({ cache, daemon }: Where, id: SessionId): Promise<void> {
  cache.setQueryData<Log>(keys.log(id), await newestOf(daemon, id))
  await catchUp({ cache, daemon }, id)
}

/** Brings a session's row up to date wherever it is shown. */
export async function refreshSession({ cache, daemon }: Where, id: SessionId): Promise<void> {
  try {
    putSession(cache, await daemon.getSession({ params: { id } }))
  } catch (error) {
    if (isGone(error)) dropSession(cache, id)
  }
}

const isGone = (error: unknown): boolean => isFailure(error) && error.code === 'not_found'

/** It was purged, or is no longer shared: all that is known of it goes, and a page that shows it is told that there is nothing. */
function dropSession(cache: QueryClient, id: SessionId): void {
  for (const archived of [false, true])
    cache.setQueryData<SessionList>(
      keys.sessions(archived),
      (list) => list && { ...list, sessions: list.sessions.filter((row) => row.id !== id) },
    )
  // It is nothing that could be asked for again.
  cache.setQueryData<Saying>(keys.saying(id), silence)
  void cache.resetQueries({ predicate: ({ queryKey }) => queryKey[0] !== keys.saying(id)[0] && queryKey.includes(id) })
}

/** Shows what the daemon says of a session, wherever it is shown. */
export function putSession(cache: QueryClient, said: Session): void {
  cache.setQueryData<SessionRow>(keys.session(said.id), (known) => merged(known, said))
  for (const archived of [false, true]) {
    cache.setQueryData<SessionList>(keys.sessions(archived), (list) => {
      if (list === undefined) return list
      const row = merged(
        list.sessions.find(({ id }) => id === said.id),
        said,
      )
      const rest = list.sessions.filter(({ id }) => id !== said.id)
      const belongs = (row.archived_at !== null) === archived
      return { ...list, sessions: belongs ? [row, ...rest].sort((a, b) => b.active_at - a.active_at) : rest }
    })
  }
}
