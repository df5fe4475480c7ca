import type { Client } from '@anchorhold/protocol/client'
import { QueryClient } from '@tanstack/react-query'
import { expect, test } from 'vitest'
import { type Log, newest, somewhere } from '../log/log.ts'
import { numbered, session } from '../log/test-events.ts'
import { catchUp, keys } from './apply.ts'

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
