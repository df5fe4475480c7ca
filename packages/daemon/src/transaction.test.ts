import type { NewEvent } from '@anchorhold/protocol/events'
import { newSessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { hub as makeHub } from './hub.ts'
import { sqliteStore } from './store/sqlite/sqlite-store.ts'
import type { Store } from './store/store.ts'
import { transaction } from './transaction.ts'

const [session, other] = [newSessionId(randomBytes), newSessionId(randomBytes)]
const notice = (code: string): NewEvent => ({ type: 'notice', body: { level: 'info', code, message: '' } })
let store: Store
/** What a listener heard, and what the log held at that moment. */
let heard: { readonly codes: string[]; readonly stored: number }[]
let open: boolean

beforeEach(() => {
  store = sqliteStore(':memory:')
  for (const id of [session, other])
    store.sessions.insert({ id, options: {}, runAs: null, conversation: 'c', conversing: false, grants: [] })
  heard = []
  open = false
})
afterEach(() => store.close())

function parts() {
  const hub = makeHub()
  hub.listen((events) => {
    // Within a transaction this one would be refused.
    store.atomically(() => {})
    const codes = events.map((event) => (event.type === 'notice' ? event.body.code : event.type))
    heard.push({ codes: open ? ['too early'] : codes, stored: store.events.lastPos() })
  })
  return { store, hub, now: () => 1 }
}

test('transaction() tells of what it recorded once, in order, and after its commit', () => {
  const done = transaction(parts(), (tx) => {
    open = true
    tx.record(session, notice('a'), notice('b'))
    tx.record(other, notice('c'))
    tx.record(session, notice('d'))
    expect(tx.store.events.after(session, 0, 10)).toHaveLength(3)
    open = false
    return 'done'
  })
  expect([done, heard]).toEqual(['done', [{ codes: ['a', 'b', 'c', 'd'], stored: 4 }]])
})

test('transaction() that is rolled back stores nothing and tells nobody', () => {
  const failing = () =>
    transaction(parts(), (tx) => {
      tx.record(session, notice('a'))
      tx.note({ type: 'shutdown', body: { all: false, actor: 'owner', door: 'test' } })
      throw new Error('No')
    })
  expect(failing).toThrow('No')
  expect([heard, store.events.lastPos(), store.house.before(10, 10)]).toEqual([[], 0, []])
})

test('transaction() refuses to begin within another, which would tell of what may still be rolled back', () => {
  const one = parts()
  const nested = () => transaction(one, () => transaction(one, (tx) => tx.record(session, notice('a'))))
  expect(nested).toThrow('within another')
  expect([heard, store.events.lastPos()]).toEqual([[], 0])
})

test('transaction() in which nothing is recorded wakes nobody', () => {
  expect(transaction(parts(), (tx) => tx.store.sessions.get(session)?.id)).toBe(session)
  expect(heard).toEqual([])
})
