import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, request } from 'node:http'
import { createConnection, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { connect as connectTls, createServer } from 'node:tls'
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { digestOf } from '@anchorhold/core/policy/digest'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { Grant } from '@anchorhold/protocol/authority'
import type { Policy, Rule } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { rehearsal, session, testGate } from '../../test-gate.ts'
import { listener, publicAddress, selfSigned } from './test-net.ts'

const certificate = selfSigned('allowed.test')
const ruled = (...rules: Rule[]): Policy => ({ ...defaultPolicy, rules })
const onHost = (effect: Rule['effect'], more: object = {}): Rule => ({
  ...{ on: 'net', match: { host: 'allowed.test', ...more }, effect },
})
const allowed = ruled(onHost('allow'))
const connection = { kind: 'net', host: 'allowed.test', port: 443, method: null, path: null } as const
const granted = (more: Partial<Grant> = {}): Grant => ({
  request: 'req_0000000000000001' as RequestId,
  digest: digestOf(connection, (text) => createHash('sha256').update(text).digest('hex')),
  ...{ pins: [], scope: 'once', rule: null, expires_at: null, actor: 'owner' },
  ...more,
})

/** A gate whose session has a net window, before a server that every name leads to. */
async function setUp(server: Server, policy: Policy, grants: Grant[] = []) {
  const behind = await listener(server)
  const dial = {
    machineAddresses: () => [],
    resolve: async () => [publicAddress],
    connect: () => createConnection({ host: '127.0.0.1', port: behind.port, allowHalfOpen: true }),
  }
  const authority = { policy, grants, asked: [] }
  const it = await testGate({ provider: rehearsal, network: 'proxy_only', authority }, undefined, { dial })
  const socketPath = join(it.folder, 'net.sock')
  return {
    ...it,
    socketPath,
    /** TLS through a tunnel to a server that says again what it hears. */
    async tunnel(): Promise<Duplex> {
      const headers = { host: 'allowed.test:443' }
      const asking = request({ socketPath, method: 'CONNECT', path: headers.host, headers, agent: false }).end()
      const [, socket] = (await once(asking, 'connect')) as [IncomingMessage, Socket]
      const secure = connectTls({ socket: socket.on('error', () => {}), servername: 'allowed.test', rejectUnauthorized: false })
      secure.on('error', () => {})
      await once(secure, 'secureConnect')
      return secure
    },
    enforce: (next: Policy) => it.gate.handle({ do: 'policy', session, policy: next }),
    /** What the log says was cut. */
    async cut(): Promise<string[]> {
      await it.gate.handle({ do: 'close', session })
      return it.events.flatMap((event) => (event.type === 'net' && event.body.why !== null ? [event.body.why] : []))
    },
    async [Symbol.asyncDispose]() {
      await it[Symbol.asyncDispose]()
      await behind[Symbol.asyncDispose]()
    },
  }
}
const echoing = () => createServer(certificate, (socket) => void socket.on('error', () => {}).pipe(socket))
const ended = (one: Duplex) => new Promise<void>((done) => (one.destroyed ? done() : one.once('close', done).resume()))
async function says(one: Duplex, words: string): Promise<string> {
  one.write(words)
  const [said] = (await once(one, 'data')) as [Buffer]
  return said.toString()
}

test.each<[string, Policy]>([
  ['denies it', ruled(onHost('deny'))],
  ['asks for it', ruled()],
  ['looks into it', ruled(onHost('allow', { path: '/a' }))],
  ['opens it', ruled({ on: 'net', match: { host: 'allowed.test' }, effect: 'allow', how: 'open' })],
])('a tunnel ends when the policy %s, and the log says so', async (_, policy) => {
  await using it = await setUp(echoing(), allowed)
  const tunnel = await it.tunnel()
  expect(await says(tunnel, 'out')).toBe('out')
  await it.enforce(policy)
  await ended(tunnel)
  expect(await it.cut()).toEqual([expect.stringContaining('It was cut, because rules have changed')])
})

test('a tunnel ends when what it leads to is a forge’s by now', async () => {
  await using it = await setUp(echoing(), allowed)
  const tunnel = await it.tunnel()
  await it.gate.handle({
    ...it.opened,
    authority: { policy: allowed, grants: [], asked: [] },
    net: { ...it.opened.net, forges: { 'allowed.test': null } },
  })
  await ended(tunnel)
  expect(await it.cut()).toEqual([expect.stringContaining('What goes there is looked into')])
})

test.each<[string, Policy, Policy, Grant[]]>([
  ['rules still allow', allowed, ruled(onHost('allow', { port: 443 })), []],
  ['a person allowed once', ruled(), ruled(onHost('ask')), [granted()]],
  ['a person allowed for the session', ruled(), ruled(onHost('ask')), [granted({ scope: 'session' })]],
  ['a person’s rule covers', ruled(), ruled(), [granted({ scope: 'session', rule: onHost('allow') })]],
])('a tunnel that %s goes on under a changed policy, until it is denied', async (_, before, after, grants) => {
  await using it = await setUp(echoing(), before, grants)
  const tunnel = await it.tunnel()
  await it.enforce(after)
  expect(await says(tunnel, 'still out')).toBe('still out')
  await it.enforce(ruled(onHost('deny')))
  await ended(tunnel)
})

test('what a person allowed once is not what lets another connection stand', async () => {
  await using it = await setUp(echoing(), ruled(), [granted()])
  const once = await it.tunnel()
  await it.enforce(allowed)
  const ruledOut = await it.tunnel()
  await it.enforce(ruled())
  await ended(ruledOut)
  expect(await says(once, 'still out')).toBe('still out')
})

test('a WebSocket and an answer without an end are cut when their path is denied', async () => {
  const server = createHttpServer((_, response) => void response.write('first'))
  server.on('upgrade', (_, socket: Duplex) => {
    socket.on('error', () => {}).write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
    socket.pipe(socket)
  })
  await using it = await setUp(server, allowed)
  const start = (path: string, headers: Record<string, string>) =>
    request({
      socketPath: it.socketPath,
      path: `http://allowed.test${path}`,
      headers: { host: 'allowed.test', ...headers },
      agent: false,
    })
      .on('error', () => {})
      .end()
  const [, socket] = (await once(start('/ws', { connection: 'Upgrade', upgrade: 'websocket' }), 'upgrade')) as [unknown, Socket]
  const [response] = (await once(start('/stream', {}), 'response')) as [IncomingMessage]
  await once(
    response.on('error', () => {}),
    'data',
  )
  expect(
    await says(
      socket.on('error', () => {}),
      'out',
    ),
  ).toBe('out')
  await it.enforce(ruled(onHost('allow'), onHost('deny', { path: '/stream' })))
  await ended(response as unknown as Duplex)
  expect(await says(socket, 'still out')).toBe('still out')
  await it.enforce(ruled(onHost('allow'), onHost('deny', { path: '/ws' })))
  await ended(socket)
})
