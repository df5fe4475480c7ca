import { once } from 'node:events'
import { createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { answerRefused, looked, screenPush } from './push.ts'

const mine = { host: 'forge.example', api: null, repo: 'me/it', push: { branches: ['agent/*'], tags: [], deletes: false } }
const terms = { forges: { 'forge.example': mine, 'other.example': null }, slowness: 1 }

/** A server that stands for the window, and answers with what it would have sent on. */
const server = createServer((request, response) => {
  const host = request.headers.host ?? ''
  void screenPush({ target: { host, port: 443, isAddress: false }, path: request.url ?? '' }, request, terms).then(
    async (refusal) => {
      if (refusal !== null) return answerRefused(request, response, refusal)
      const body = await buffer(request.pipe(new PassThrough()))
      response.writeHead(202).end(body)
    },
    () => response.destroy(),
  )
})
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
})
afterAll(() => void server.close())

async function call(path: string, chunks: readonly Buffer[], headers: Record<string, string> = {}, host = 'forge.example') {
  const { port } = server.address() as AddressInfo
  const method = chunks.length === 0 ? 'GET' : 'POST'
  const one = send({ port, host: '127.0.0.1', path, method, headers: { host, ...headers }, agent: false })
  for (const chunk of chunks) {
    one.write(chunk)
    await new Promise((done) => setImmediate(done))
  }
  one.end()
  const [response] = (await once(one, 'response')) as [import('node:http').IncomingMessage]
  return { status: response.statusCode, blocked: response.headers['x-anchorhold-blocked'], body: await buffer(response) }
}

const [none, one, two] = ['0'.repeat(40), '1'.repeat(40), '2'.repeat(40)]
const line = (text: string) => `${(Buffer.byteLength(text) + 4).toString(16).padStart(4, '0')}${text}`
const push = (...refs: string[]) =>
  Buffer.concat([
    Buffer.from(
      `${refs.map((ref, at) => line(`${one} ${two} ${ref}${at === 0 ? '\0 report-status side-band-64k' : ''}`)).join('')}0000`,
    ),
    Buffer.alloc(3000, 'PACK'),
  ])
const bytewise = (body: Buffer): Buffer[] => [
  ...Array.from(body.subarray(0, 200), (byte) => Buffer.from([byte])),
  body.subarray(200),
]

test.each([
  ['at once', (body: Buffer) => [body]],
  ['byte by byte', bytewise],
])('screenPush() lets a push of refs that may be pushed go on as it came, %s', async (_, cut) => {
  const body = push('refs/heads/agent/a', 'refs/heads/agent/b')
  expect(await call('/me/it.git/git-receive-pack', cut(body))).toEqual({ status: 202, blocked: undefined, body })
  const packed = gzipSync(body)
  const answer = await call('/me/it.git/git-receive-pack', cut(packed), { 'content-encoding': 'gzip' })
  expect(answer).toEqual({ status: 202, blocked: undefined, body: packed })
})

test('screenPush() lets through what git sends before a push, and whatever is none', async () => {
  for (const path of ['/me/it/info/refs?service=git-receive-pack', '/me/other/info/refs?service=git-upload-pack'])
    expect((await call(path, [])).status).toBe(202)
  expect((await call('/me/it/git-receive-pack', [Buffer.from('0000')])).status).toBe(202)
  expect((await call('/me/other/git-receive-pack', [push('refs/heads/x')], {}, 'no-forge.example')).status).toBe(202)
})

test.each([
  ['another branch', push('refs/heads/main'), {}],
  ['a branch that may be, with one that may not', push('refs/heads/agent/a', 'refs/heads/main'), {}],
  ['another branch, compressed', gzipSync(push('refs/heads/main')), { 'content-encoding': 'gzip' }],
  [
    'a branch that may be, with orders beside it',
    Buffer.from(
      `${line(`${one} ${two} refs/heads/agent/a\0 report-status push-options`)}0000${line('merge_request.create')}0000PACK`,
    ),
    {},
  ],
  ['a delete', Buffer.from(`${line(`${one} ${none} refs/heads/agent/a\0 report-status`)}0000`), {}],
])('screenPush() refuses %s in words that git shows', async (_, body, headers) => {
  for (const chunks of [[body], bytewise(body)]) {
    const answer = await call('/me/it.git/git-receive-pack', chunks, headers)
    expect(answer).toMatchObject({ status: 200, blocked: 'push' })
    expect(answer.body.toString()).toMatch(/unpack ok\n.*ng refs\/heads\/(main|agent\/a) /s)
  }
})

test.each([
  ['what is compressed in another way', [push('refs/heads/agent/a')], { 'content-encoding': 'br' }],
  ['what is not compressed as it says', [push('refs/heads/agent/a')], { 'content-encoding': 'gzip' }],
  ['a list that is cut', [Buffer.from('0094')], {}],
  ['what grows beyond all reason', [gzipSync(Buffer.alloc(64 * 1024 * 1024))], { 'content-encoding': 'gzip' }],
  ['a list without an end', [Buffer.from(line(`shallow ${one}`).repeat(8000))], {}],
  ['a signed push', [Buffer.from(line('push-cert\0 report-status\n'))], {}],
])('screenPush() refuses %s', async (_, chunks, headers) => {
  const answer = await call('/me/it.git/git-receive-pack', chunks, headers)
  expect(answer).toMatchObject({ status: 403, blocked: 'push' })
})

test.each([
  ['/me/other.git/git-receive-pack', 'forge.example', 'pushes to me/it only'],
  ['/me/it/../other/git-receive-pack', 'forge.example', 'pushes to me/it only'],
  ['/me/other/git%2dreceive-pack', 'forge.example', 'pushes to me/it only'],
  ['/me/it/git-receive-pack', 'other.example', 'has no repository there'],
])('screenPush() lets nothing be pushed to %s of %s', async (path, host, why) => {
  const answer = await call(path, [push('refs/heads/agent/a')], {}, host)
  expect(answer).toMatchObject({ status: 200, blocked: 'push' })
  expect(answer.body.toString()).toContain(why)
})

test('looked() opens what goes to a forge, whatever rules say', () => {
  const routeOf = looked(
    () => ({ how: 'tunnel', ownNetwork: false, onlyOurs: false }),
    () => terms.forges,
  )
  const target = (host: string) => ({ host, port: 443, isAddress: false })
  expect(routeOf(target('other.example')).how).toBe('open')
  expect(routeOf(target('constructor')).how).toBe('tunnel')
})
