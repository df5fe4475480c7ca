import { runs } from '@anchorhold/protocol/test-runs'
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { promisify } from 'node:util'
import { brotliCompress, deflate, gzip } from 'node:zlib'
import type { BoundCredential } from '@anchorhold/protocol/credentials'
import { fetchPath } from '@anchorhold/protocol/net-calls'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listener, selfSigned, testNet } from './test-net.ts'

const secret = 'ghp_R4nd0mL00kingT0kenOfTheOwner_9f3'
const certificate = selfSigned('allowed.test')
const credential: BoundCredential = {
  ...{ host: 'allowed.test', port: 443, secret: 'github', placeholder: 'anchorhold-placeholder-github', box: secret },
  put: { as: 'header', name: 'Authorization', format: 'Bearer {}' },
}

async function setUp(answer: (response: ServerResponse) => void) {
  const server = await listener(createServer(certificate, (_, response) => answer(response)))
  const net = await testNet({ upstream: server.port, trusted: [certificate.cert], net: { credentials: [credential] } })
  /** All that a cell gets of an answer, also of one that breaks off. */
  async function ask(): Promise<{ readonly status: number; readonly all: string; readonly whole: boolean }> {
    const secure = await net.tls('allowed.test:443', undefined, { ca: net.certificate })
    let raw = ''
    secure.on('data', (chunk: Buffer) => (raw += chunk.toString('latin1')))
    const agent = Object.assign(new Agent(), { createConnection: () => secure })
    const asking = request({ path: '/', headers: { host: 'allowed.test', te: 'trailers' }, agent })
    asking.end()
    const response = await new Promise<IncomingMessage | null>((done) =>
      asking.once('response', done).once('error', () => done(null)),
    )
    if (response === null) return { status: 0, all: raw, whole: false }
    response.on('error', () => {}).resume()
    await new Promise((done) => response.once('close', done))
    secure.destroy()
    return { status: response.statusCode ?? 0, all: raw + JSON.stringify(response.rawTrailers), whole: response.complete }
  }
  return {
    net,
    ask,
    async [Symbol.asyncDispose]() {
      await net[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** The longest piece of the secret that is in there. */
function longestIn(said: string): number {
  for (let length = secret.length; length > 0; length--)
    for (let at = 0; at + length <= secret.length; at++) if (said.includes(secret.slice(at, at + length))) return length
  return 0
}

const packers = {
  identity: async (bytes: Buffer) => bytes,
  gzip: promisify<Buffer, Buffer>(gzip),
  deflate: promisify<Buffer, Buffer>(deflate),
  br: promisify<Buffer, Buffer>(brotliCompress),
  // Named and not so: they cannot be unpacked.
  zstd: async (bytes: Buffer) => bytes,
  'gzip, gzip': promisify<Buffer, Buffer>(gzip),
}

test('whatever way an answer is packed, cut, trailed or broken off, no piece of the secret that is in it gets to the cell', async () => {
  let next: (response: ServerResponse) => Promise<void> = async () => {}
  await using it = await setUp((response) => void next(response))
  const said = fc.record({
    coding: fc.constantFrom(...(Object.keys(packers) as (keyof typeof packers)[])),
    type: fc.constantFrom('text/plain', 'text/event-stream'),
    before: fc.string({ maxLength: 30 }),
    after: fc.string({ maxLength: 30 }),
    cuts: fc.array(fc.nat(120), { maxLength: 6 }),
    ending: fc.constantFrom('whole', 'whole', 'broken', 'half'),
    isTrailed: fc.boolean(),
  })
  let passed = 0
  await fc.assert(
    fc.asyncProperty(said, fc.nat(200), async ({ coding, type, before, after, cuts, ending, isTrailed }, breakAt) => {
      const plain = Buffer.from(`${before}${secret}${after}`)
      const half = plain.subarray(0, before.length + Math.max(8, breakAt % secret.length))
      const packed = await packers[coding](ending === 'half' ? half : plain)
      const bytes = ending === 'broken' ? packed.subarray(0, breakAt % packed.length) : packed
      next = async (response) => {
        const coded = coding === 'identity' ? {} : { 'content-encoding': coding }
        const trailer = isTrailed ? { trailer: 'x-said' } : {}
        response.writeHead(200, {
          'content-type': type,
          'x-said': `Bearer ${secret}`,
          'set-cookie': secret,
          ...coded,
          ...trailer,
        })
        const at = [0, ...cuts.filter((cut) => cut < bytes.length).toSorted((a, b) => a - b), bytes.length]
        for (const [index, from] of at.slice(0, -1).entries())
          await new Promise<void>((done) => response.write(bytes.subarray(from, at[index + 1]), () => setImmediate(done)))
        if (isTrailed) response.addTrailers({ 'x-said': secret })
        if (ending === 'broken') response.socket?.destroy()
        else response.end()
      }
      const { all, status, whole } = await it.ask()
      // Up to seven letters of one are in much that is none.
      expect(longestIn(all.replace(before, '').replace(after, ''))).toBeLessThan(8)
      if (ending === 'broken') expect(whole && status === 200).toBe(false)
      if (status === 200) passed++
    }),
    { numRuns: runs(150), seed: 20_261_119 },
  )
  expect(passed).toBeGreaterThan(runs(150) / 3)
})

test.each(['gzip, chunked', 'identity, chunked'])(
  'an answer whose transfer has the coding %s is not passed on',
  async (coding) => {
    await using it = await setUp((response) => void response.writeHead(200, { 'transfer-encoding': coding }).end(secret))
    const { status, all } = await it.ask()
    expect([status, longestIn(all) < 8]).toEqual([502, true])
    const { body } = await it.net.own(fetchPath, { url: 'https://allowed.test/' })
    expect(body).toMatchObject({ answer: 'failed' })
  },
)

test('web_fetch does not read a piece that nobody asked for', async () => {
  await using it = await setUp((response) => void response.writeHead(206).end(secret.slice(0, 20)))
  expect((await it.net.own(fetchPath, { url: 'https://allowed.test/' })).body).toMatchObject({ answer: 'failed' })
})
