// The gate is attacked, through a real window, with what chance makes of CONNECT, TLS, SOCKS and the window's own calls. Seeded, so that
// what is found is found again. Plain HTTP is in packages/gate/src/windows/net/fuzz.test.ts.
import { runs } from '@anchorhold/protocol/test-runs'
import { helloOf, listener, publicAddress, selfSigned, testNet } from '@anchorhold/gate/windows/net/test-net'
import { serveSocks } from '@anchorhold/keeper/forwarder/socks'
import { accessPath, fetchPath } from '@anchorhold/protocol/net-calls'
import fc from 'fast-check'
import { createConnection, createServer, type NetConnectOpts } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'

const limitMs = 15_000
const bounds = { numRuns: runs(1500), seed: 20_261_115, interruptAfterTimeLimit: limitMs, markInterruptAsFailure: false }
const certificate = selfSigned('allowed.test')

/** A real TLS server that tells which names it was asked for: what it reads is what a bypass would be. */
async function secureServer() {
  const names = new Set<string>()
  const server = createTlsServer({
    ...certificate,
    SNICallback(name, done) {
      names.add(name)
      done(null)
    },
  })
  server.on('tlsClientError', () => {})
  const listening = await listener(server)
  return Object.assign(listening, { names })
}

/** Says these pieces one after the other, waits a moment for an answer, and goes. */
async function say(to: NetConnectOpts, pieces: readonly Uint8Array[]): Promise<void> {
  const socket = createConnection(to)
  socket.on('error', () => {}).resume()
  for (const piece of pieces) {
    socket.write(piece)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await wait(4)
  socket.destroy()
}

/** Bytes changed, left out, doubled and put in. */
const damage = fc.array(
  fc.record({ at: fc.nat(2000), how: fc.constantFrom('set', 'cut', 'double', 'insert'), value: fc.nat(255), length: fc.nat(40) }),
  { maxLength: 4 },
)
type Damage = typeof damage extends fc.Arbitrary<infer T> ? T : never
function damaged(bytes: Buffer, by: Damage): Buffer {
  let made = Buffer.from(bytes)
  for (const { at, how, value, length } of by) {
    const place = at % Math.max(1, made.length)
    if (how === 'set') made[place] = value
    else {
      const part = made.subarray(place, place + length)
      const middle = how === 'cut' ? [] : how === 'double' ? [part, part] : [Buffer.alloc(length, value), part]
      made = Buffer.concat([made.subarray(0, place), ...middle, made.subarray(place + length)])
    }
  }
  return made
}
/** In pieces, and in records, as it falls. */
function pieces(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const cut: Buffer[] = []
  let at = 0
  for (const size of sizes) {
    if (at >= bytes.length) break
    cut.push(bytes.subarray(at, at + 1 + size))
    at += 1 + size
  }
  return [...cut, bytes.subarray(at)]
}
function inRecords(bytes: Buffer, size: number): Buffer {
  const parts = pieces(
    bytes.subarray(5),
    Array.from({ length: Math.ceil(bytes.length / size) }, () => size - 1),
  )
  const record = (part: Buffer) => (part.length === 0 ? [] : [Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part])
  return Buffer.concat(parts.flatMap(record))
}

test('whatever stands in a CONNECT and the TLS within it, a server is asked for the allowed name and no other', async () => {
  await using server = await secureServer()
  await using net = await testNet({ upstream: server.port })
  // Of the same length, so that one can be swapped for the other without anything else changing.
  const hellos = [await helloOf('allowed.test'), await helloOf('evil-no.test'), await helloOf('allowed.tesu')]
  const head = fc.constantFrom(
    'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n',
    'CONNECT allowed.test:443 HTTP/1.1\r\n\r\n',
    'CONNECT evil-no.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n',
    'CONNECT allowed.test:443 HTTP/1.1\r\nHost: evil-no.test:443\r\n\r\n',
    'CONNECT allowed.test:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n',
    'CONNECT allowed.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n',
  )
  const secondTime = fc.constantFrom(Buffer.alloc(0), Buffer.from([20, 3, 3, 0, 1, 1]), hellos[1]!)
  await fc.assert(
    fc.asyncProperty(
      head,
      fc.constantFrom(...hellos),
      damage,
      secondTime,
      fc.option(fc.integer({ min: 1, max: 300 })),
      fc.array(fc.nat(200), { maxLength: 4 }),
      async (connect, hello, by, more, recordSize, sizes) => {
        const made = damaged(hello, by)
        const framed = recordSize === null ? made : inRecords(made, recordSize)
        await say({ path: net.socketPath }, [Buffer.from(connect), ...pieces(Buffer.concat([framed, more]), sizes)])
      },
    ),
    bounds,
  )
  const secure = await net.tls('allowed.test:443')
  secure.destroy()
  expect([...server.names].map((name) => name.toLowerCase())).toEqual(expect.arrayContaining(['allowed.test']))
  expect([...server.names].filter((name) => name.toLowerCase() !== 'allowed.test')).toEqual([])
  expect([...new Set(net.resolved)]).toEqual(['allowed.test'])
  expect(net.dialled.filter((one) => one !== `${publicAddress} 443`)).toEqual([])
}, 60_000)

test('whatever is said in SOCKS, nothing but the allowed host is looked up or dialled', async () => {
  await using server = await secureServer()
  await using net = await testNet({ upstream: server.port })
  let failed: unknown = null
  const fail = (error: unknown) => (failed = error)
  process.on('uncaughtException', fail)
  await using socks = await listener(createServer({ allowHalfOpen: true }, (client) => serveSocks(client, net.socketPath)))
  const [good, evil] = [await helloOf('allowed.test'), await helloOf('evil-no.test')]
  const name = (text: string, port: number) =>
    Buffer.from([5, 1, 0, 3, text.length, ...Buffer.from(text, 'latin1'), port >> 8, port & 255])
  const wanted = fc.oneof(
    fc.constantFrom(
      name('allowed.test', 443),
      name('evil-no.test', 443),
      name('127.0.0.1', 443),
      name('allowed.test\r\nHost: evil', 443),
    ),
    fc.constantFrom(
      Buffer.from([5, 1, 0, 1, 127, 0, 0, 1, 1, 187]),
      Buffer.from([5, 2, 0, 1, 1, 1, 1, 1, 1, 187]),
      Buffer.from([5, 3, 0, 1, 1, 1, 1, 1, 1, 187]),
    ),
    fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)),
  )
  const greeting = fc.constantFrom(
    Buffer.from([5, 1, 0]),
    Buffer.from([5, 1, 0]),
    Buffer.from([5, 2, 0, 2]),
    Buffer.from([5, 0]),
    Buffer.from([4, 1]),
  )
  await fc.assert(
    fc.asyncProperty(
      greeting,
      wanted,
      damage,
      fc.constantFrom(good, evil, Buffer.alloc(0)),
      fc.array(fc.nat(20), { maxLength: 4 }),
      async (hi, want, by, hello, sizes) => {
        const harmless = by.filter(({ how }) => how !== 'insert')
        await say(
          { host: '127.0.0.1', port: socks.port },
          pieces(Buffer.concat([hi, damaged(want, harmless.slice(0, 1)), hello]), sizes),
        )
      },
    ),
    bounds,
  )
  await new Promise((resolve) => setImmediate(resolve))
  process.off('uncaughtException', fail)
  expect(failed).toBeNull()
  expect([...new Set(net.resolved)].filter((host) => host !== 'allowed.test')).toEqual([])
  expect([...server.names].filter((one) => one.toLowerCase() !== 'allowed.test')).toEqual([])
  expect(net.dialled.every((one) => one.startsWith(publicAddress))).toBe(true)
}, 60_000)

test('whatever is asked of the window itself, it answers, and leads nowhere that no rule opens', async () => {
  await using server = await secureServer()
  await using net = await testNet({ upstream: server.port })
  const host = fc.oneof(
    fc.constantFrom(
      'allowed.test',
      'evil.test',
      '127.0.0.1',
      '[::1]',
      'allowed.test@evil.test',
      'allowed.test.',
      'evil.test#@allowed.test',
      '0x7f.1',
      '',
    ),
    fc.string({ maxLength: 30 }),
  )
  const url = fc.oneof(
    fc
      .tuple(fc.constantFrom('http://', 'https://', '//', 'HTTP:', 'http:\\\\', ''), host, fc.string({ maxLength: 20 }))
      .map((all) => all.join('')),
    fc.webUrl(),
    fc.string(),
  )
  const ask = fc.record(
    {
      host,
      port: fc.oneof(fc.constantFrom(80, 443), fc.integer()),
      path: fc.string(),
      method: fc.string({ maxLength: 8 }),
      why: fc.string(),
    },
    { requiredKeys: [] },
  )
  const calls = fc.oneof(
    fc.tuple(fc.constant(fetchPath), fc.oneof(fc.record({ url }), fc.json())),
    fc.tuple(fc.constant(accessPath), fc.oneof(ask, fc.json())),
  )
  const statuses = new Set<number>()
  await fc.assert(
    fc.asyncProperty(calls, async ([path, body]) => {
      statuses.add((await net.own(path, body)).status)
    }),
    { ...bounds, numRuns: runs(600) },
  )
  expect([...statuses].filter((status) => status !== 200 && status !== 400)).toEqual([])
  expect([...new Set(net.resolved)].filter((one) => one !== 'allowed.test')).toEqual([])
  expect(net.dialled.every((one) => one.startsWith(publicAddress))).toBe(true)
}, 60_000)
