// The gate is attacked, through a real window: every trick that is known with addresses, URLs, Host, server names and SOCKS.
import { parseAddress } from '@anchorhold/core/net/addresses'
import { helloOf, listener, publicAddress, testNet, trap } from '@anchorhold/gate/windows/net/test-net'
import { serveSocks } from '@anchorhold/keeper/forwarder/socks'
import { accessPath, fetchPath } from '@anchorhold/protocol/net-calls'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createConnection, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'

const folder = join(import.meta.dirname, '../../packages/core/src/net')
const addresses = readFileSync(join(folder, 'forbidden-addresses.txt'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split('\t')[2]!)
/** `other` is what is named beside it: a Host header, or the name that TLS asks for. */
type Trick = { readonly as: 'connect' | 'absolute' | 'host' | 'sni'; readonly text: string; readonly other?: string }
const tricks = JSON.parse(readFileSync(join(folder, 'forbidden-targets.json'), 'utf8')) as readonly Trick[]

/** As many at once as a busy program makes. */
const atOnce = 24
async function eachOf<T>(all: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const rest = all.values()
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const one of rest) await work(one)
    }),
  )
}

/** Reads every number as the most lenient of libraries does, so that a name that is none would lead to its address. */
function lenient(host: string): string[] {
  const parsed = URL.parse(`http://${host}/`)?.hostname.replace(/^\[|\]$/g, '')
  return [parsed !== undefined && /^[\d.]+$|:/.test(parsed) ? parsed : publicAddress]
}
/** A window behind which everything is allowed, so that nothing but how it reads and dials stands in the way. */
const wideOpen = (upstream: number) =>
  testNet({ judge: async () => ({ allow: true }), upstream, dial: { resolve: async (host) => lenient(host) } })

const said = (bytes: string) => Buffer.from(bytes, 'utf8')
async function socksTo(port: number, request: Buffer): Promise<number | null> {
  const socket = createConnection({ host: '127.0.0.1', port })
  socket.on('error', () => {})
  socket.write(Buffer.concat([Buffer.from([5, 1, 0]), request]))
  const bytes = Buffer.from(await text(socket.setEncoding('latin1')).catch(() => ''), 'latin1')
  socket.destroy()
  return bytes[3] ?? null
}

test(`none of ${addresses.length} spellings of a forbidden address is dialled, however it is asked for`, async () => {
  expect(addresses.length).toBeGreaterThan(1000)
  await using never = await trap()
  await using net = await wideOpen(never.port)
  await using socks = await listener(createServer({ allowHalfOpen: true }, (client) => serveSocks(client, net.socketPath)))
  const through: string[] = []
  const { port } = never
  await eachOf(addresses, async (address) => {
    const at = `${address}:${port}`
    const fail = (how: string) => through.push(`${how} ${address}`)
    const connect = await net.raw(said(`CONNECT ${at} HTTP/1.1\r\nHost: ${at}\r\n\r\n`))
    if (!/^HTTP\/1\.1 (400|403) /.test(connect)) fail('CONNECT')
    const absolute = await net.raw(said(`GET http://${at}/ HTTP/1.1\r\nHost: ${at}\r\nConnection: close\r\n\r\n`))
    if (!/^HTTP\/1\.1 (400|403) /.test(absolute)) fail('absolute')
    const fetched = (await net.own(fetchPath, { url: `http://${at}/` })).body as { answer: string }
    if (fetched.answer === 'page') fail('web_fetch')
    const asked = (await net.own(accessPath, { host: address, port, why: 'x' })).body as { answer?: string }
    if (asked.answer === 'allowed') fail('request_access')
    const name = said(address.replace(/^\[|\]$/g, ''))
    const reply = await socksTo(socks.port, Buffer.from([5, 1, 0, 3, name.length, ...name, port >> 8, port & 255]))
    if (reply === 0 || reply === null) fail('SOCKS')
  })
  expect(through).toEqual([])
  expect(net.dialled).toEqual([])
  expect(never.connections).toBe(0)
}, 300_000)

test('no forbidden address is dialled that SOCKS or a name server gives in bytes', async () => {
  // Zeros in front make a number octal to some, and then it is another address.
  const hosts = addresses.filter((one) => !/(^|\.)0\d/.test(one)).map((one) => URL.parse(`http://${one}/`)?.hostname ?? '')
  const plain = [...new Set(hosts)].flatMap((host) => {
    const text = host.replace(/^\[|\]$/g, '')
    const bytes = parseAddress(text)
    return bytes === null ? [] : [{ text, bytes }]
  })
  expect(plain.length).toBeGreaterThan(300)
  await using never = await trap()
  await using net = await testNet({
    judge: async () => ({ allow: true }),
    dial: { resolve: async (host) => [plain[Number(/\d+/.exec(host)![0])]!.text] },
  })
  await using socks = await listener(createServer({ allowHalfOpen: true }, (client) => serveSocks(client, net.socketPath)))
  const { port } = never
  const through: string[] = []
  await eachOf([...plain.entries()], async ([at, { text: address, bytes }]) => {
    const reply = await socksTo(socks.port, Buffer.from([5, 1, 0, bytes.length === 4 ? 1 : 4, ...bytes, port >> 8, port & 255]))
    if (reply === 0 || reply === null) through.push(`SOCKS ${address}`)
    const named = await net.raw(said(`CONNECT n${at}.test:${port} HTTP/1.1\r\nHost: n${at}.test:${port}\r\n\r\n`))
    if (!named.startsWith('HTTP/1.1 403 ')) through.push(`name ${address}`)
  })
  expect(through).toEqual([])
  expect(net.dialled).toEqual([])
  expect(never.connections).toBe(0)
}, 300_000)

/** The first message of a real client, in which another name is put. */
function withName(hello: Buffer, from: string, to: string): Buffer {
  const at = hello.indexOf(from)
  const name = Buffer.from(to, 'latin1')
  const by = name.length - from.length
  const made = Buffer.concat([hello.subarray(0, at), name, hello.subarray(at + from.length)])
  const grow = (offset: number) => made.writeUInt16BE(made.readUInt16BE(offset) + by, offset)
  // The name, the list, the extension, all extensions, the message, the record.
  for (const offset of [at - 2, at - 5, at - 7]) grow(offset)
  const ciphers = 44 + made[43]!
  const compressions = ciphers + 2 + made.readUInt16BE(ciphers)
  grow(compressions + 1 + made[compressions]!)
  made.writeUIntBE(made.readUIntBE(6, 3) + by, 6, 3)
  grow(3)
  return made
}

test(`none of ${tricks.length} tricks with authorities, URLs, Host and server names gets a byte to anywhere`, async () => {
  expect(tricks.length).toBeGreaterThan(300)
  const hello = await helloOf('allowed.test')
  let bytes = 0
  await using server = await listener(
    createServer((socket: Socket) => void socket.on('data', (chunk) => (bytes += chunk.length))),
  )
  await using net = await wideOpen(server.port)
  // Spaces around a target are HTTP's own, and a whole line before another is a header: on the wire these are no tricks.
  const onTheWire = tricks.filter(({ text: named }) => named.trim() === named && !named.includes(' HTTP/1.1\r\n'))
  await eachOf(onTheWire, async ({ as, text: named, other = '' }) => {
    if (as === 'connect') await net.raw(said(`CONNECT ${named} HTTP/1.1\r\nHost: ${named}\r\n\r\n`))
    if (as === 'absolute') await net.raw(said(`GET ${named} HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n`))
    if (as === 'host') await net.raw(said(`GET ${named} HTTP/1.1\r\nHost: ${other}\r\nConnection: close\r\n\r\n`))
    if (as !== 'sni') return
    const { socket } = await net.connect(named)
    socket.end(withName(hello, 'allowed.test', other))
    await text(socket).catch(() => '')
  })
  // Of these the place itself is a good one: it is the name within that is not.
  const good = tricks.filter(({ as }) => as === 'sni').length
  expect(net.dialled.filter((one) => one !== `${publicAddress} 443`)).toEqual([])
  expect(net.dialled.length).toBeLessThanOrEqual(good)
  expect(bytes).toBe(0)
  // So that it is known to be the window that kept them: what is no trick does go through.
  const { socket } = await net.connect('allowed.test:443')
  socket.write(withName(hello, 'allowed.test', 'ALLOWED.test'))
  await expect.poll(() => bytes).toBe(hello.length)
  socket.destroy()
}, 300_000)

test('no redirect leads web_fetch to a forbidden address', async () => {
  await using never = await trap()
  await using server = await listener(
    createHttpServer((asked, response) => {
      const at = addresses[Number(asked.url?.slice(1))]!
      response.writeHead(302, { location: Buffer.from(`http://${at}:${never.port}/`, 'utf8').toString('latin1') }).end()
    }),
  )
  await using net = await wideOpen(server.port)
  const through: unknown[] = []
  await eachOf([...addresses.keys()], async (at) => {
    const { body } = await net.own(fetchPath, { url: `http://allowed.test/${at}` })
    if ((body as { answer: string }).answer === 'page') through.push(body)
  })
  expect(through).toEqual([])
  expect([...new Set(net.dialled)]).toEqual([`${publicAddress} 80`])
  expect(never.connections).toBe(0)
}, 300_000)
