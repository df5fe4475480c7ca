import type { SessionId } from '@anchorhold/protocol/ids'
import { queryOptions } from '@tanstack/react-query'
import { daemon } from '../daemon.ts'
import { type Cached, keys, newestOf } from './apply.ts'

const listed = 100
/** What no event tells (the gate, a credential, a rung) is asked for this often. */
const statusMs = 30_000

export const sessionsQuery = (archived: boolean) =>
  queryOptions({
    queryKey: keys.sessions(archived),
    queryFn: (): Promise<Cached['sessions']> =>
      daemon.listSessions({ query: { limit: listed, ...(archived ? { archived: 'true' } : {}) } }),
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

export const searchQuery = (q: string) =>
  queryOptions({
    queryKey: keys.search(q),
    queryFn: async (): Promise<Cached['search']> => (await daemon.search({ query: { q, limit: 50 } })).hits,
    staleTime: 0,
    gcTime: 60_000,
    enabled: q !== '',
  })
