import { newSessionId, newUserId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { presence } from './presence.ts'

const [user, session] = [newUserId(randomBytes), newSessionId(randomBytes)]

test('a session is watched for as long as somebody follows it, by however many ways', () => {
  const { follow, isWatched } = presence(() => 0)
  const ways = [new AbortController(), new AbortController()]
  for (const { signal } of ways) follow(user, session, signal)
  ways[0]!.abort()
  expect(isWatched(user, session)).toBe(true)
  ways[1]!.abort()
  expect(isWatched(user, session)).toBe(false)
})

test('nobody follows who has gone before they began', () => {
  const { follow, isWatched } = presence(() => 0)
  follow(user, session, AbortSignal.abort())
  expect(isWatched(user, session)).toBe(false)
})

test('whoever has it in front of them watches for a while, or until they put it away', () => {
  let now = 0
  const { seen, left, isWatched } = presence(() => now)
  seen(user, session)
  expect(isWatched(user, session)).toBe(true)
  now = 30_000
  expect(isWatched(user, session)).toBe(false)
  seen(user, session)
  left(user, session)
  expect(isWatched(user, session)).toBe(false)
})
