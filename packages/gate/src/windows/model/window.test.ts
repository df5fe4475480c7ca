import { once } from 'node:events'
import { chmod, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createConnection, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { costOf } from '@anchorhold/core/prices'
import { type MemoryDisk, memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox } from '@anchorhold/link/outbox'
import { systemClock } from '@anchorhold/link/clock'
import { settlePath } from '@anchorhold/protocol/link'
import { expect, test, vi } from 'vitest'
import { openBooks } from '../../money/books.ts'
import { fakeUpstream, sse, streamed } from '../../fake-upstream.ts'
import type { Upstream } from '../../providers/providers.ts'
import { rateLimits } from '../../money/rates.ts'
import { local, realKey, rehearsal, session, small, testGate, textOf, plainAuthority } from '../../test-gate.ts'
import { sessionAuthority } from '../../authority.ts'
import { messages as dialect } from './dialects/messages/messages.ts'
import { modelWindow } from './window.ts'

const messages = '/v1/messages?beta=true'
const usd = 1_000_000_000
const streamHead = { 'content-type': 'text/event-stream; charset=utf-8' }
const answering =
  (text: string, headers: Record<string, string> = streamHead) =>
  (response: ServerResponse) =>
    void response.writeHead(200, headers).end(text)
const errorIn = (body: string) => (JSON.parse(body) as { error: { type: string; message: string } }).error

test('modelWindow() sends the credential of the owner and nothing that came from inside', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) })
  const inside = {
    'x-api-key': 'sk-from-inside',
    authorization: 'Bearer from-inside',
    cookie: 'a=from-inside',
    'proxy-authorization': 'Basic from-inside',
    'x-forwarded-host': 'from-inside.example',
    'x-custom': 'from-inside',
    'anthropic-beta': 'claude-code-20250219,files-api-2025-04-14',
    'anthropic-version': '2023-06-01',
    'user-agent': 'claude-cli/2.1.325 (external, sdk-ts)',
  }
  expect((await it.call(messages, small(), inside)).status).toBe(200)
  const [sent] = upstream.received
  expect(sent!.headers).toEqual({
    host: new URL(upstream.url).host,
    connection: 'keep-alive',
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(sent!.body)),
    'anthropic-version': '2023-06-01',
    'anthropic-beta': 'claude-code-20250219',
    accept: 'application/json',
    'accept-encoding': 'identity',
    'user-agent': 'claude-cli/2.1.325 (external, sdk-ts)',
    'x-api-key': realKey,
  })
  expect(sent!.url).toBe(messages)
  expect(JSON.stringify(sent)).not.toContain('from-inside')
})

test.each([
  ['oauth', { authorization: `Bearer ${realKey}`, 'anthropic-beta': 'oauth-2025-04-20' }],
  ['bearer', { authorization: `Bearer ${realKey}` }],
  ['api_key', { 'x-api-key': realKey }],
  ['none', {}],
] as const)('modelWindow() sends a credential of kind %s in its own way', async (auth, expected) => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url, { auth }) })
  await it.call('/v1/messages', small(), { authorization: 'Bearer placeholder', 'x-api-key': 'placeholder' })
  const { authorization, 'x-api-key': key, 'anthropic-beta': beta } = upstream.received[0]!.headers
  const sent = { authorization, 'x-api-key': key, 'anthropic-beta': beta }
  expect(Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== undefined))).toEqual(expected)
  await it.call(settlePath, '')
  expect(it.usage()[0]!.notional).toBe(auth === 'oauth')
})

test.each([
  '/v1/messages/../files',
  '/v1/files',
  '/v1/messages/batches',
  '/v1/organizations/users',
  '//v1/messages',
  '/v1//messages',
  '/v1/messages/',
  '/v1/%6dessages',
  '/v1/messages%2f..%2ffiles',
  '/v1/messages%00',
  '/v1/messages#x',
  '/V1/messages',
  'http://evil.example/v1/messages',
  '/anchorhold/settle/',
  '/__proto__',
])('modelWindow() does not know the path %s', async (path) => {
  await using upstream = await fakeUpstream(answering('{}'))
  await using it = await testGate({ provider: local(upstream.url) })
  const answer = await it.call(path, small())
  expect(answer.status).toBe(404)
  expect(errorIn(answer.body).type).toBe('not_found_error')
  expect(upstream.received).toEqual([])
})

test('modelWindow() keeps nothing of the query but beta=true', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(`${upstream.url}/some/base/v1/`) })
  await it.call('/v1/messages?x=https://evil.example&beta=true&y', small())
  await it.call('/v1/messages?beta=false', small())
  expect(upstream.received.map(({ url }) => url)).toEqual(['/some/base/v1/messages?beta=true', '/some/base/v1/messages'])
})

test('modelWindow() answers HEAD, and refuses other methods', async () => {
  await using it = await testGate({ provider: rehearsal })
  expect((await it.call('/api/hello', '', {}, 'HEAD')).status).toBe(200)
  for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS'])
    expect((await it.call('/v1/messages', '', {}, method)).status).toBe(404)
})

test('modelWindow() refuses a forbidden field before anything is dialled', async () => {
  await using upstream = await fakeUpstream(answering('{}'))
  await using it = await testGate({ provider: local(upstream.url) })
  const answer = await it.call(messages, small({ mcp_servers: [{ type: 'url', url: 'https://evil.example' }] }))
  expect(answer.status).toBe(403)
  expect(errorIn(answer.body).message).toContain('mcp_servers')
  expect(upstream.received).toEqual([])
  expect(JSON.parse((await it.call(settlePath, '')).body)).toEqual({ source: 'gate', n: 0, refused: 'rules' })
})

test.each([301, 302, 303, 307, 308])(
  'modelWindow() does not follow a redirect (%i), with or without the credential',
  async (status) => {
    await using elsewhere = await fakeUpstream(answering('{}'))
    await using upstream = await fakeUpstream((response) =>
      response.writeHead(status, { location: `${elsewhere.url}/steal?secret=1` }).end(),
    )
    await using it = await testGate({ provider: local(upstream.url) })
    const answer = await it.call(messages, small())
    expect(answer.status).toBe(502)
    expect(JSON.stringify(answer)).not.toMatch(/steal|secret|location/)
    expect(elsewhere.received).toEqual([])
  },
)

test('modelWindow() passes a stream on byte for byte, each piece before the next is made', async () => {
  const whole = Buffer.from(streamed('grüße 👍🏽 こんにちは', 100, 50))
  // Cuts through the middle of characters, of lines and of the word "data".
  const pieces = Array.from({ length: Math.ceil(whole.length / 7) }, (_, index) => whole.subarray(index * 7, index * 7 + 7))
  const { promise, resolve } = Promise.withResolvers<ServerResponse>()
  await using upstream = await fakeUpstream((response) =>
    resolve(
      response.writeHead(200, {
        ...streamHead,
        'request-id': 'req_1',
        'set-cookie': 'a=b',
        'anthropic-ratelimit-tokens-remaining': '5',
        'x-secret': 's',
      }),
    ),
  )
  // Without a credential nothing can be the beginning of one.
  await using it = await testGate({ provider: local(upstream.url, { auth: 'none' }) })
  const started = it.start(messages, JSON.stringify(small()))
  const from = await promise
  from.write(pieces[0]!)
  const [response] = (await once(started, 'response')) as [IncomingMessage]
  const got: Buffer[] = []
  const reading = response[Symbol.asyncIterator]()
  for (const [index] of pieces.entries()) {
    const { value } = (await reading.next()) as { value: Buffer }
    expect(value).toEqual(pieces[index])
    got.push(value)
    if (index + 1 < pieces.length) from.write(pieces[index + 1]!)
  }
  from.end()
  expect((await reading.next()).done).toBe(true)
  expect(Buffer.concat(got)).toEqual(whole)
  expect(
    Object.keys(response.headers).filter((name) => !['date', 'connection', 'transfer-encoding', 'keep-alive'].includes(name)),
  ).toEqual(['content-type', 'request-id', 'anthropic-ratelimit-tokens-remaining'])
  await it.call(settlePath, '')
  const tokens = { input: 100, output: 50, cache_read: 0, cache_write: 0 }
  expect(it.usage()).toEqual([
    expect.objectContaining({ tokens, cost_nanos: costOf('claude-sonnet-5', tokens), estimated: false, status: 200 }),
  ])
})

test('modelWindow() passes on the answer itself, not what is said ahead of it', async () => {
  await using upstream = await fakeUpstream((response) => {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' })
    response.writeProcessing()
    response.writeHead(200, streamHead).end(streamed('ok', 10, 5))
  })
  await using it = await testGate({ provider: local(upstream.url) })
  expect(await it.call(messages, small())).toMatchObject({ status: 200, body: streamed('ok', 10, 5) })
})

test('modelWindow() takes hardly more from upstream than the agent reads', async () => {
  const piece = Buffer.alloc(64 * 1024, 0x20)
  const pieces = 1000
  let written = 0
  await using upstream = await fakeUpstream((response) => {
    response.writeHead(200, streamHead)
    const more = () => {
      while (written < pieces) {
        written += 1
        if (!response.write(piece)) return
      }
      response.end()
    }
    response.on('drain', more)
    more()
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const [response] = (await once(it.start(messages, JSON.stringify(small())), 'response')) as [IncomingMessage]
  // Nobody reads. In the time that these take, the whole answer would have come.
  for (let time = 0; time < 200; time += 1) await it.call('/', '', {}, 'HEAD')
  expect(written).toBeLessThan(pieces / 2)
  expect(Buffer.byteLength(await textOf(response))).toBe(pieces * piece.length)
})

test.each([256, 8192, 8193])('modelWindow() passes on a short answer of %s bytes byte for byte', async (length) => {
  const bytes = Buffer.from(Array.from({ length }, (_, index) => index % 256))
  await using upstream = await fakeUpstream((response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': length }).end(bytes)
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const [response] = (await once(it.start(messages, JSON.stringify(small())), 'response')) as [IncomingMessage]
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
})

test('modelWindow() meters an answer that is not streamed', async () => {
  const usage = {
    input_tokens: 10,
    output_tokens: 20,
    cache_creation_input_tokens: 30,
    cache_read_input_tokens: 40,
    cache_creation: { ephemeral_1h_input_tokens: 30 },
  }
  await using upstream = await fakeUpstream(
    answering(JSON.stringify({ type: 'message', usage }), { 'content-type': 'application/json' }),
  )
  await using it = await testGate({ provider: local(upstream.url) })
  await it.call(messages, small({ stream: false }))
  await it.call(settlePath, '')
  const tokens = { input: 10, output: 20, cache_read: 40, cache_write: 30 }
  expect(it.usage()).toEqual([
    expect.objectContaining({ tokens, cost_nanos: costOf('claude-sonnet-5', { ...tokens, cache_write_1h: 30 }) }),
  ])
})

test('modelWindow() takes the upstream along when the agent leaves, and books what was seen', async () => {
  const gone = Promise.withResolvers<void>()
  await using upstream = await fakeUpstream((response) => {
    response.on('close', () => gone.resolve())
    response
      .writeHead(200, streamHead)
      .write(sse('message_start', { message: { usage: { input_tokens: 1000, output_tokens: 1 } } }))
    response.write(sse('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'x'.repeat(100) } }))
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const started = it.start(messages, JSON.stringify(small()))
  started.on('error', () => {})
  const [response] = (await once(started, 'response')) as [IncomingMessage]
  await vi.waitUntil(() => response.read() !== null || response.readableLength > 0)
  started.destroy()
  await gone.promise
  await vi.waitUntil(() => it.usage().length === 1)
  const tokens = { input: 1000, output: 50, cache_read: 0, cache_write: 0 }
  expect(it.usage()).toEqual([
    expect.objectContaining({ tokens, cost_nanos: costOf('claude-sonnet-5', tokens), estimated: true }),
  ])
})

const hiddenThinking =
  sse('content_block_start', { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } }) +
  sse('content_block_delta', { index: 0, delta: { type: 'signature_delta', signature: 'x'.repeat(200_000) } })
test.each([
  ['that asked for thinking', { thinking: { type: 'enabled', budget_tokens: 1023 } }, ''],
  ['whose thinking is not shown', { thinking: { type: 'adaptive' } }, hiddenThinking],
  ['that thought unasked', {}, hiddenThinking],
  [
    'that thought unasked in secret',
    {},
    sse('content_block_start', { index: 0, content_block: { type: 'redacted_thinking', data: 'x' } }),
  ],
])('modelWindow() books the longest answer for a call %s and was cut off', async (_, asked, thought) => {
  await using upstream = await fakeUpstream((response) => {
    response
      .writeHead(200, streamHead)
      .write(sse('message_start', { message: { usage: { input_tokens: 1000, output_tokens: 1 } } }) + thought)
    response.write(sse('content_block_delta', { index: 1, delta: { type: 'text_delta', text: '42' } }))
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const started = it.start(messages, JSON.stringify(small({ ...asked, metadata: { user_id: 'x'.repeat(900) } })))
  started.on('error', () => {})
  const [response] = (await once(started, 'response')) as [IncomingMessage]
  for await (const chunk of response) if (String(chunk).includes('"42"')) break
  started.destroy()
  await vi.waitUntil(() => it.usage().length === 1)
  // What is set aside for it holds as much: 1000 tokens of prompt and 1024 of an answer.
  const nanos = costOf('claude-sonnet-5', { input: 1000, output: 1024, cache_read: 0, cache_write: 0 })
  expect(it.usage()).toEqual([expect.objectContaining({ cost_nanos: nanos, estimated: true, status: 499 })])
})

test('modelWindow() books no more for a call that thought and was cut off than it can have written until then', async () => {
  await using upstream = await fakeUpstream((response) => {
    response.writeHead(200, streamHead)
    response.write(sse('message_start', { message: { usage: { input_tokens: 1000, output_tokens: 1 } } }) + hiddenThinking)
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const started = it.start(messages, JSON.stringify(small({ max_tokens: 64_000, thinking: { type: 'adaptive' } })))
  started.on('error', () => {})
  const [response] = (await once(started, 'response')) as [IncomingMessage]
  for await (const chunk of response) if (String(chunk).includes('xxx')) break
  started.destroy()
  await vi.waitUntil(() => it.usage().length === 1)
  const { cost_nanos, duration_ms } = it.usage()[0]!
  const cost = (output: number) => costOf('claude-sonnet-5', { input: 1000, output, cache_read: 0, cache_write: 0 })
  expect(cost_nanos).toBeGreaterThan(cost(2000))
  expect(cost_nanos).toBeLessThanOrEqual(cost(2000 + (duration_ms + 2) / 2))
})

test('modelWindow() books the prompt alone of a call that asked for thinking and got no answer', async () => {
  await using upstream = await fakeUpstream((_, __, request) => void request.socket.destroy())
  await using it = await testGate({ provider: local(upstream.url) })
  await it.call(messages, small({ max_tokens: 100_000, thinking: { type: 'adaptive' } }))
  await it.call(settlePath, '')
  expect(it.usage()).toEqual([expect.objectContaining({ status: 0, estimated: true })])
  expect(it.usage()[0]!.cost_nanos).toBeLessThan(100_000 * 10_000)
})

test('modelWindow() books the prompt of a call that the agent left before it was answered', async () => {
  const gone = Promise.withResolvers<void>()
  const dialled = Promise.withResolvers<void>()
  await using upstream = await fakeUpstream((response) => {
    response.on('close', () => gone.resolve())
    dialled.resolve()
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const started = it.start(messages, JSON.stringify(small()))
  started.on('error', () => {})
  await dialled.promise
  started.destroy()
  await gone.promise
  await vi.waitUntil(() => it.usage().length === 1)
  expect(it.usage()[0]).toMatchObject({ estimated: true, status: 499 })
  expect(it.usage()[0]!.cost_nanos).toBeGreaterThan(0)
})

test('modelWindow() books nothing for an error that the agent did not wait for', async () => {
  await using upstream = await fakeUpstream(
    (response) => void response.writeHead(529, { 'content-type': 'application/json' }).write('{'),
  )
  await using it = await testGate({ provider: local(upstream.url) })
  const started = it.start(messages, JSON.stringify(small()))
  started.on('error', () => {})
  await once(started, 'response')
  started.destroy()
  await vi.waitUntil(() => it.usage().length === 1)
  expect(it.usage()[0]).toMatchObject({ cost_nanos: 0, status: 529 })
})

test("modelWindow() breaks the agent's connection when the upstream breaks off", async () => {
  const cut = Promise.withResolvers<void>()
  await using upstream = await fakeUpstream((response) => {
    response
      .writeHead(200, streamHead)
      .write(sse('message_start', { message: { usage: { input_tokens: 1000, output_tokens: 1 } } }))
    void cut.promise.then(() => response.destroy())
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const [response] = (await once(it.start(messages, JSON.stringify(small())), 'response')) as [IncomingMessage]
  const text = textOf(response)
  cut.resolve()
  await expect(text).rejects.toThrow(/aborted/)
  await vi.waitUntil(() => it.usage().length === 1)
  expect(it.usage()[0]).toMatchObject({ tokens: { input: 1000, output: 1 }, estimated: true, status: 200 })
})

test('modelWindow() says that the provider cannot be reached', async () => {
  const upstream = await fakeUpstream(answering(''))
  await upstream[Symbol.asyncDispose]()
  await using it = await testGate({ provider: local(upstream.url) })
  const answer = await it.call(messages, small())
  expect(answer.status).toBe(502)
  expect(errorIn(answer.body).message).toContain('ECONNREFUSED')
  await it.call(settlePath, '')
  expect(it.usage()).toEqual([expect.objectContaining({ cost_nanos: 0, status: 0 })])
})

test('modelWindow() books a call that was sent and got no answer at what its prompt may cost', async () => {
  await using upstream = await fakeUpstream((_, __, request) => void request.socket.destroy())
  await using it = await testGate({ provider: local(upstream.url) })
  expect((await it.call(messages, small())).status).toBe(502)
  await it.call(settlePath, '')
  expect(it.usage()).toEqual([expect.objectContaining({ status: 0, estimated: true })])
  expect(it.usage()[0]!.cost_nanos).toBeGreaterThan(0)
})

test('modelWindow() remembers why an agent was refused until that agent is served or the turn ends', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) })
  const refused = async () => (JSON.parse((await it.call(settlePath, '')).body) as { refused: string | null }).refused
  const wrong = { ...small(), mcp_servers: [{ type: 'url', url: 'https://example.com', name: 'x' }] }
  expect((await it.call(messages, wrong)).status).toBe(403)
  expect((await it.call(messages, small(), { 'x-claude-code-agent-id': 'another' })).status).toBe(200)
  expect((await it.call('/v1/messages/count_tokens', { model: small().model, messages: small().messages })).status).toBe(200)
  expect(await refused()).toBe('rules')
  expect(await refused()).toBeNull()
  expect((await it.call(messages, wrong)).status).toBe(403)
  expect((await it.call(messages, small())).status).toBe(200)
  expect(await refused()).toBeNull()
})

test('modelWindow() dials again when a kept connection turns out to be dead', async () => {
  const used = new Set<Socket>()
  await using upstream = await fakeUpstream((response, _, request) => {
    if (used.has(request.socket)) return void request.socket.destroy()
    used.add(request.socket)
    response.writeHead(200, streamHead).end(streamed('ok', 10, 5))
  })
  await using it = await testGate({ provider: local(upstream.url) })
  expect((await it.call(messages, small())).status).toBe(200)
  expect((await it.call(messages, small())).status).toBe(200)
  expect(upstream.received).toHaveLength(3)
})

test('modelWindow() turns a 401 from upstream into a 403, and notes it once', async () => {
  await using upstream = await fakeUpstream((response) =>
    response.writeHead(401, { 'content-type': 'application/json' }).end(`{"error":{"message":"invalid x-api-key ${realKey}"}}`),
  )
  await using it = await testGate({ provider: local(upstream.url) })
  for (let time = 0; time < 3; time += 1) {
    const answer = await it.call(messages, small())
    expect(answer.status).toBe(403)
    expect(errorIn(answer.body).message).toMatch(/refused the credential.*anchorhold provider add test/)
    expect(JSON.stringify(answer)).not.toContain(realKey)
  }
  expect(JSON.parse((await it.call(settlePath, '')).body)).toMatchObject({ refused: 'credential' })
  expect(it.notices()).toEqual(['credential_refused'])
})

test('modelWindow() says so when the credential has vanished', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) })
  const path = join(it.root, 'key')
  await writeFile(path, `${realKey}\n`, { mode: 0o600 })
  await it.gate.handle({ ...it.opened, provider: local(upstream.url, { credential: { from: 'file', path } }) })
  expect((await it.call(messages, small())).status).toBe(200)
  expect(upstream.received[0]!.headers['x-api-key']).toBe(realKey)

  await chmod(path, 0o644)
  expect(errorIn((await it.call(messages, small())).body).message).toContain('can be read by others')
  await rm(path)
  const answer = await it.call(messages, small())
  expect(answer.status).toBe(403)
  expect(errorIn(answer.body).message).toMatch(/ENOENT.*anchorhold provider add test/)
  expect(upstream.received).toHaveLength(1)
  delete it.env.TEST_KEY
  await it.gate.handle(it.opened)
  expect(errorIn((await it.call(messages, small())).body).message).toContain('"TEST_KEY" is not set')
})

test('modelWindow() refuses a body that is too large, and reads one that is not', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) })
  const large = await it.call(messages, Buffer.alloc(33 * 1024 * 1024, 0x20))
  expect(large.status).toBe(413)
  expect(errorIn(large.body)).toEqual({ type: 'request_too_large', message: 'The request is larger than 32 MiB' })
  const answer = await it.call(messages, small({ messages: [{ role: 'user', content: 'x'.repeat(8 * 1024 * 1024) }] }))
  expect(answer.status).toBe(200)
  expect((await it.call(messages, '{"model":')).status).toBe(400)
  expect(upstream.received).toHaveLength(1)
})

test('modelWindow() never spends more than its budget under ten callers at once', async () => {
  const waiting: (() => void)[] = []
  // The dearest answer that was paid for: it uses the whole prompt and every token that it may.
  await using upstream = await fakeUpstream((response, { body }) => {
    const { max_tokens: max } = JSON.parse(body) as { max_tokens: number }
    waiting.push(() => response.writeHead(200, streamHead).end(streamed('ok', Math.floor(body.length / 2), max)))
  })
  await using it = await testGate({ provider: local(upstream.url), budget_nanos: usd / 20 })
  const body = small({ max_tokens: 2000, messages: [{ role: 'user', content: 'x'.repeat(2000) }] })
  const statuses: number[] = []
  let settlement: unknown = null
  for (let round = 0; round < 5; round += 1) {
    const answers = Array.from({ length: 10 }, () => it.call(messages, body))
    let settled = 0
    for (const answer of answers) void answer.then(() => (settled += 1))
    // Whoever was let through waits for an answer, whoever was refused has one: then all are at the same point.
    await vi.waitUntil(() => waiting.length + settled === 10)
    for (const one of waiting.splice(0)) one()
    statuses.push(...(await Promise.all(answers)).map(({ status }) => status))
    settlement = JSON.parse((await it.call(settlePath, '')).body)
    const spent = it.usage().reduce((sum, { cost_nanos: cost }) => sum + cost, 0)
    expect(spent).toBeLessThanOrEqual(usd / 20)
  }
  expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(1)
  expect(statuses.filter((status) => status === 403).length).toBeGreaterThan(1)
  expect(it.notices()).toEqual(['budget_used_up', 'budget_near'])
  expect(settlement).toMatchObject({ refused: 'budget' })
})

test('modelWindow() shortens the answer to what is left, refuses below that, and goes on when the budget is raised', async () => {
  await using upstream = await fakeUpstream((response, { body }) =>
    response.writeHead(200, streamHead).end(streamed('ok', 10, (JSON.parse(body) as { max_tokens: number }).max_tokens)),
  )
  await using it = await testGate({ provider: local(upstream.url), budget_nanos: usd / 50 })
  expect((await it.call(messages, small({ max_tokens: 32_000 }))).status).toBe(200)
  const asked = (JSON.parse(upstream.received[0]!.body) as { max_tokens: number }).max_tokens
  expect(asked).toBeGreaterThanOrEqual(1024)
  expect(asked).toBeLessThan(2000)
  const refused = await it.call(messages, small())
  expect(refused.status).toBe(403)
  expect(errorIn(refused.body).message).toMatch(
    new RegExp(`^This session's budget of \\$0\\.0200 (is used up|does not hold another call).*anchorhold budget ${session}`),
  )
  expect(
    (await it.call(messages, small({ max_tokens: 32_000, thinking: { type: 'enabled', budget_tokens: 31_999 } }))).status,
  ).toBe(403)
  await it.gate.handle({ do: 'budget', session, budget_nanos: usd })
  expect((await it.call(messages, small())).status).toBe(200)
})

test('modelWindow() without a daemon names no session to raise the budget of: no command knows it', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url), budget_nanos: 0 }, memoryDisk(), { alone: true })
  const { status, body } = await it.call(messages, small())
  expect(status).toBe(403)
  expect(errorIn(body).message).toBe(
    "This session's budget of $0.00 is used up: start again with more: anchorhold claude --budget USD",
  )
})

test('modelWindow() closes a lease when a call cost more than was set aside', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 1_000_000, 1)))
  await using it = await testGate({ provider: local(upstream.url), budget_nanos: 10 * usd })
  expect((await it.call(messages, small())).status).toBe(200)
  await it.call(settlePath, '')
  expect(it.usage()[0]!.cost_nanos).toBe(
    costOf('claude-sonnet-5', { input: 1_000_000, output: 1, cache_read: 0, cache_write: 0 }),
  )
  expect(errorIn((await it.call(messages, small())).body).message).toContain('is closed')
  await it.gate.handle({ do: 'budget', session, budget_nanos: 11 * usd })
  expect((await it.call(messages, small())).status).toBe(200)
})

test('modelWindow() forgets nothing that was spent when it is opened again', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 500, 1000)))
  await using it = await testGate({ provider: local(upstream.url), budget_nanos: usd / 50 })
  expect((await it.call(messages, small())).status).toBe(200)
  await it.call(settlePath, '')
  await it.gate.handle(it.opened)
  expect((await it.call(messages, small())).status).toBe(403)
})

test('modelWindow() charges nobody for counting tokens or for a local model that takes no credential', async () => {
  await using upstream = await fakeUpstream((response, { url }) =>
    url.includes('count_tokens')
      ? response.writeHead(200).end('{"input_tokens":5}')
      : response.writeHead(200, streamHead).end(streamed('ok', 10, 10)),
  )
  await using it = await testGate({ provider: local(upstream.url, { auth: 'none' }), budget_nanos: 0 })
  const { max_tokens: _, stream: __, ...counted } = small()
  expect((await it.call('/v1/messages/count_tokens?beta=true', counted)).body).toBe('{"input_tokens":5}')
  expect(upstream.received[0]!.url).toBe('/v1/messages/count_tokens?beta=true')
  expect((await it.call(messages, small({ model: 'qwen3:8b' }))).status).toBe(200)
  expect((await it.call(messages, small())).status).toBe(403)
  await it.call(settlePath, '')
  expect(it.usage()).toEqual([
    expect.objectContaining({ model: 'qwen3:8b', cost_nanos: 0, tokens: expect.objectContaining({ input: 10 }) }),
  ])
})

test('modelWindow() charges an unknown model as the dearest, and marks it', async () => {
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 10)))
  await using it = await testGate({ provider: local(upstream.url) })
  await it.call(messages, small({ model: 'mystery-1' }))
  await it.call(settlePath, '')
  expect(it.usage()).toEqual([expect.objectContaining({ cost_nanos: 10 * 15_000 + 10 * 75_000, estimated: true })])
})

test('modelWindow() holds new calls while it is paused, and lets running ones finish', async () => {
  const running: ServerResponse[] = []
  await using upstream = await fakeUpstream((response) => void running.push(response.writeHead(200, streamHead)))
  await using it = await testGate({ provider: local(upstream.url) })
  const first = it.call(messages, small())
  await vi.waitUntil(() => running.length === 1)
  await it.gate.handle({ do: 'pause', session })
  let answered = false
  const second = it.call(messages, small()).finally(() => (answered = true))
  // A refused call is answered at once, so the held one that came before it has been read by then.
  expect((await it.call(messages, small({ container: 'x' }))).status).toBe(403)
  running[0]!.end(streamed('ok', 10, 5))
  expect((await first).status).toBe(200)
  // The books are not kept waiting by a call that has not begun.
  expect(JSON.parse((await it.call(settlePath, '')).body)).toMatchObject({ n: 2 })
  expect(answered).toBe(false)
  expect(running).toHaveLength(1)
  await it.gate.handle({ do: 'resume', session })
  await vi.waitUntil(() => running.length === 2)
  running[1]!.end(streamed('ok', 10, 5))
  expect((await second).status).toBe(200)
})

test('modelWindow() does not take a call before the one ahead of it in its connection is answered', async () => {
  await using upstream = await fakeUpstream(() => {})
  await using it = await testGate({ provider: local(upstream.url) })
  const body = JSON.stringify(small())
  const one = `POST ${messages} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  const client = createConnection(it.socketPath).on('error', () => {})
  client.resume().write(one + one)
  await once(client, 'close')
  await it.call(settlePath, '')
  expect(it.usage()).toHaveLength(1)
})

test('modelWindow() dials no call before its reservation is on the disk', async () => {
  const disk = memoryDisk()
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) }, disk)
  disk.holdSyncs()
  const call = it.call(messages, small())
  // A count of tokens costs nothing, and has its answer by then.
  expect((await it.call('/v1/messages/count_tokens', { model: 'm', messages: small().messages })).status).toBe(200)
  expect(upstream.received.map(({ url }) => url)).toEqual(['/v1/messages/count_tokens'])
  disk.finishSyncs()
  expect(await call).toMatchObject({ status: 200, body: streamed('ok', 10, 5) })
})

test('modelWindow() dials nothing for an agent that left while its reservation was on the way to the disk', async () => {
  const disk = memoryDisk()
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) }, disk)
  disk.holdSyncs()
  const call = it.start(messages, JSON.stringify(small())).on('error', () => {})
  await vi.waitUntil(() => [...disk.files.values()].some((bytes) => bytes.includes('reservation')))
  call.destroy()
  await vi.waitUntil(() => it.lines.length === 1)
  disk.finishSyncs()
  await it.call(settlePath, '')
  expect(upstream.received).toEqual([])
  expect(it.usage()).toMatchObject([{ cost_nanos: 0, status: 0 }])
})

test('modelWindow() settles only when every record is on the disk', async () => {
  const disk = memoryDisk()
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) }, disk)
  expect((await it.call(messages, small())).status).toBe(200)
  disk.holdSyncs()
  let settled = false
  const settling = it.call(settlePath, '').finally(() => (settled = true))
  expect((await it.call('/x', '', {}, 'HEAD')).status).toBe(200)
  expect(settled).toBe(false)
  disk.finishSyncs()
  expect(JSON.parse((await settling).body)).toEqual({ source: 'gate', n: 2, refused: null })
})

test.each([
  ['write down what a call may cost', (disk: MemoryDisk) => disk.failWrite(1, 'ENOSPC', 20), 403, 0],
  ['bring to the disk what a call may cost', (disk: MemoryDisk) => disk.failSync(1, 'EIO'), 403, 0],
  ['write down what a call did cost', (disk: MemoryDisk) => disk.failWrite(2, 'ENOSPC', 20), 200, 1],
])('modelWindow() makes no further call when it cannot %s', async (_, breakDisk, status, dialled) => {
  const disk = memoryDisk()
  await using upstream = await fakeUpstream(answering(streamed('ok', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) }, disk)
  breakDisk(disk)
  expect((await it.call(messages, small())).status).toBe(status)
  await it.call(settlePath, '')
  const answer = await it.call(messages, small())
  expect(answer.status).toBe(403)
  expect(errorIn(answer.body).message).toContain('disk')
  expect(upstream.received).toHaveLength(dialled)
})

test('modelWindow() ends every call and its socket when it is closed, and books them', async () => {
  const gone = Promise.withResolvers<void>()
  const dialled = Promise.withResolvers<void>()
  await using upstream = await fakeUpstream((response) => {
    response.on('close', () => gone.resolve())
    response.writeHead(200, streamHead).write(sse('message_start', { message: { usage: { input_tokens: 7, output_tokens: 1 } } }))
    dialled.resolve()
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const call = it.call(messages, small())
  call.catch(() => {})
  await dialled.promise
  expect(await it.gate.handle({ do: 'panic' })).toEqual({ closed: 1 })
  await gone.promise
  await expect(call).rejects.toThrow()
  expect(it.usage()).toHaveLength(1)
  await expect(stat(it.socketPath)).rejects.toThrow('ENOENT')
  expect(await it.gate.handle({ do: 'ping' })).toMatchObject({ sessions: [] })
})

test('modelWindow() books what was seen of an answer that ends without saying what it used', async () => {
  const error = sse('error', { error: { type: 'overloaded_error' } })
  const start = sse('message_start', { message: { usage: { input_tokens: 7, output_tokens: 1 } } })
  const text = sse('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'x'.repeat(20) } })
  const answers = [start + text + error, text]
  await using upstream = await fakeUpstream((response) => void response.writeHead(200, streamHead).end(answers.shift()))
  await using it = await testGate({ provider: local(upstream.url) })
  await it.call(messages, small())
  await it.call(messages, small())
  await it.call(settlePath, '')
  const [broken, silent] = it.usage()
  expect(broken).toMatchObject({ estimated: true, cost_nanos: 7 * 2000 + 10 * 10_000 })
  expect(silent).toMatchObject({ estimated: true, tokens: { input: 0, output: 10 } })
  expect(silent!.cost_nanos).toBeGreaterThan(10 * 10_000 + 600 * 2000)
})

test('gate() opens a window anew while the old one is still closing', async () => {
  await using it = await testGate({ provider: rehearsal })
  for (let time = 0; time < 10; time += 1) {
    const closed = it.gate.handle({ do: 'close', session })
    await it.gate.handle(it.opened)
    await closed
    expect((await it.call('/', '', {}, 'HEAD')).status).toBe(200)
  }
})

test('gate() says when the path of a window is too long for a socket', async () => {
  await using it = await testGate({ provider: rehearsal })
  await it.gate.handle({ do: 'close', session })
  await expect(it.gate.handle({ ...it.opened, folder: join(it.root, 'x'.repeat(100)) })).rejects.toMatchObject({
    code: 'gate_unavailable',
    hint: expect.stringContaining('shorter'),
  })
})

test('modelWindow() replaces an old socket file, and lets whoever reaches the folder in', async () => {
  await using it = await testGate({ provider: rehearsal })
  await it.gate.handle({ do: 'close', session })
  await writeFile(it.socketPath, 'left behind')
  await it.gate.handle(it.opened)
  const { mode } = await stat(it.socketPath)
  expect(mode & 0o777).toBe(0o666)
  expect((await it.call('/', '', {}, 'HEAD')).status).toBe(200)
})

test('modelWindow() logs neither headers nor bodies', async () => {
  await using upstream = await fakeUpstream(answering(streamed('the answer', 10, 5)))
  await using it = await testGate({ provider: local(upstream.url) })
  await it.call(`${messages}&key=in-the-query`, small({ messages: [{ role: 'user', content: 'the prompt' }] }), {
    authorization: 'Bearer inside',
  })
  await vi.waitUntil(() => it.lines.length === 1)
  expect(Object.keys(it.lines[0]!)).toEqual(['session', 'method', 'path', 'status', 'bytes', 'ms'])
  expect(it.lines[0]).toMatchObject({ session, method: 'POST', path: '/v1/messages', status: 200 })
})

test('a call that cannot be sent for a bug of ours gives back what was set aside for it', async () => {
  const root = await mkdtemp(join(tmpdir(), 'ah-window-'))
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  const done = async () => {}
  const leases = { nodes: async () => [], putNodes: done, list: async () => [], put: done, remove: done }
  const soon = async () => {}
  const books = await openBooks({
    outbox,
    leases,
    now: () => 0,
    newCall: () => 'call',
    soon,
    onBroken: () => {},
  })
  const money = { budget_nanos: 1e9, spent_nanos: 0, spent_to: 0, closed: false }
  const account = books.open(session, { ...money, nodes: [], agent_cap_nanos: null, simulated: false })
  const upstream: Upstream = {
    ...{ name: 'test', simulated: false, notional: false, billed: true, seller: 'maker', unreachable: (code) => code },
    authorise: async () => ({ key: null, scrubber: null }),
    dial() {
      throw new Error('a bug')
    },
  }
  const terms = { upstream, allow: new Set<string>(), spend: 'stop' as const, rates: undefined }
  const before = books.asks(session)
  const authority = sessionAuthority({
    terms: plainAuthority,
    heardTo: 0,
    before,
    account,
    flush: books.flush,
    now: () => 0,
    onChange() {},
  })
  const parts = {
    dialect,
    session,
    folder: root,
    terms,
    account,
    books,
    authority,
    rates: rateLimits(systemClock),
    now: () => 0,
    log: () => {},
    heldMs: 1,
  }
  const window = await modelWindow(parts)
  const [answer] = (await once(
    request({ socketPath: join(root, 'model.sock'), path: '/v1/messages', method: 'POST' }).end(JSON.stringify(small())),
    'response',
  )) as [IncomingMessage]
  expect(answer.statusCode).toBe(500)
  expect(account.lease).toMatchObject({ spentNanos: 0, reservedNanos: 0 })
  await window.close()
  await rm(root, { recursive: true })
})

test('modelWindow() says that the demo model is not running, charges nobody for it, and reaches the next one', async () => {
  await using it = await testGate({ provider: rehearsal, budget_nanos: 1_000_000_000 })
  const asked = small({ model: 'rehearsal-1', messages: [{ role: 'user', content: 'say hi' }] })
  expect((await it.call(messages, asked)).status).toBe(200)
  await it.endRehearsal()
  const gone = await it.call(messages, asked)
  // Agents try again after this one.
  expect(gone.status).toBe(502)
  expect(errorIn(gone.body).message).toMatch(/^The demo model .* is not running: .* see rehearsal\.log in the state folder$/)
  await it.startRehearsal()
  expect((await it.call(messages, asked)).status).toBe(200)
  await it.call(settlePath, '')
  expect(it.usage().map(({ status, simulated, cost_nanos }) => [status, simulated, cost_nanos > 0])).toEqual([
    [200, true, true],
    [0, true, false],
    [200, true, true],
  ])
})
