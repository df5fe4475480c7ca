import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import type { Changes } from '@anchorhold/protocol/workspace'
import { keepPreviousData, queryOptions } from '@tanstack/react-query'
import { daemon } from '../daemon.ts'
import { type Cached, keys, newestOf } from './apply.ts'
import { refetched, type SessionList, type SessionRow } from './session-rows.ts'

const listed = 100
/** What the daemon gives at most at a time. */
const listedMax = 500
/** What no event tells (the gate, a credential, a rung) is asked for this often. */
const statusMs = 30_000

export const sessionsQuery = (archived: boolean) =>
  queryOptions({
    queryKey: keys.sessions(archived),
    async queryFn({ client }): Promise<Cached['sessions']> {
      const list = () => client.getQueryData<SessionList>(keys.sessions(archived))
      const asked = list()
      // As many as are shown, so that none of them stands still; who needs somebody is shown however long ago it was active.
      const limit = Math.min(listedMax, Math.max(listed, asked?.sessions.length ?? 0))
      const [page, needing] = await Promise.all([
        daemon.listSessions({ query: { limit, ...(archived ? { archived: 'true' } : {}) } }),
        archived ? { sessions: [] } : daemon.listSessions({ query: { limit: listedMax, needs_you: 'true' } }),
      ])
      const now = list()
      const rows = new Map(now?.sessions.map((row) => [row.id as string, row]))
      const knownOf = (id: string) => rows.get(id) ?? client.getQueryData<SessionRow>(keys.session(id))
      return refetched({ asked, now, page, beside: needing.sessions, knownOf, archived })
    },
  })

export const sessionQuery = (id: SessionId) =>
  queryOptions({ queryKey: keys.session(id), queryFn: () => daemon.getSession({ params: { id } }) })

export const logQuery = (id: SessionId) => queryOptions({ queryKey: keys.log(id), queryFn: () => newestOf(daemon, id) })

export const requestsQuery = queryOptions({
  queryKey: keys.requests,
  queryFn: async (): Promise<Cached['requests']> => (await daemon.listRequests()).requests,
})

export const usageQuery = queryOptions({ queryKey: keys.usage, queryFn: (): Promise<Cached['usage']> => daemon.usage() })

export const statusQuery = queryOptions({
  queryKey: keys.status,
  queryFn: (): Promise<Cached['status']> => daemon.status(),
  refetchInterval: statusMs,
})

/** How many hits are shown at first, of all and of one session; and how many at most. */
export const searched = { first: 50, perSession: 3, most: 500 } as const

/** In everything, where each session has its share, or in one session alone. */
export const searchQuery = (q: string, limit: number, session: SessionId | null = null) =>
  queryOptions({
    queryKey: keys.search(q, limit, session),
    queryFn: (): Promise<Cached['search']> =>
      daemon.search({ query: { q, limit, ...(session === null ? { per_session: searched.perSession } : { session }) } }),
    staleTime: 0,
    gcTime: 60_000,
    enabled: q !== '',
  })

/** Looked at anew after every turn: no event says what became of a file. */
const sinceTurn = ({ id, turns, state }: Session) => [id, turns, state === 'working'] as const

export const changesQuery = (session: Session, against: 'head' | 'start') =>
  queryOptions({
    queryKey: ['changes', against, ...sinceTurn(session)],
    queryFn: () => daemon.changes({ params: { id: session.id }, query: { against } }),
    // What is held against another commit is no answer to this.
    placeholderData: (known: Changes | undefined, query) => (query?.queryKey[1] === against ? known : undefined),
    staleTime: 0,
  })

export const filesQuery = (session: Session, path: string) =>
  queryOptions({
    queryKey: ['files', ...sinceTurn(session), path],
    queryFn: () => daemon.listFiles({ params: { id: session.id }, query: { path } }),
    staleTime: 0,
  })

export const fileQuery = (session: Session, path: string) =>
  queryOptions({
    queryKey: ['file', ...sinceTurn(session), path],
    queryFn: () => daemon.readFile({ params: { id: session.id }, query: { path } }),
    staleTime: 0,
  })

export const netQuery = (session: Session) =>
  queryOptions({
    queryKey: ['net', ...sinceTurn(session)],
    queryFn: () => daemon.sessionNet({ params: { id: session.id } }),
    placeholderData: keepPreviousData,
    staleTime: 0,
  })

export const costQuery = (session: Session) =>
  queryOptions({
    queryKey: ['cost', session.id, session.cost_micros],
    async queryFn() {
      const [{ spending: models }, { turns }] = await Promise.all([
        daemon.spending({ query: { by: 'model', session: session.id } }),
        daemon.turnCosts({ params: { id: session.id } }),
      ])
      return { models, turns }
    },
    placeholderData: keepPreviousData,
    staleTime: 0,
  })

/** The roots and the last used where no path is given. */
export const foldersQuery = (path: string | null) =>
  queryOptions({
    queryKey: ['folders', path],
    queryFn: () => daemon.listFolders({ query: path === null ? {} : { path } }),
    placeholderData: keepPreviousData,
    staleTime: 0,
  })

const completionsMs = 30_000
export const completionsQuery = (session: Session, wanted: boolean) =>
  queryOptions({
    queryKey: ['completions', session.id],
    queryFn: () => daemon.completions({ params: { id: session.id } }),
    staleTime: completionsMs,
    enabled: wanted,
  })

export const doctorQuery = queryOptions({ queryKey: ['doctor'], queryFn: () => daemon.doctor(), staleTime: 0 })

/** What may be typed as a model: those of the providers, and those that were used. */
export const modelsQuery = queryOptions({
  queryKey: ['models'],
  async queryFn() {
    const [{ providers }, { models }] = await Promise.all([daemon.listProviders(), daemon.usage()])
    return [...new Set([...providers.map(({ model }) => model), ...models.map(({ model }) => model)])].slice(0, 50)
  },
  staleTime: 60_000,
})
