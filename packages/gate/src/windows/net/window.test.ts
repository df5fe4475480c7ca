import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import { createConnection, createServer as createTcpServer, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { createServer as createTlsServer } from 'node:tls'
import { expect, test, vi } from 'vitest'
import { helloOf, listener, publicAddress, selfSigned, testNet, trap } from './test-net.ts'

const certificate = selfSigned('allowed.test', '127.0.0.1')
const tlsEcho = () => listener(createTlsServer(certificate, (socket) => void socket.on('error', () => {}).pipe(socket)))

test('a CONNECT to an allowed host carries TLS as it is, and its bytes are counted', async () => {
  await using server = await tlsEcho()
  await using net = await testNet({ upstream: server.port })
  const secure = await net.tls('allowed.test:443')
  const sent = Buffer.alloc(3_000_000, 'x')
  secure.end(sent)
  expect((await text(secure)).length).toBe(sent.length)
  expect(net.judged).toEqual([{ kind: 'net', host: 'allowed.test', port: 443, method: null, path: null }])
  expect(net.resolved).toEqual(['allowed.test'])
  expect(net.dialled).toEqual([`${publicAddress} 443`])
  const [told, ...further] = net.net()
  expect(further).toEqual([])
  expect(told).toMatchObject({ host: 'allowed.test', port: 443, connections: 1, blocked: 0, why: null })
  expect(told!.bytes_out).toBeGreaterThan(sent.length)
  expect(told!.bytes_in).toBeGreaterThan(sent.length)
  expect(told!.bytes_out).toBeLessThan(sent.length * 1.02)
})

test('a CONNECT that no rule opens is answered with what was blocked and how to ask, and nothing is looked up', async () => {
  await using net = await testNet({})
  const { status, said, body } = await net.refused('secret-data.evil.test:443')
  expect(status).toBe(403)
  expect(said).toContain('x-anchorhold-blocked: secret-data.evil.test:443\r\n')
  expect(body).toMatchObject({
    anchorhold: {
      blocked: { host: 'secret-data.evil.test', port: 443, method: null, path: null },
      why: 'no rule covers it',
      how_to_ask: expect.stringContaining('policy.yaml') as unknown,
    },
  })
  expect([net.resolved, net.dialled]).toEqual([[], []])
  expect(net.net()).toMatchObject([{ host: 'secret-data.evil.test', blocked: 1, why: 'no rule covers it', connections: 0 }])
  // Where no answer of a person's would help, nobody is told to ask for one.
  const own = await net.refused('10.0.0.1:443')
  expect(JSON.stringify(own.body)).toContain('own_network: true')
  expect(JSON.stringify(own.body)).not.toContain('request_access')
})

test('where nobody is there to be asked, only a rule is named', async () => {
  await using net = await testNet({ alone: true })
  const { body } = await net.refused('secret-data.evil.test:443')
  expect(JSON.stringify(body)).toContain('A rule in policy.yaml opens it')
  expect(JSON.stringify(body)).not.toContain('request_access')
})

test.each([
  ['another server', 'evil.test'],
  ['none', ''],
])('a TLS connection within a CONNECT that names %s gets no byte through', async (_, servername) => {
  await using server = await tlsEcho()
  await using net = await testNet({ upstream: server.port })
  const { connect } = await import('node:tls')
  const { status, socket } = await net.connect('allowed.test:443')
  expect(status).toBe(200)
  const secure = connect({ socket, servername, rejectUnauthorized: false })
  const [error] = (await once(secure, 'error')) as [Error]
  expect(error.message).toMatch(/access denied/i)
  const [told] = net.net()
  expect(told).toMatchObject({ host: 'allowed.test', bytes_out: 0, blocked: 1 })
})

/** A server that wants every client to begin once more, because it likes another curve than the first one. */
const tlsAgain = () =>
  listener(
    createTlsServer(
      { ...certificate, ecdhCurve: 'secp521r1', minVersion: 'TLSv1.3' },
      (socket) => void socket.on('error', () => {}).pipe(socket),
    ),
  )

test('a TLS client that is told to begin once more does so, and for the same server only', async () => {
  await using server = await tlsAgain()
  await using net = await testNet({ upstream: server.port })
  const curves = { ecdhCurve: 'X25519:secp521r1', minVersion: 'TLSv1.3' } as const
  const secure = await net.tls('allowed.test:443', undefined, curves)
  secure.end('hello')
  expect(await text(secure)).toBe('hello')

  await using other = await testNet({ upstream: server.port })
  const { socket } = await other.connect('allowed.test:443')
  const [good, evil] = [await helloOf('allowed.test', curves), await helloOf('evil.test', curves)]
  socket.write(Buffer.concat([good, Buffer.from([20, 3, 3, 0, 1, 1]), evil]))
  await once(socket.resume(), 'close')
  const why = 'The TLS connection names another server than "allowed.test"'
  expect(other.net()).toMatchObject([{ host: 'allowed.test', bytes_out: good.length, blocked: 1, why }])
})

test('a connection to an address names no server in TLS', async () => {
  await using server = await tlsEcho()
  await using net = await testNet({ allow: [publicAddress], upstream: server.port })
  const secure = await net.tls(`${publicAddress}:443`, '')
  secure.end('hello')
  expect(await text(secure)).toBe('hello')
  await expect(net.tls(`${publicAddress}:443`, 'allowed.test')).rejects.toThrow(/access denied/i)
})

test('a client that has a connection and says nothing is waited for as long as its cell is slow', async () => {
  await using server = await tlsEcho()
  await using net = await testNet({ upstream: server.port, slowness: 0.001 })
  const { status, socket } = await net.connect('allowed.test:443')
  expect(status).toBe(200)
  await once(socket.resume(), 'close')
  expect(net.net()).toMatchObject([{ host: 'allowed.test', bytes_out: 0 }])
})

test('what is neither TLS nor HTTP does not go through a CONNECT', async () => {
  await using server = await listener(createTcpServer((socket) => void socket.end('reached')))
  await using net = await testNet({ upstream: server.port })
  for (const bytes of [
    'SSH-2.0-OpenSSH_9.2\r\n',
    '\u0000\u0001\u0002\u0003',
    'EHLO evil\r\n',
    `\u0016\u0003\u0001\u0000\u0005hello`,
  ]) {
    const { socket } = await net.connect('allowed.test:22')
    socket.end(Buffer.from(bytes, 'latin1'))
    expect(await text(socket)).not.toContain('reached')
  }
  expect(net.net()).toEqual(expect.arrayContaining([expect.objectContaining({ host: 'allowed.test', bytes_out: 0 })]))
})

/** Answers with what it was sent. */
const mirror = () =>
  listener(
    createServer((asked, response) => {
      void text(asked).then((body) =>
        response.end(JSON.stringify({ method: asked.method, url: asked.url, headers: asked.rawHeaders, body })),
      )
    }),
  )
type Mirrored = { method: string; url: string; headers: string[]; body: string }
const mirrored = (body: string) => JSON.parse(body) as Mirrored

test('a request in absolute form is judged by method and path, and written anew', async () => {
  await using server = await mirror()
  await using net = await testNet({ upstream: server.port })
  const { status, body } = await net.get('http://allowed.test/a/b?c=d', {
    method: 'POST',
    headers: {
      connection: 'close, x-hop',
      'x-hop': '1',
      'proxy-authorization': 'Basic c2VjcmV0',
      te: 'trailers',
      'x-kept': 'yes',
      'content-length': '4',
    },
    body: 'body',
  })
  expect(status).toBe(200)
  expect(net.judged).toEqual([{ kind: 'net', host: 'allowed.test', port: 80, method: 'POST', path: '/a/b?c=d' }])
  const seen = mirrored(body)
  expect(seen).toMatchObject({ method: 'POST', url: '/a/b?c=d', body: 'body' })
  const names = seen.headers.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase())
  expect(names.sort()).toEqual(['connection', 'content-length', 'host', 'via', 'x-kept'])
  expect(seen.headers[seen.headers.indexOf('host') + 1]).toBe('allowed.test')
})

test('plain HTTP within a CONNECT is judged request by request, and each must name the same host', async () => {
  await using server = await mirror()
  await using net = await testNet({
    upstream: server.port,
    judge: async ({ path }) => (path === '/no' ? { allow: false, why: 'not that one' } : { allow: true }),
  })
  for (const port of [80, 8080]) {
    const { socket } = await net.connect(`allowed.test:${port}`)
    const ask = (path: string, host = port === 80 ? 'allowed.test' : `allowed.test:${port}`) =>
      `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`
    socket.write(ask('/yes'))
    const [first] = (await once(socket, 'data')) as [Buffer]
    expect(first.toString()).toContain('"url":"/yes"')
    socket.write(ask('/no'))
    expect(await text(socket)).toContain('not that one')
    const other = await net.connect(`allowed.test:${port}`)
    other.socket.write(ask('/yes', 'evil.test'))
    expect(await text(other.socket)).toContain('400 Bad Request')
    const absolute = await net.connect(`allowed.test:${port}`)
    absolute.socket.write(ask(`http://evil.test:${port}/`, `evil.test:${port}`))
    expect(await text(absolute.socket)).toContain('400 Bad Request')
  }
  expect(net.judged.filter(({ host }) => host !== 'allowed.test')).toEqual([])
})

test('a CONNECT within a CONNECT is refused', async () => {
  await using server = await mirror()
  await using net = await testNet({ upstream: server.port })
  const { socket } = await net.connect('allowed.test:80')
  socket.write('CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n')
  expect(await text(socket)).toContain('400 Bad Request')
})

test.each([
  ['another Host', 'GET http://allowed.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n'],
  ['two Hosts', 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nHost: allowed.test\r\n\r\n'],
  ['no Host', 'GET http://allowed.test/ HTTP/1.1\r\n\r\n'],
  ['origin form', 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
  ['https in absolute form', 'GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
  ['a user', 'GET http://allowed.test@evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n'],
  [
    'both lengths',
    'POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  ],
  [
    'two lengths',
    'POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!',
  ],
  [
    'an odd coding',
    'POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
  ],
  [
    'a coding in disguise',
    'POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
  ],
  ['a folded header', 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX: a\r\n b\r\n\r\n'],
  ['a bare line feed', 'GET http://allowed.test/ HTTP/1.1\nHost: allowed.test\n\n'],
  ['a null byte', 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX: \u0000\r\n\r\n'],
  ['another Host in a CONNECT', 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n'],
  ['no port in a CONNECT', 'CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['no HTTP', '\u0005\u0001\u0000'],
])('a request with %s is refused, and nothing is dialled', async (_, bytes) => {
  await using net = await testNet({})
  const said = await net.raw(Buffer.from(bytes, 'latin1'))
  expect(said).toMatch(/^HTTP\/1\.1 400 /)
  expect([net.judged, net.resolved, net.dialled]).toEqual([[], [], []])
})

test('a second request in one connection is judged as the first was, and cannot hide in its body', async () => {
  await using server = await mirror()
  await using net = await testNet({ upstream: server.port })
  const smuggled = 'GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n'
  const first = `POST http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: ${smuggled.length}\r\n\r\n${smuggled}`
  const said = await net.raw(first + smuggled)
  expect(said).toMatch(/^HTTP\/1\.1 200 OK/)
  expect(said).toContain('HTTP/1.1 403 Blocked by Anchorhold')
  expect(net.judged.map(({ host }) => host)).toEqual(['allowed.test', 'evil.test'])
  expect(net.dialled).toEqual([`${publicAddress} 80`])
})

test('a WebSocket goes through where its target may be reached, and another kind of upgrade is no upgrade', async () => {
  const accept = (key: string) => createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  const behind = createServer((asked, response) => void response.end(`plain ${asked.headers.upgrade ?? 'none'}`))
  behind.on('upgrade', (asked, socket) => {
    if (asked.url === '/no') return void socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno')
    const key = asked.headers['sec-websocket-key'] ?? ''
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept(key)}\r\n\r\nearly `,
    )
    socket.pipe(socket)
  })
  await using server = await listener(behind)
  await using net = await testNet({ upstream: server.port })
  const ask = (url: string, protocol = 'websocket') =>
    request({
      socketPath: net.socketPath,
      path: url,
      headers: { host: new URL(url).host, connection: 'Upgrade', upgrade: protocol, 'sec-websocket-key': 'abc' },
      agent: false,
    }).end()
  const [response, socket, head] = (await once(ask('http://allowed.test/chat'), 'upgrade')) as [
    { headers: Record<string, string> },
    Socket,
    Buffer,
  ]
  expect(response.headers['sec-websocket-accept']).toBe(accept('abc'))
  socket.end('late')
  expect(head.toString() + (await text(socket))).toBe('early late')
  expect(net.judged).toEqual([{ kind: 'net', host: 'allowed.test', port: 80, method: 'GET', path: '/chat' }])
  const [refusal] = (await once(ask('http://evil.test/chat'), 'response')) as [{ statusCode: number }]
  expect(refusal.statusCode).toBe(403)
  const [required] = (await once(ask('http://allowed.test/no'), 'response')) as [{ statusCode: number }]
  expect(required.statusCode).toBe(426)
  const [plain] = (await once(ask('http://allowed.test/', 'h2c'), 'response')) as [IncomingMessage]
  expect(await text(plain)).toBe('plain none')
})

test('a server that agrees to another protocol than was asked for is left at once', async () => {
  const behind = createServer()
  const left = Promise.withResolvers<string>()
  behind.on('upgrade', (_, socket) => {
    socket
      .on('error', () => {})
      .once('end', () => left.resolve('left'))
      .resume()
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n')
  })
  await using server = await listener(behind)
  await using net = await testNet({ upstream: server.port })
  const headers = { host: 'allowed.test', connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-key': 'abc' }
  const asking = request({ socketPath: net.socketPath, path: 'http://allowed.test/chat', headers, agent: false }).end()
  const [refusal] = (await once(asking, 'response')) as [{ statusCode: number }]
  expect(refusal.statusCode).toBe(502)
  asking.destroy()
  expect(await Promise.race([left.promise, wait(2000, 'still there')])).toBe('left')
})

test('an answer that only a proxy may give is not passed on', async () => {
  await using server = await listener(
    createServer((_, response) => void response.writeHead(407, { 'proxy-authenticate': 'Basic' }).end()),
  )
  await using net = await testNet({ upstream: server.port })
  expect((await net.get('http://allowed.test/')).status).toBe(502)
})

test('a server that cannot be reached is told as that, and not as blocked', async () => {
  await using net = await testNet({
    dial: { resolve: async () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' })) },
  })
  const { status, body } = await net.refused('allowed.test:443')
  expect(status).toBe(502)
  expect(body).toMatchObject({
    anchorhold: { failed: { host: 'allowed.test' }, why: expect.stringContaining('there is no such name') as unknown },
  })
})

test.each([
  ['an address of loopback', '127.0.0.1', []],
  ['a name on loopback', 'allowed.test', ['127.0.0.1']],
  ['a name on loopback beside a public one', 'allowed.test', [publicAddress, '127.0.0.1']],
  ['a name on IPv6 loopback beside a public one', 'allowed.test', [publicAddress, '::1']],
  ['a name on a mapped address', 'allowed.test', ['::ffff:127.0.0.1']],
  ['a name on the metadata of a cloud', 'allowed.test', ['169.254.169.254']],
  ['a name on what is no address', 'allowed.test', ['localhost']],
  ['localhost', 'localhost', ['127.0.0.1', '::1']],
])('%s is not dialled, whatever allows it', async (_, host, addresses) => {
  await using never = await trap()
  await using net = await testNet({
    judge: async () => ({ allow: true }),
    dial: { resolve: async () => addresses },
    upstream: never.port,
  })
  const connect = await net.refused(`${host}:${never.port}`)
  expect(connect.status).toBe(403)
  expect(connect.body).toMatchObject({ anchorhold: { why: expect.stringContaining('no cell is led to') as unknown } })
  const absolute = await net.get(`http://${host}:${never.port}/`)
  expect(absolute.status).toBe(403)
  expect(net.dialled).toEqual([])
  expect(never.connections).toBe(0)
})

test('an address of this very machine is not dialled, although it is a public one', async () => {
  await using never = await trap()
  await using net = await testNet({ upstream: never.port, dial: { machineAddresses: () => [publicAddress] } })
  expect((await net.refused('allowed.test:443')).status).toBe(403)
  expect(net.dialled).toEqual([])
})

test('a rule opens one host and port of the own network by name, and nothing beside it', async () => {
  await using server = await tlsEcho()
  await using never = await trap()
  const own = (host: string, port: number) => ({ on: 'net', match: { host, port }, effect: 'allow', own_network: true }) as const
  const rules = [own('allowed.test', server.port), own('cloud.test', 443), own('.test', never.port), own('*', never.port)]
  const answers: Record<string, string[]> = {
    'allowed.test': ['127.0.0.1'],
    'other.test': ['127.0.0.1'],
    'cloud.test': ['169.254.169.254'],
  }
  await using net = await testNet({
    judge: async () => ({ allow: true }),
    rules,
    dial: { resolve: async (host) => answers[host] ?? [] },
  })
  const secure = await net.tls(`allowed.test:${server.port}`)
  secure.end('hello')
  expect(await text(secure)).toBe('hello')
  for (const authority of [
    `allowed.test:${never.port}`,
    `other.test:${server.port}`,
    `127.0.0.1:${server.port}`,
    `sub.allowed.test:${server.port}`,
    'cloud.test:443',
  ])
    expect([403, 502]).toContain((await net.refused(authority)).status)
  expect(never.connections).toBe(0)
  expect(net.dialled).toEqual([`127.0.0.1 ${server.port}`])
})

test('a call that waits for a person goes on in the same connection, or is told what became of it', async () => {
  await using server = await tlsEcho()
  const asked = Promise.withResolvers<void>()
  const answer = Promise.withResolvers<{ allow: true } | { allow: false; why: string }>()
  await using net = await testNet({
    upstream: server.port,
    judge: async () => {
      asked.resolve()
      return answer.promise
    },
  })
  const going = net.tls('allowed.test:443')
  await asked.promise
  expect(net.resolved).toEqual([])
  answer.resolve({ allow: true })
  const secure = await going
  secure.end('on')
  expect(await text(secure)).toBe('on')
})

test('a client that goes away is no longer waited for, and neither is a person who does not answer', async () => {
  const heard: string[] = []
  const waiting = Promise.withResolvers<void>()
  const aborted = Promise.withResolvers<void>()
  await using net = await testNet({
    askMs: 500,
    judge: ({ host }, signal) =>
      new Promise((resolve) => {
        if (host === 'gone.test') waiting.resolve()
        signal.addEventListener('abort', () => {
          heard.push(host)
          resolve({ allow: false, why: 'nobody answered in time' })
          if (heard.length === 2) aborted.resolve()
        })
      }),
  })
  expect(await net.refused('slow.test:443')).toMatchObject({
    status: 403,
    body: { message: expect.stringContaining('A person was asked, and has not answered within 0.5 s') as unknown },
  })
  const leaving = createConnection(net.socketPath)
  leaving.write('CONNECT gone.test:443 HTTP/1.1\r\nHost: gone.test:443\r\n\r\n')
  await waiting.promise
  leaving.destroy()
  await aborted.promise
  expect(heard).toEqual(['slow.test', 'gone.test'])
  expect(net.dialled).toEqual([])
})

/** A window where nobody answers whoever asks, and a client that sends its requests in one go. */
async function pipelined(...requests: readonly string[]) {
  const gone = { count: 0 }
  const net = await testNet({
    judge: (_, signal) =>
      new Promise((resolve) => {
        const leave = () => {
          gone.count++
          resolve({ allow: false, why: 'nobody answered in time' })
        }
        signal.addEventListener('abort', leave, { once: true })
      }),
  })
  const client = createConnection(net.socketPath).on('error', () => {})
  client.resume().write(requests.join(''))
  return { net, gone, client, [Symbol.asyncDispose]: net[Symbol.asyncDispose] }
}
const asked = (path: string) => `GET http://asked.test${path} HTTP/1.1\r\nHost: asked.test\r\n`

test.each([
  ['WebSocket', `${asked('/')}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`],
  ['tunnel', 'CONNECT asked.test:80 HTTP/1.1\r\nHost: asked.test:80\r\n\r\n'],
])('a connection that waits for answers becomes no %s, and nobody waits on behind it', async (_, other) => {
  await using it = await pipelined(`${asked('/1')}\r\n`, `${asked('/2')}\r\n`, `${asked('/3')}\r\n`, other)
  await once(it.client, 'close')
  await vi.waitUntil(() => it.gone.count === 3, 10_000)
  expect(it.net.judged.map(({ path }) => path)).toEqual(['/1', '/2', '/3'])
})

test('a connection that asks for more at once than anybody does is ended', async () => {
  await using it = await pipelined(...Array.from({ length: 100 }, (_, n) => `${asked(`/${n}`)}\r\n`))
  await once(it.client, 'close')
  await vi.waitUntil(() => it.gone.count === it.net.judged.length, 10_000)
  expect(it.net.judged.length).toBeLessThanOrEqual(16)
})

test.each(['end', 'resetAndDestroy'] as const)('a server that goes without a word takes its client along (%s)', async (leave) => {
  await using server = await listener(
    createTcpServer((socket) => void socket.on('error', () => {}).once('data', () => socket[leave]())),
  )
  await using net = await testNet({ upstream: server.port })
  const { socket } = await net.connect('allowed.test:443')
  socket.write(await helloOf('allowed.test'))
  await once(socket.resume(), 'close')
})

test('a client that goes in the middle of an answer was kept from nothing', async () => {
  await using server = await listener(createServer((_, response) => void response.end(Buffer.alloc(40_000_000))))
  await using net = await testNet({ upstream: server.port })
  const client = createConnection(net.socketPath).on('error', () => {})
  client.write('GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  await once(client, 'data')
  client.destroy()
  await vi.waitUntil(() => net.lines.length === 1, 10_000)
  expect(net.net()).toMatchObject([{ host: 'allowed.test', connections: 1, blocked: 0 }])
})

test('a slow reader is waited for, and nothing piles up here', async () => {
  const size = 40_000_000
  await using server = await listener(createServer((_, response) => void response.end(Buffer.alloc(size))))
  await using net = await testNet({ upstream: server.port })
  const before = process.memoryUsage.rss()
  const asking = request({
    socketPath: net.socketPath,
    path: 'http://allowed.test/',
    headers: { host: 'allowed.test' },
    agent: false,
  }).end()
  const [response] = (await once(asking, 'response')) as [AsyncIterable<Buffer>]
  let [got, chunks] = [0, 0]
  for await (const chunk of response) {
    got += chunk.length
    if (++chunks % 50 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  expect(got).toBe(size)
  expect(process.memoryUsage.rss() - before).toBeLessThan(4 * size)
})

test('closing the window ends every connection at once', async () => {
  await using server = await tlsEcho()
  const net = await testNet({ upstream: server.port })
  const secure = await net.tls('allowed.test:443')
  secure.on('error', () => {})
  const closed = once(secure, 'close')
  await net[Symbol.asyncDispose]()
  await closed
  expect(net.events).toMatchObject([{ type: 'net', body: { host: 'allowed.test', connections: 1 } }])
})

test('the log is told where a call went, and nothing of what it said', async () => {
  await using server = await mirror()
  await using net = await testNet({ upstream: server.port })
  await net.get('http://allowed.test/secret?token=1', { headers: { authorization: 'Bearer secret' } })
  await net.refused('evil.test:443')
  await net.window.close()
  expect(net.lines).toMatchObject([
    { method: 'GET', path: 'allowed.test:80', status: 200 },
    { method: 'CONNECT', path: 'evil.test:443', status: 403 },
  ])
  expect(JSON.stringify(net.lines)).not.toMatch(/secret|token/)
})
