import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { createServer, type IncomingMessage, request } from 'node:http'
import { createConnection, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import { digestOf } from '@anchorhold/core/policy/digest'
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import type { NetAction } from '@anchorhold/protocol/actions'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { Grant } from '@anchorhold/protocol/authority'
import { expect, test } from 'vitest'
import { rehearsal, session, testGate } from '../../test-gate.ts'
import { listener, publicAddress } from './test-net.ts'

const sha256 = (words: string) => createHash('sha256').update(words).digest('hex')
const call: NetAction = { kind: 'net', host: 'granted.test', port: 80, method: 'GET', path: '/a' }
const granted = (action: NetAction, more: Partial<Grant> = {}): Grant => ({
  request: 'req_0000000000000001' as RequestId,
  digest: digestOf(action, sha256),
  pins: [],
  scope: 'once',
  rule: null,
  expires_at: null,
  actor: 'owner',
  ...more,
})

/** A gate whose session was allowed one call, and a server that every public name leads to. */
async function withGrant(grant: Grant) {
  const seen: string[] = []
  const server = await listener(
    createServer((asked, response) => {
      seen.push(`${asked.method} ${asked.headers.host}${asked.url}`)
      response.end('reached')
    }),
  )
  const dial = {
    machineAddresses: () => [],
    resolve: async () => [publicAddress],
    connect: () => createConnection({ host: '127.0.0.1', port: server.port, allowHalfOpen: true }),
  }
  const authority = { policy: defaultPolicy, grants: [grant], asked: [] }
  const it = await testGate({ provider: rehearsal, network: 'proxy_only', authority }, undefined, { dial })
  const asked = () => it.events.flatMap((event) => (event.type === 'request.opened' ? [event.body.action] : []))
  const used = () => it.events.flatMap((event) => (event.type === 'grant.used' ? [event.body.request] : []))

  /** Makes a call, and says what came of it; one that is asked for is given up. */
  async function make(url: string, method = 'GET', headers: Record<string, string> = {}, folder = it.folder): Promise<string> {
    const before = asked().length
    const one = request({
      socketPath: join(folder, 'net.sock'),
      method,
      path: url,
      headers: { host: new URL(url).host, ...headers },
      agent: false,
    })
    one.on('error', () => {})
    one.end()
    return outcome(one, before)
  }
  async function connect(authority: string): Promise<string> {
    const before = asked().length
    const headers = { host: authority }
    const one = request({ socketPath: join(it.folder, 'net.sock'), method: 'CONNECT', path: authority, headers, agent: false })
    one.on('error', () => {})
    one.end()
    // On the port of plain HTTP nothing is asked before it is known what is spoken.
    one.once('connect', (_response, socket: Socket) => {
      connectTls({ socket, servername: authority.replace(/:\d+$/, '') }).on('error', () => {})
    })
    return outcome(one, before)
  }
  async function outcome(one: ReturnType<typeof request>, before: number): Promise<string> {
    const ended = new AbortController()
    const answered = once(one, 'response', { signal: ended.signal }).then(([response]) => text(response as IncomingMessage))
    const opened = (async () => {
      while (asked().length === before && !ended.signal.aborted) await new Promise((resolve) => setImmediate(resolve))
      return 'asked'
    })()
    const what = await Promise.race([answered.catch(() => 'nothing'), opened])
    ended.abort()
    one.destroy()
    return what
  }
  return {
    ...it,
    seen,
    asked,
    used,
    make,
    connect,
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}
type Made = Awaited<ReturnType<typeof withGrant>>

const changed: Readonly<Record<string, (it: Made) => Promise<string>>> = {
  'another host': (it) => it.make('http://other.test/a'),
  'a host below it': (it) => it.make('http://www.granted.test/a'),
  'another port': (it) => it.make('http://granted.test:8080/a'),
  'another method': (it) => it.make('http://granted.test/a', 'POST'),
  'a method that reads less': (it) => it.make('http://granted.test/a', 'HEAD'),
  'another path': (it) => it.make('http://granted.test/b'),
  'a path below it': (it) => it.make('http://granted.test/a/'),
  'a path in other letters': (it) => it.make('http://granted.test/A'),
  'a path in percent form': (it) => it.make('http://granted.test/%61'),
  'a query': (it) => it.make('http://granted.test/a?b'),
  'another scheme': (it) => it.connect('granted.test:443'),
  'another scheme on the same port': (it) => it.connect('granted.test:80'),
}

test.each(Object.entries(changed))(
  'a grant for one call does not let %s through, and is still there for what it was given for',
  async (_, mutated) => {
    await using it = await withGrant(granted(call))
    expect(await mutated(it)).toBe('asked')
    expect([it.seen, it.used()]).toEqual([[], []])
    expect(it.asked()).not.toContainEqual(call)
    expect(await it.make('http://granted.test/a')).toBe('reached')
    expect([it.seen, it.used()]).toEqual([['GET granted.test/a'], ['req_0000000000000001']])
  },
)

test.each([
  ['a host in capitals', 'http://GRANTED.test/a', {}],
  ['the port said', 'http://granted.test:80/a', {}],
  ['other headers', 'http://granted.test/a', { 'user-agent': 'another', 'x-why': 'in other words' }],
] as const)('a grant is for what a call means: %s is the same call', async (_, url, headers) => {
  await using it = await withGrant(granted(call))
  expect(await it.make(url, 'GET', headers)).toBe('reached')
  expect(it.used()).toHaveLength(1)
})

test('a grant for once is used once, and not at all when it is over', async () => {
  await using it = await withGrant(granted(call))
  expect(await it.make('http://granted.test/a')).toBe('reached')
  expect(await it.make('http://granted.test/a')).toBe('asked')
  expect([it.seen.length, it.used().length]).toEqual([1, 1])
  await using late = await withGrant(granted(call, { expires_at: Date.now() - 1 }))
  expect(await late.make('http://granted.test/a')).toBe('asked')
  expect(late.used()).toEqual([])
})

test('of several calls at once a grant for once lets one through', async () => {
  await using it = await withGrant(granted(call))
  const answers: string[] = []
  const all = Array.from({ length: 8 }, () => {
    const headers = { host: 'granted.test' }
    const one = request({ socketPath: join(it.folder, 'net.sock'), path: 'http://granted.test/a', headers, agent: false })
    one.on('error', () => {}).once('response', (response) => void text(response).then((body) => answers.push(body)))
    return one.end()
  })
  await expect.poll(() => [answers, it.asked()]).toEqual([['reached'], [call]])
  expect([it.seen.length, it.used().length]).toEqual([1, 1])
  for (const one of all) one.destroy()
})

test('a grant for a TLS connection is for no plain request to the same place', async () => {
  await using it = await withGrant(granted({ ...call, port: 443, method: null, path: null }))
  expect(await it.make('http://granted.test:443/a')).toBe('asked')
  expect([it.seen, it.used()]).toEqual([[], []])
})

test('a cell that asks for ever more has 50 requests opened, and the rest refused', async () => {
  await using it = await withGrant(granted(call))
  const statuses: (number | undefined)[] = []
  const all = Array.from({ length: 200 }, (_, n) => {
    const path = `http://unknown.test/${n}`
    const one = request({ socketPath: join(it.folder, 'net.sock'), path, headers: { host: 'unknown.test' }, agent: false })
    one
      .on('error', () => {})
      .once('response', (response) => {
        statuses.push(response.statusCode)
        response.resume()
      })
    return one.end()
  })
  await expect.poll(() => [it.asked().length, statuses.length], { timeout: 20_000 }).toEqual([50, 150])
  expect(new Set(statuses)).toEqual(new Set([403]))
  expect(it.seen).toEqual([])
  for (const one of all) one.destroy()
})

test("another session's grant is no grant", async () => {
  await using it = await withGrant(granted(call))
  const folder = join(it.root, 'other')
  mkdirSync(folder)
  const authority = { policy: defaultPolicy, grants: [], asked: [] }
  await it.gate.handle({ ...it.opened, session: 'ses_0000000000000002' as SessionId, folder, authority })
  expect(session).not.toBe('ses_0000000000000002')
  expect(await it.make('http://granted.test/a', 'GET', {}, folder)).toBe('asked')
  expect([it.seen, it.used()]).toEqual([[], []])
})

test.each(['x-anchorhold-grant', 'x-anchorhold-request', 'authorization', 'proxy-authorization', 'x-anchorhold-decision'])(
  'a header %s from inside is no grant',
  async (header) => {
    await using it = await withGrant(granted(call))
    const forged = JSON.stringify({ request: 'req_0000000000000001', digest: granted(call).digest, decision: 'allow' })
    expect(await it.make('http://granted.test/b', 'GET', { [header]: forged })).toBe('asked')
    expect([it.seen, it.used()]).toEqual([[], []])
  },
)

test('a session whose policy no longer lets it have a net window loses it at once, and has it back when it may', async () => {
  await using it = await withGrant(granted(call, { scope: 'session' }))
  expect(await it.make('http://granted.test/a')).toBe('reached')
  await it.gate.handle({ ...it.opened, network: 'none' })
  expect(existsSync(join(it.folder, 'net.sock'))).toBe(false)
  // Told twice at once, one window is opened, which one close ends.
  await Promise.all([it.gate.handle(it.opened), it.gate.handle(it.opened)])
  expect(await it.make('http://granted.test/a')).toBe('reached')
  await it.gate.handle({ ...it.opened, network: 'none' })
  expect(existsSync(join(it.folder, 'net.sock'))).toBe(false)
})
