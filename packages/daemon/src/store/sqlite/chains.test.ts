import { firstDigest, footerLine, headerLine, headMessage } from '@anchorhold/core/chain'
import { exportVerifier, type VerifyCrypto } from '@anchorhold/core/verify-export'
import type { NewEvent } from '@anchorhold/protocol/events'
import type { Head, LogName } from '@anchorhold/protocol/heads'
import { newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import Database from 'better-sqlite3'
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, sign, verify } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Store } from '../store.ts'
import { sqliteStore } from './sqlite-store.ts'

let folder: string
let path: string
let store: Store
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-chain-'))
  path = join(folder, 'store.db')
  store = sqliteStore(path)
})
afterEach(() => {
  store.close()
  rmSync(folder, { recursive: true })
})

const created: NewEvent = {
  type: 'session.created',
  body: {
    name: 'Test',
    rung: 'bwrap',
    provider: 'rehearsal',
    model: 'm',
    simulated: true,
    workspace: '/w',
    budget_nanos: null,
    forked_from: null,
    actor: 'me',
  },
}
const notice = (message: string): NewEvent => ({ type: 'notice', body: { level: 'info', code: 'x', message } })
const append = (session: SessionId, ...events: readonly NewEvent[]) =>
  store.events.append(
    session,
    'daemon',
    events.map((event) => ({ n: null, at: 1, event })),
  )
function session(): SessionId {
  const id = newSessionId(randomBytes)
  store.sessions.insert({ id, options: {}, runAs: null, conversation: 'x', conversing: false, grants: [] })
  append(id, created)
  return id
}

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const raw = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
const crypto: VerifyCrypto = {
  sha256(...parts) {
    const hash = createHash('sha256')
    for (const part of parts) hash.update(part)
    return hash.digest('hex')
  },
  verify: (_, message, signature) => verify(null, Buffer.from(message), createPublicKey(privateKey), signature),
}

/** The problems that a verifier finds in the log as it would be exported. */
function problems(log: LogName): readonly string[] {
  const standing = store.chains.head(log)
  if (standing === null) throw new Error('The chain is not whole')
  const head: Head = { session: log, ...standing, at: 1 }
  const verifier = exportVerifier(crypto)
  const take = (line: string) => verifier.line(Buffer.from(line))
  take(headerLine(log))
  for (let after = 0; after < head.seq;) {
    const page = store.chains.lines(log, after, head.seq)
    for (const { line } of page) take(line)
    after = page.at(-1)!.seq
  }
  const signature = sign(null, Buffer.from(headMessage(head)), privateKey).toString('hex')
  const fingerprint = createHash('sha256').update(raw).digest('hex')
  take(footerLine(head, { key: raw.toString('hex'), fingerprint, signature }))
  return verifier.end({ whole: true }).problems.map(({ line, kind }) => `${line} ${kind}`)
}

test('each session has a chain of its own, over everything that is stored, whichever way it came in', () => {
  const [one, two] = [session(), session()]
  append(one, ...Array.from({ length: 50 }, (_, n) => notice(`${n} \u2028 \ud800 ä 😀`)))
  store.events.append(two, `keeper/${two}`, [{ n: 1, at: 2, event: notice('from a keeper') }])
  append(two, { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } })
  expect(store.chains.head(one)).toMatchObject({ seq: 51 })
  expect([problems(one), problems(two)]).toEqual([[], []])
  expect(store.chains.head(one)!.hash).not.toBe(store.chains.head(two)!.hash)
})

test.each([
  [
    'an event was changed',
    `update event set body = replace(body, 'n7', 'n8') where session_id = ? and body like '%n7%'`,
    ['10 changed'],
  ],
  ['its time was', `update event set at = 5 where session_id = ? and seq = 8`, ['9 changed']],
  ['its type was', `update event set type = 'text' where session_id = ? and seq = 8`, ['9 changed']],
  ['its source was', `update event set source = 'gate' where session_id = ? and seq = 8`, ['9 changed']],
  ['one is gone', `delete from event where session_id = ? and seq = 8`, ['9 removed']],
  ['the end is gone', `update session set last_seq = 9 where id = ?`, ['11 rewritten']],
])('an export shows that in the database %s', (_, sql, expected) => {
  const id = session()
  append(id, ...Array.from({ length: 10 }, (_one, n) => notice(`n${n}`)))
  const db = new Database(path)
  db.prepare(sql).run(id)
  db.close()
  expect(problems(id)).toEqual(expected)
})

test('fill() gives older events their hashes a step at a time, while new ones are stored', () => {
  const ids = [session(), session()]
  for (const id of ids) append(id, ...Array.from({ length: 1200 }, (_, n) => notice(`old ${n}`)))
  const whole = ids.map((id) => store.chains.head(id))
  // As a database of the release before looks after its migration.
  const db = new Database(path)
  db.exec(
    `update event set hash = null; update session set head = null; insert into unchained (session_id) select id from session`,
  )
  db.close()
  expect(ids.map((id) => store.chains.head(id))).toEqual([null, null])
  expect(store.chains.fill()).toBe(true)
  for (const id of ids) append(id, notice('new'))
  expect(ids.map((id) => store.chains.head(id))).toEqual([null, null])
  let steps = 1
  while (store.chains.fill()) steps++
  expect(steps).toBeGreaterThan(4)
  for (const id of ids) append(id, notice('newer'))
  expect(ids.map(problems)).toEqual([[], []])
  for (const [index, id] of ids.entries()) {
    const line = store.chains.lines(id, 1200, 1201)[0]!.line
    expect(line).toContain(`"hash":"${whole[index]!.hash}"`)
  }
})

test('fill() can be asked for one session, and a daemon that died in the middle goes on', () => {
  const [one, two] = [session(), session()]
  append(one, ...Array.from({ length: 1200 }, (_, n) => notice(`old ${n}`)))
  const db = new Database(path)
  db.exec(
    `update event set hash = null; update session set head = null; insert into unchained (session_id) select id from session`,
  )
  db.close()
  expect(store.chains.fill(one)).toBe(true)
  store.close()
  store = sqliteStore(path)
  while (store.chains.fill(one));
  expect(problems(one)).toEqual([])
  expect(store.chains.head(two)).toBeNull()
  store.sessions.purge(two)
  expect(store.chains.fill()).toBe(false)
})

test('the log of the house has a chain too, from its first event on', () => {
  const by = { actor: 'owner', door: 'test' }
  for (let n = 0; n < 100; n++) store.house.append(n, { type: 'panic', body: { sessions: n, ...by } })
  store.house.append(100, { type: 'exported', body: { logs: 0, digest: firstDigest, ...by } })
  expect(problems('house')).toEqual([])
  expect(store.house.before(3, 10)).toEqual([
    { seq: 1, at: 0, type: 'panic', body: { sessions: 0, ...by } },
    { seq: 2, at: 1, type: 'panic', body: { sessions: 1, ...by } },
  ])
  const db = new Database(path)
  db.exec(`delete from house_event where seq = 50`)
  db.close()
  expect(problems('house')).toEqual(['51 removed'])
})
