import type { SessionId } from '@anchorhold/protocol/ids'
import { QueryClient } from '@tanstack/react-query'
import { createContext, useContext, useSyncExternalStore } from 'react'
import { daemon, isLoggedOut, isOfAnotherLog, isUnreachable, openEvents, wordsOf } from '../daemon.ts'
import { type Outbox, outbox as makeOutbox, type Waiting } from '../outbox/outbox.ts'
import { type Drafts, drafts as makeDrafts } from '../outbox/drafts.ts'
import { applyTo, catchUp } from './apply.ts'
import { clearOwn, dropSeen, handTo, ownerPlace } from './hands.ts'
import { meQuery } from './me.ts'
import { closeNotices } from '../service.ts'
import { placeForHidden } from './places.ts'
import { follow, type StreamState } from './stream.ts'

/** What the page knows of its connection. */
export type Connection = StreamState | 'offline'

/** What the whole page shares: what it knows, what it has yet to send, and how it is connected. */
export interface House {
  readonly cache: QueryClient
  readonly outbox: Outbox
  readonly drafts: Drafts
  connection(): Connection
  subscribe(listener: () => void): () => void
  /** Begins to follow the house; again after a login. */
  goLive(): void
  /** Ends what a login gave, and forgets what was seen. */
  forget(): void
}

/** A page that was hidden for longer may hold a socket that nobody is at the other end of. */
const sleptMs = 20_000
/** A prompt that got lost on its way while the stream stands is sent again after so long. */
const resendMs = 2000
const refetched = new Set(['sessions', 'session', 'requests', 'usage', 'status'])

export function house(): House {
  const cache = new QueryClient({
    defaultOptions: {
      queries: {
        // The stream says when something is new; nothing is stale by itself.
        staleTime: Infinity,
        gcTime: 30 * 60_000,
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        networkMode: 'always',
        retry: (failures, error) => isUnreachable(error) && failures < 2,
      },
      mutations: { networkMode: 'always' },
    },
  })
  cache.setQueryDefaults(['saying'], { gcTime: Infinity })
  /** Whose things this page shows. */
  let whose: string | null = null
  /** Whether they are known to be logged in still. */
  let known = false
  const outbox = makeOutbox({
    storage: localStorage,
    async send(id, body, signal) {
      // Until it is known whose device this is now, nobody's prompts are sent.
      if (!known) throw new TypeError('Nobody is known to be logged in')
      return daemon.prompt({ params: { id }, body }, signal)
    },
    isUnreachable,
    wordsOf,
    newKey: () => crypto.randomUUID(),
    now: Date.now,
    later: (again) => void setTimeout(() => connection === 'live' && again(), resendMs),
  })
  const drafts = makeDrafts(localStorage)
  const listeners = new Set<() => void>()
  let connection: Connection = 'connecting'
  let running: AbortController | null = null

  function tell(state: Connection): void {
    if (state === connection) return
    connection = state
    for (const listener of listeners) listener()
  }

  function goLive(): void {
    running?.abort()
    running = new AbortController()
    const { signal } = running
    let wake = () => {}
    /** Settles when somebody looks at this page again. */
    let resting: PromiseWithResolvers<void> | null = null
    const stream = follow(
      {
        async start(end) {
          const newest = { before: Number.MAX_SAFE_INTEGER, limit: 1 }
          const [{ events }] = await Promise.all([daemon.events({ query: newest }, end), meet(end)])
          return events[0]?.pos ?? 0
        },
        goOn: meet,
        async open(after, end) {
          try {
            return await openEvents(after, end)
          } catch (error) {
            if (isOfAnotherLog(error)) startOver()
            throw error
          }
        },
        isLoggedOut,
        hear: applyTo({ cache, daemon, outbox, settled: (requests) => void closeNotices(requests) }),
        tell(state) {
          tell(state === 'lost' && !navigator.onLine ? 'offline' : state)
          if (state === 'lost') known = false
          if (state === 'logged_out') forgetSeen()
          if (state === 'live') cameBack()
        },
        turn: async () => resting?.promise,
        wait: (ms) =>
          new Promise((resolve) => {
            const timer = setTimeout(resolve, ms)
            wake = () => {
              clearTimeout(timer)
              resolve()
            }
          }),
      },
      signal,
    )
    const again = () => {
      known = false
      stream.refresh()
      wake()
      void outbox.sendAnew()
    }
    let hiddenAt = 0
    let hidden = new AbortController()
    addEventListener('online', again, { signal })
    addEventListener('offline', () => stream.refresh(), { signal })
    // A page that was frozen or put aside whole comes back with a connection that may have ended meanwhile.
    document.addEventListener('resume', again, { signal })
    addEventListener('pageshow', ({ persisted }) => persisted && again(), { signal })
    const looked = () => {
      hidden.abort()
      if (document.visibilityState === 'hidden') {
        hiddenAt = Date.now()
        hidden = new AbortController()
        const { signal: seen } = hidden
        void placeForHidden(navigator.locks, AbortSignal.any([seen, signal])).then((isTaken) => {
          if (isTaken || seen.aborted || signal.aborted) return
          resting = Promise.withResolvers()
          stream.refresh()
        })
        return
      }
      const rested = resting !== null
      resting?.resolve()
      resting = null
      if (rested || connection !== 'live' || Date.now() - hiddenAt > sleptMs) again()
    }
    document.addEventListener('visibilitychange', looked, { signal })
    // It was opened behind another tab.
    if (document.visibilityState === 'hidden') looked()
    const stored = ({ key, newValue }: StorageEvent) => {
      if (key === ownerPlace && whose !== null && newValue !== whose) startOver()
      else outbox.reread()
    }
    addEventListener('storage', stored, { signal })
  }

  /** All tabs of a browser have one login: while this one slept, another may have changed whose it is. */
  async function meet(end: AbortSignal): Promise<void> {
    const me = await daemon.whoAmI({}, end)
    if (whose !== null && whose !== me.user.id) {
      startOver()
      throw new Error('Somebody else is logged in')
    }
    whose = me.user.id
    // The login before may have ended while no page was open.
    if (handTo(localStorage, whose)) void closeNotices('all')
    cache.setQueryData(meQuery.queryKey, me)
    known = true
    outbox.reread()
    // Where no stream gets through, a prompt may still.
    void outbox.sendAll()
  }

  /** Opens the page anew, so that nothing is left of what it knew: of whoever was logged in before, or of a log that is no more. */
  function startOver(): void {
    known = false
    running?.abort()
    location.reload()
  }

  /** A login that was ended elsewhere, or has expired: what it let somebody see goes with it. */
  function forgetSeen(): void {
    known = false
    whose = null
    cache.clear()
    dropSeen(localStorage)
    // An answer that is given there would be that of whoever is logged in next.
    void closeNotices('all')
    outbox.letGo()
    drafts.letGo()
  }

  /** From here on the stream brings everything. What was fetched before may be older, or changed by something that is no event. */
  function cameBack(): void {
    void outbox.sendAll()
    void cache.invalidateQueries({ predicate: ({ queryKey }) => refetched.has(String(queryKey[0])) })
    for (const { queryKey } of cache.getQueryCache().findAll({ queryKey: ['log'] }))
      void catchUp({ cache, daemon }, queryKey[1] as SessionId)
  }

  return {
    cache,
    outbox,
    drafts,
    connection: () => connection,
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    goLive,
    forget() {
      running?.abort()
      forgetSeen()
      clearOwn(localStorage)
      outbox.reread()
      tell('logged_out')
    },
  }
}

export const HouseContext = createContext<House | null>(null)

export function useHouse(): House {
  const found = useContext(HouseContext)
  if (found === null) throw new Error('There is no house around this component')
  return found
}

export function useConnection(): Connection {
  const { subscribe, connection } = useHouse()
  return useSyncExternalStore(subscribe, connection)
}

/** The prompts of a session that its log does not show yet. */
export function useWaiting(session: SessionId): readonly Waiting[] {
  const { outbox } = useHouse()
  const all = useSyncExternalStore(outbox.subscribe, outbox.list)
  return all.filter((one) => one.session === session)
}

/** What is being written for a session, and how to change it. */
export function useDraft(session: SessionId): readonly [string, (text: string) => void] {
  const { drafts } = useHouse()
  return [useSyncExternalStore(drafts.subscribe, () => drafts.read(session)), (text) => drafts.write(session, text)]
}
