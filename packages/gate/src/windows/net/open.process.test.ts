import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type ConnectionOptions, createServer as createTlsServer, type TLSSocket } from 'node:tls'
import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { sessionCa } from './session-ca.ts'
import { listener, type NetSetup, publicAddress, selfSigned, testNet } from './test-net.ts'

const certificate = selfSigned('allowed.test', publicAddress)
const opened = { on: 'net', match: { host: 'allowed.test' }, effect: 'allow', how: 'open' } as const

/** Answers with what it was sent. */
const mirror = () =>
  listener(
    createServer(certificate, (asked, response) => {
      void text(asked).then((body) =>
        response.end(JSON.stringify({ method: asked.method, url: asked.url, headers: asked.headers, body })),
      )
    }),
  )

async function openNet(upstream: number, more: NetSetup = {}) {
  const net = await testNet({ upstream, trusted: [certificate.cert], rules: [opened], ...more })
  /** A client that trusts the session's authority alone. */
  const client = (options: ConnectionOptions = {}, authority = 'allowed.test:443') =>
    net.tls(authority, undefined, { ca: net.certificate, rejectUnauthorized: true, ...options })
  return Object.assign(net, { client })
}

const agents = new WeakMap<TLSSocket, Agent>()
/** Sends a request over a connection, and keeps that for the next one. */
async function ask(
  secure: TLSSocket,
  path: string,
  { method = 'GET', headers = {}, body = '' }: { method?: string; headers?: Record<string, string>; body?: string | Buffer } = {},
) {
  const agent = agents.get(secure) ?? Object.assign(new Agent({ keepAlive: true }), { createConnection: () => secure })
  agents.set(secure, agent)
  const asking = request({ method, path, headers: { host: 'allowed.test', ...headers }, agent })
  asking.end(body)
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) }
}

/** Says bytes inside a connection that is opened, and gives all that comes back. */
async function say(secure: TLSSocket, bytes: string): Promise<string> {
  secure.end(bytes)
  return text(secure).catch(() => '')
}

test('a request in a connection that is opened is judged by method and path, and sent over one that is kept', async () => {
  await using server = await mirror()
  await using net = await openNet(server.port)
  const secure = await net.client()
  expect(net.judged).toEqual([])
  expect(secure.alpnProtocol).toBe(false)
  const first = await ask(secure, '/a?b=c', { method: 'POST', headers: { 'x-mine': 'yes' }, body: 'hello' })
  expect(JSON.parse(first.body)).toMatchObject({
    method: 'POST',
    url: '/a?b=c',
    body: 'hello',
    headers: { host: 'allowed.test', 'x-mine': 'yes', via: '1.1 anchorhold', 'content-length': '5' },
  })
  const chunked = await ask(secure, '/c', { method: 'PUT', headers: { 'transfer-encoding': 'chunked' }, body: 'in pieces' })
  expect(JSON.parse(chunked.body)).toMatchObject({ method: 'PUT', body: 'in pieces' })
  for (let round = 0; round < 5; round++) expect(await ask(secure, `/${round}`)).toMatchObject({ status: 200 })
  expect(net.judged.slice(0, 3)).toEqual([
    { kind: 'net', host: 'allowed.test', port: 443, method: 'POST', path: '/a?b=c' },
    { kind: 'net', host: 'allowed.test', port: 443, method: 'PUT', path: '/c' },
    { kind: 'net', host: 'allowed.test', port: 443, method: 'GET', path: '/0' },
  ])
  // One for each that has a body and could not be said again; the others share one.
  expect(server.connections).toBe(2)
  expect(await ask(await net.client(), '/other')).toMatchObject({ status: 200 })
  expect(server.connections).toBe(2)
  const [told, ...further] = net.net()
  expect(further).toEqual([])
  expect(told).toMatchObject({ host: 'allowed.test', port: 443, connections: 8, blocked: 0 })
  expect(told!.bytes_in).toBeGreaterThan(1000)
})

test('what is denied inside is answered there, named without its query, and reaches nobody', async () => {
  await using server = await mirror()
  await using net = await openNet(server.port, {
    judge: async ({ method, path }) =>
      method === 'GET' && path === '/ok' ? { allow: true } : { allow: false, why: 'only /ok may be read' },
  })
  expect(await ask(await net.client(), '/ok')).toMatchObject({ status: 200 })
  const refused = await ask(await net.client(), '/private?token=abc', { method: 'DELETE' })
  expect(refused).toMatchObject({ status: 403, headers: { 'x-anchorhold-blocked': 'allowed.test:443' } })
  expect(JSON.parse(refused.body)).toMatchObject({
    anchorhold: { blocked: { host: 'allowed.test', port: 443, method: 'DELETE' }, why: 'only /ok may be read' },
  })
  expect(net.net()).toMatchObject([{ blocked: 1, why: 'DELETE /private: only /ok may be read' }])
  expect(JSON.stringify(net.net())).not.toContain('abc')
})

test.each([
  ['another host', 'GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n'],
  ['another port', 'GET / HTTP/1.1\r\nHost: allowed.test:8443\r\n\r\n'],
  ['no host', 'GET / HTTP/1.1\r\n\r\n'],
  ['two hosts', 'GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: evil.test\r\n\r\n'],
  ['another host in its target', 'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n'],
  ['a CONNECT', 'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n'],
  ['two lengths', 'POST / HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['another coding', 'POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
])('a request inside that has %s is refused', async (_, bytes) => {
  await using server = await mirror()
  await using net = await openNet(server.port)
  expect(await say(await net.client(), bytes)).toMatch(/^HTTP\/1\.1 400 /)
  expect([net.judged, net.dialled]).toEqual([[], []])
})

test('a client that speaks HTTP/2 alone is told so by TLS, and one that offers it speaks HTTP/1.1', async () => {
  await using server = await mirror()
  await using net = await openNet(server.port)
  await expect(net.client({ ALPNProtocols: ['h2'] })).rejects.toThrow(/no application protocol/i)
  expect((await net.client({ ALPNProtocols: ['h2', 'http/1.1'] })).alpnProtocol).toBe('http/1.1')
})

test.each([
  ['for another name', selfSigned('other.test'), true],
  ['of nobody’s', selfSigned('allowed.test'), false],
])('a server with a certificate %s gets no byte of a request', async (_, other, isTrusted) => {
  const seen: string[] = []
  await using server = await listener(createServer(other, ({ url }, response) => void response.end(seen.push(url!))))
  await using net = await openNet(server.port, { trusted: [isTrusted ? other.cert : certificate.cert] })
  const { status, body } = await ask(await net.client(), '/secret')
  expect(status).toBe(502)
  expect(body).toMatch(/certificate is (for another name|not to be trusted)/)
  expect(seen).toEqual([])
})

test('a name on loopback is not dialled for a request inside, although a rule opens it', async () => {
  await using server = await mirror()
  await using net = await openNet(server.port, { dial: { resolve: async () => ['127.0.0.1'] } })
  expect(await ask(await net.client(), '/')).toMatchObject({ status: 403 })
  expect([net.dialled, server.connections]).toEqual([[], 0])
})

test('a connection that the server gave up between two requests is made anew, and a request with a body gets one of its own', async () => {
  let answered = 0
  await using server = await listener(
    createTlsServer(certificate, (socket) => {
      socket.on('error', () => {})
      socket.once('data', () => {
        answered++
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok')
        // The next request on it is met with a reset.
        socket.once('data', () => socket.destroy())
      })
    }),
  )
  await using net = await openNet(server.port)
  const secure = await net.client()
  for (let round = 0; round < 4; round++) expect(await ask(secure, '/')).toMatchObject({ status: 200, body: 'ok' })
  expect(await ask(secure, '/', { method: 'POST', body: 'once' })).toMatchObject({ status: 200 })
  expect(answered).toBe(5)
})

test('a WebSocket inside is joined to the server’s', async () => {
  const web = createServer(certificate)
  web.on('upgrade', (asked, socket) => {
    const accept = createHash('sha1').update(`${asked.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept.digest('base64')}\r\n\r\n`,
    )
    socket.pipe(socket)
  })
  await using server = await listener(web)
  await using net = await openNet(server.port)
  const secure = await net.client()
  const headers = { host: 'allowed.test', connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-key': 'a2V5' }
  const asking = request({ path: '/live', headers, createConnection: () => secure })
  asking.end()
  const [, socket] = (await once(asking, 'upgrade')) as [IncomingMessage, TLSSocket]
  socket.write('hello')
  expect(String(((await once(socket, 'data')) as [Buffer])[0])).toBe('hello')
  expect(net.judged).toMatchObject([{ method: 'GET', path: '/live' }])
})

test('much goes through in both directions, no faster than it is read', async () => {
  const size = 24_000_000
  let sent = 0
  await using server = await listener(
    createServer(certificate, (asked, response) => {
      if (asked.method === 'POST') {
        let got = 0
        asked.on('data', (chunk: Buffer) => (got += chunk.length)).once('end', () => response.end(String(got)))
        return
      }
      const chunk = Buffer.alloc(100_000)
      const more = () => {
        while (sent < size) {
          sent += chunk.length
          if (!response.write(chunk)) return void response.once('drain', more)
        }
        response.end()
      }
      more()
    }),
  )
  await using net = await openNet(server.port)
  expect(await ask(await net.client(), '/', { method: 'POST', body: Buffer.alloc(size) })).toMatchObject({ body: String(size) })
  const secure = await net.client()
  const asking = request({ path: '/', headers: { host: 'allowed.test' }, createConnection: () => secure })
  asking.end()
  const [response] = (await once(asking, 'response')) as [IncomingMessage]
  await once(response, 'readable')
  // Nobody reads on: what was sent stays at what buffers hold.
  let before = -1
  while (before !== sent) {
    before = sent
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  expect(sent).toBeLessThan(size / 2)
  let got = 0
  for await (const chunk of response) got += (chunk as Buffer).length
  expect(got).toBe(size)
})

test('sessionCa() is the same authority in the gate that comes after, and another one for another session', async () => {
  const seed = Buffer.alloc(32, 7)
  await using server = await mirror()
  await using net = await openNet(server.port)
  const [same, other] = await Promise.all(
    ['ses_0000000000000001', 'ses_0000000000000002'].map((id) => sessionCa(seed, id as SessionId, Date.now).certificate()),
  )
  expect(await ask(await net.client({ ca: same }), '/')).toMatchObject({ status: 200 })
  await expect(net.client({ ca: other })).rejects.toThrow()
})

test('sessionCa() writes certificates that a strict reader takes, for names and addresses', async () => {
  await using server = await mirror()
  const rules = [opened, { ...opened, match: { host: publicAddress } }]
  await using net = await openNet(server.port, { rules, allow: [publicAddress] })
  const folder = mkdtempSync(join(tmpdir(), 'ah-strict-'))
  try {
    const addressed = await net.client({ servername: '', host: publicAddress }, `${publicAddress}:443`).catch(async () => {
      const { socket } = await net.connect(`${publicAddress}:443`)
      const secure = connectTls({ socket, host: publicAddress, ca: net.certificate })
      await once(secure, 'secureConnect')
      return secure
    })
    for (const [secure, check] of [
      [await net.client(), ['-verify_hostname', 'allowed.test']],
      [addressed, ['-verify_ip', publicAddress]],
    ] as const) {
      const [leaf, ca] = [join(folder, 'leaf.pem'), join(folder, 'ca.pem')]
      writeFileSync(leaf, secure.getPeerX509Certificate()!.toString())
      writeFileSync(ca, net.certificate)
      const said = execFileSync('openssl', ['verify', '-x509_strict', '-purpose', 'sslserver', ...check, '-CAfile', ca, leaf])
      expect(String(said)).toContain('OK')
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})
