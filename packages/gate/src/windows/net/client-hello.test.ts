import { runs } from '@anchorhold/protocol/test-runs'
import fc from 'fast-check'
import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { expect, test } from 'vitest'
import { readClientHello } from './client-hello.ts'
import { helloOf, listener, selfSigned } from './test-net.ts'

const hello = await helloOf('allowed.test')
const nameless = await helloOf('')

/** The same message in records of at most so many bytes. */
function fragmented(bytes: Buffer, size: number): Buffer {
  const message = bytes.subarray(5)
  const parts: Buffer[] = []
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size)
    parts.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 255]), part)
  }
  return Buffer.concat(parts)
}

/** The same message with more extensions at its end. */
function extended(bytes: Buffer, ...extensions: readonly Buffer[]): Buffer {
  const more = Buffer.concat(extensions)
  const made = Buffer.concat([bytes, more])
  made.writeUInt16BE(made.length - 5, 3)
  made.writeUIntBE(made.length - 9, 6, 3)
  const sessionEnd = 44 + made[43]!
  const ciphersEnd = sessionEnd + 2 + made.readUInt16BE(sessionEnd)
  const at = ciphersEnd + 1 + made[ciphersEnd]!
  made.writeUInt16BE(made.readUInt16BE(at) + more.length, at)
  return made
}
const extension = (type: number, data: Buffer) =>
  Buffer.concat([Buffer.from([type >> 8, type & 255, data.length >> 8, data.length & 255]), data])
function serverNames(...names: readonly string[]): Buffer {
  const list = Buffer.concat(names.map((name) => Buffer.concat([Buffer.from([0, 0, name.length]), Buffer.from(name)])))
  return extension(0, Buffer.concat([Buffer.from([list.length >> 8, list.length & 255]), list]))
}

test('readClientHello() finds the name that a real client sends, in one piece or in many', () => {
  expect(readClientHello(hello)).toEqual({ serverName: 'allowed.test', length: hello.length, isHidden: false })
  expect(readClientHello(nameless)).toEqual({ serverName: null, length: nameless.length, isHidden: false })
  for (const size of [hello.length, 200, 100])
    expect(readClientHello(fragmented(hello, size))).toMatchObject({ serverName: 'allowed.test' })
  for (let end = 0; end < hello.length; end++) expect(readClientHello(hello.subarray(0, end))).toBe('more')
  expect(readClientHello(extended(nameless, serverNames('other.test')))).toMatchObject({ serverName: 'other.test' })
})

test.each([
  ['the name twice', extended(hello, serverNames('evil.test'))],
  ['two names in one list', extended(nameless, serverNames('allowed.test', 'evil.test'))],
  ['an empty list', extended(nameless, serverNames())],
  ['an empty name', extended(nameless, serverNames(''))],
  [
    'something behind it in its record',
    Buffer.concat([
      hello.subarray(0, 3),
      Buffer.from([(hello.length - 4) >> 8, (hello.length - 4) & 255]),
      hello.subarray(5),
      Buffer.from([0]),
    ]),
  ],
  ['hundreds of records', fragmented(hello, 1)],
  ['an empty record before it', Buffer.concat([Buffer.from([22, 3, 1, 0, 0]), hello])],
  ['another message', Buffer.concat([Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0])])],
  ['SSLv2', Buffer.from([0x80, 0x2e, 1, 3, 1])],
  ['HTTP', Buffer.from('GET / HTTP/1.1\r\n')],
])('readClientHello() takes no message with %s', (_, bytes) => {
  expect(readClientHello(bytes)).toBeNull()
})

test('readClientHello() sees that the true name is encrypted', () => {
  for (const type of [0xfe0d, 0xffce])
    expect(readClientHello(extended(hello, extension(type, Buffer.alloc(32))))).toMatchObject({
      serverName: 'allowed.test',
      isHidden: true,
    })
})

/** Which name OpenSSL reads in these bytes; null when it does not get that far. */
async function byOpenSsl(port: number, heard: Map<number, string>, bytes: Buffer): Promise<string | null> {
  const socket = createConnection({ host: '127.0.0.1', port })
  socket.on('error', () => {}).resume()
  await once(socket, 'connect')
  const own = socket.localPort!
  // The number may have been another connection's before.
  heard.delete(own)
  socket.end(bytes)
  await new Promise((resolve) => socket.once('close', resolve))
  return heard.get(own) ?? null
}

test('readClientHello() reads no other name than OpenSSL does, however a message is damaged', async () => {
  const heard = new Map<number, string>()
  const ports: number[] = []
  const server = createTlsServer({
    ...selfSigned('allowed.test'),
    SNICallback(name, done) {
      heard.set(ports.at(-1)!, name)
      done(null)
    },
  })
  server.on('tlsClientError', (_, socket) => socket.destroy())
  server.on('secureConnection', (socket) => socket.destroy())
  server.prependListener('connection', (socket: Socket) => ports.push(socket.remotePort!))
  await using at = await listener(server)
  expect(await byOpenSsl(at.port, heard, hello)).toBe('allowed.test')
  const damage = fc.array(fc.tuple(fc.nat(hello.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 })
  const nameAt = hello.indexOf('allowed.test')
  const near = fc.array(fc.tuple(fc.integer({ min: nameAt - 12, max: nameAt + 14 }), fc.nat(255)), { minLength: 1, maxLength: 3 })
  let [agreed, ran] = [0, 0]
  await fc.assert(
    fc.asyncProperty(fc.oneof(damage, near), async (edits) => {
      const bytes = Buffer.from(hello)
      for (const [where, value] of edits) bytes[where] = value
      const ours = readClientHello(bytes)
      if (ours === null || ours === 'more' || ours.serverName === null) return
      const theirs = await byOpenSsl(at.port, heard, bytes)
      ran++
      if (theirs === ours.serverName) agreed++
      expect([null, ours.serverName]).toContain(theirs)
    }),
    { numRuns: runs(1500), interruptAfterTimeLimit: 8000 },
  )
  expect(ran).toBeGreaterThan(runs(1500) / 30)
  expect(agreed).toBeGreaterThan(10)
})

test('readClientHello() gives an answer to whatever bytes come', () => {
  const any = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.uint8Array({ maxLength: 300 }).map((rest) => Uint8Array.from([22, 3, 1, ...rest])),
    fc
      .tuple(fc.nat(hello.length), fc.uint8Array({ maxLength: 60 }))
      .map(([at, more]) => Buffer.concat([hello.subarray(0, at), more])),
  )
  fc.assert(
    fc.property(any, (bytes) => void readClientHello(Buffer.from(bytes))),
    { numRuns: runs(20_000) },
  )
})
