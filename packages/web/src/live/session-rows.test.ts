import type { Event } from '@anchorhold/protocol/events'
import type { Session } from '@anchorhold/protocol/sessions'
import { expect, test } from 'vitest'
import { merged, patched, refetched, type SessionList } from './session-rows.ts'

const row = (id: string, last_seq: number, more: Partial<Session> = {}) =>
  ({ id, last_seq, active_at: last_seq, state: 'working', why: null, open_requests: 0, archived_at: null, ...more }) as Session
const event = (seq: number, type = 'text', body: object = {}) => ({ seq, at: seq, type, body }) as unknown as Event

test('merged() takes what an answer says that events have overtaken meanwhile', () => {
  const known = patched(row('a', 5), [event(6), event(7, 'session.state', { to: 'waiting', why: 'asked' })])
  expect(known).toMatchObject({ last_seq: 7, said_at: 5, state: 'waiting' })
  const now = merged(known, row('a', 6, { open_requests: 1 }))
  expect(now).toMatchObject({ open_requests: 1, last_seq: 7, said_at: 6, state: 'waiting', why: 'asked', active_at: 7 })
  // One that was on its way for longer comes after a newer one.
  expect(merged(now, row('a', 5))).toBe(now)
  expect(merged(now, row('a', 8))).toEqual(row('a', 8))
})

test('patched() leaves a row alone that knows the events already', () => {
  const known = row('a', 5)
  expect(patched(known, [event(4), event(5)])).toBe(known)
})

const list = (sessions: readonly Session[], more = false): SessionList => ({ sessions, more })
const nothing = { beside: [], knownOf: () => undefined, archived: false }
const ids = ({ sessions }: SessionList) => sessions.map(({ id }) => id as string)

test('refetched() keeps what is newer, what came meanwhile, and pages that were asked for', () => {
  const asked = list([row('b', 90), row('gone', 85), row('old', 10), row('older', 5)], true)
  const [b, ...others] = asked.sessions
  const now: SessionList = { ...asked, before: 5, sessions: [row('made', 95), patched(b!, [event(99)]), ...others] }
  const page = list([row('c', 97), row('b', 90), row('d', 80)], true)
  const found = refetched({ ...nothing, asked, now, page, knownOf: (id) => now.sessions.find((one) => one.id === id) })
  expect(ids(found)).toEqual(['b', 'c', 'made', 'd', 'old', 'older'])
  expect(found).toMatchObject({ more: true, before: 5 })
  expect(found.sessions[0]).toMatchObject({ last_seq: 99 })
})

test('refetched() shows who needs somebody though they were active long ago, and goes on behind the page', () => {
  const page = list([row('c', 97), row('d', 80)], true)
  const found = refetched({ ...nothing, asked: undefined, now: undefined, page, beside: [row('asks', 3, { open_requests: 1 })] })
  expect(ids(found)).toEqual(['c', 'd', 'asks'])
  expect(found).toMatchObject({ more: true, before: 80 })
})

test('refetched() does not bring back what was archived while the page was on its way', () => {
  const page = list([row('c', 97), row('d', 80)])
  const knownOf = (id: string) => (id === 'd' ? row('d', 81, { archived_at: 81 }) : undefined)
  expect(ids(refetched({ ...nothing, asked: list([]), now: list([]), page, knownOf }))).toEqual(['c'])
})
