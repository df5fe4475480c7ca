import type { Client } from '@anchorhold/protocol/client'
import { Failure } from '@anchorhold/protocol/failures'
import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { expect, test } from 'vitest'
import { type Log, newest, somewhere } from '../log/log.ts'
import { silence } from '../log/saying.ts'
import { numbered, session } from '../log/test-events.ts'
import { catchUp, keys, refreshSession } from './apply.ts'

const page = (from: number, to: number) => ({ events: numbered(from, to), more: false })
const held = (cache: QueryClient) => cache.getQueryData<Log>(keys.log(session))

test.each([
  ['lies before its end', somewhere(page(401, 500), 10_020)],
  ['ends where the session did then', somewhere(page(9901, 9990), 9990)],
])('catchUp() leaves a part of the log alone that was opened meanwhile and %s', async (_, opened) => {
  const cache = new QueryClient()
  cache.setQueryData<Log>(keys.log(session), newest(page(9_900, 10_000)))
  const daemon = {
    sessionEvents() {
      cache.setQueryData<Log>(keys.log(session), opened)
      return Promise.resolve(page(10_001, 10_020))
    },
  }
  await catchUp({ cache, daemon: daemon as unknown as Client }, session)
  expect(held(cache)).toEqual(opened)
})

test('catchUp() adds what lies behind that which another one has added meanwhile', async () => {
  const cache = new QueryClient()
  cache.setQueryData<Log>(keys.log(session), newest(page(1, 10)))
  const pages = [page(11, 20), page(11, 25)]
  const daemon = { sessionEvents: () => Promise.resolve(pages.shift()!) }
  await Promise.all([1, 2].map(() => catchUp({ cache, daemon: daemon as unknown as Client }, session)))
  expect(held(cache)?.events.map(({ seq }) => seq)).toEqual(Array.from({ length: 25 }, (_, index) => index + 1))
})

test.each([
  ['catchUp', catchUp],
  ['refreshSession', refreshSession],
])('%s() lets go of all that is known of a session that is not to be seen any more', async (_, ask) => {
  const cache = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } })
  const gone = () => Promise.reject(new Failure('not_found', 'There is no such session'))
  const daemon = { sessionEvents: gone, getSession: gone } as unknown as Client
  const others = ['another session']
  cache.setQueryData(keys.sessions(false), { sessions: [{ id: session }], more: false })
  cache.setQueryData(keys.log(session), newest(page(1, 10)))
  cache.setQueryData(keys.session(session), { id: session })
  cache.setQueryData(keys.saying(session), { said: 'half a word' })
  cache.setQueryData(['files', session, 1, ''], ['plan.md'])
  cache.setQueryData(keys.session('ses_0000000000000002'), others)
  const shown = new QueryObserver(cache, { queryKey: keys.session(session), queryFn: gone })
  const leave = shown.subscribe(() => {})
  await ask({ cache, daemon }, session)
  await expect.poll(() => shown.getCurrentResult()).toMatchObject({ data: undefined, error: { code: 'not_found' } })
  leave()
  expect(cache.getQueryData(keys.sessions(false))).toEqual({ sessions: [], more: false })
  for (const key of [keys.log(session), ['files', session, 1, '']]) expect(cache.getQueryData(key)).toBeUndefined()
  expect(cache.getQueryData(keys.saying(session))).toEqual(silence)
  expect(cache.getQueryData(keys.session('ses_0000000000000002'))).toBe(others)
})

test('catchUp() keeps what is known when the daemon does not answer', async () => {
  const cache = new QueryClient()
  const known = newest(page(1, 10))
  cache.setQueryData<Log>(keys.log(session), known)
  const daemon = { sessionEvents: () => Promise.reject(new TypeError('Failed to fetch')) }
  await catchUp({ cache, daemon: daemon as unknown as Client }, session)
  expect(held(cache)).toBe(known)
})
