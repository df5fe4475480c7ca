import { runs } from '@anchorhold/protocol/test-runs'
import type { EventBody } from '@anchorhold/protocol/events'
import { firstOwner, newSessionId, newUserId, type SessionId } from '@anchorhold/protocol/ids'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Store } from '../store.ts'
import { sqliteStore } from './sqlite-store.ts'

let store: Store
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-net-'))
  store = sqliteStore(join(folder, 'test.db'))
})
afterEach(() => {
  store.close()
  rmSync(folder, { recursive: true })
})

const hourMs = 60 * 60 * 1000
type Passed = EventBody<'net'>
const passed = (changes: Partial<Passed> = {}): Passed => ({
  ...{ host: 'a.example', port: 443, connections: 1, bytes_out: 10, bytes_in: 100, blocked: 0, why: null, secrets: [] },
  ...changes,
})
function session(ownerId = firstOwner): SessionId {
  const id = newSessionId(randomBytes)
  const options = {} as Parameters<Store['sessions']['insert']>[0]['options']
  store.sessions.insert({ id, ownerId, options, runAs: null, conversation: 'c', conversing: false, grants: [] })
  return id
}
let n = 0
const note = (id: SessionId, at: number, ...bodies: Passed[]) =>
  store.events.append(
    id,
    'gate',
    bodies.map((body) => ({ n: ++n, at, event: { type: 'net', body } })),
  )
const all = { session: null, since: 0, seenBy: null }

test('net() adds up by host what went through windows since any moment, as a sum over the events does', () => {
  const ids = [session(), session()]
  const one = fc.record({
    at: fc.integer({ min: 0, max: 100 }).map((hours) => hours * hourMs),
    whose: fc.integer({ min: 0, max: 1 }),
    body: fc
      .record({
        host: fc.constantFrom('a.example', 'b.example', null),
        connections: fc.integer({ min: 0, max: 5 }),
        bytes_in: fc.integer({ min: 0, max: 2 ** 40 }),
        blocked: fc.integer({ min: 0, max: 2 }),
        secrets: fc.uniqueArray(fc.record({ name: fc.constantFrom('deploy', 'npm'), count: fc.integer({ min: 1, max: 9 }) }), {
          selector: ({ name }) => name,
        }),
      })
      .map((body) => passed({ ...body, port: body.host === null ? null : 443 })),
  })
  const told: { at: number; whose: number; body: Passed }[] = []
  fc.assert(
    fc.property(
      fc.array(one, { maxLength: 10 }),
      fc.integer({ min: 0, max: 100 * hourMs }),
      fc.boolean(),
      (more, since, only) => {
        for (const { at, whose, body } of more) note(ids[whose]!, at, body)
        told.push(...more)
        const found = store.net({ session: only ? ids[0]! : null, since, seenBy: null })
        const wanted = told.filter(({ at, whose }) => at >= since && (!only || whose === 0))
        expect(new Set(found.map(({ host }) => host))).toEqual(new Set(wanted.map(({ body }) => body.host)))
        for (const { host, connections, bytes_in, blocked, secrets, last_at } of found) {
          const its = wanted.filter(({ body }) => body.host === host)
          const sum = (of: (body: Passed) => number) => its.reduce((before, { body }) => before + of(body), 0)
          expect({ connections, bytes_in, blocked, last_at }).toEqual({
            connections: sum((body) => body.connections),
            bytes_in: sum((body) => body.bytes_in),
            blocked: sum((body) => body.blocked),
            last_at: Math.max(...its.map(({ at }) => at)),
          })
          for (const name of ['deploy', 'npm'])
            expect(secrets.find((secret) => secret.name === name)?.count ?? 0).toBe(
              sum((body) => body.secrets.find((secret) => secret.name === name)?.count ?? 0),
            )
        }
      },
    ),
    { numRuns: runs(60) },
  )
})

test('net() gives what was blocked first, with why the last was, and shows nobody what is of others', () => {
  const stranger = newUserId(randomBytes)
  store.people.insert({ id: stranger, name: 'ann', role: 'member', policy: null, created_at: 1 })
  const [mine, hers] = [session(), session(stranger)]
  note(mine, 1, passed({ host: 'much.example', bytes_in: 1000 }), passed({ host: 'no.example', blocked: 1, why: 'first' }))
  note(mine, 26 * hourMs, passed({ host: 'no.example', blocked: 1, why: 'last' }), passed({ host: 'no.example' }))
  note(hers, 2, passed({ host: 'hers.example' }))
  expect(store.net(all).map(({ host, why }) => [host, why])).toEqual([
    ['no.example', 'last'],
    ['much.example', null],
    ['hers.example', null],
  ])
  expect(store.net({ ...all, seenBy: stranger }).map(({ host }) => host)).toEqual(['hers.example'])
  expect(store.net({ session: mine, since: 0, seenBy: stranger })).toEqual([])
})

test('net() counts the rest together of more hosts than anybody could look at', () => {
  const id = session()
  const secrets = [{ name: 'deploy', count: 1 }]
  for (let i = 0; i < 1200; i++) note(id, i, passed({ host: `${i}.example`, bytes_in: 10_000 - i, secrets }))
  note(id, 5, passed({ host: null, port: null, connections: 3, bytes_in: 0, bytes_out: 0 }))
  const found = store.net(all)
  expect(found).toHaveLength(1001)
  expect(found[0]).toMatchObject({ host: '0.example', port: 443, connections: 1, secrets })
  expect(found.find(({ host }) => host === null)).toMatchObject({
    connections: 203,
    last_at: 1199,
    secrets: [{ name: 'deploy', count: 200 }],
  })
})

test('what went through windows goes with its session', () => {
  const [gone, stays] = [session(), session()]
  for (const id of [gone, stays]) note(id, 1, passed({ secrets: [{ name: 'deploy', count: 1 }] }))
  store.sessions.purge(gone)
  expect(store.net(all)).toMatchObject([{ connections: 1, secrets: [{ name: 'deploy', count: 1 }] }])
})

test('sums are made of what an older release has stored', () => {
  const id = session()
  note(id, 1, passed({ blocked: 1, why: 'first' }), passed({ secrets: [{ name: 'deploy', count: 2 }] }))
  note(id, 2, passed({ blocked: 1, why: 'last' }), passed({ host: null, port: null, secrets: [{ name: 'deploy', count: 1 }] }))
  const before = store.net(all)
  store.close()
  const db = new Database(join(folder, 'test.db'))
  onTestFinished(() => void db.close())
  db.exec(
    `drop index request_open_of; drop table net_day; drop table net_secret; drop index event_net; create index event_net on event (pos) where type = 'net'`,
  )
  db.pragma('user_version = 24')
  store = sqliteStore(join(folder, 'test.db'))
  expect(store.net(all)).toEqual(before)
  expect(before).toMatchObject([{ host: 'a.example', blocked: 2, why: 'last' }, { host: null }])
})
