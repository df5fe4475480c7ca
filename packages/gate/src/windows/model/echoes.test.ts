import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { gzipSync } from 'node:zlib'
import { fakeUpstream, sse, streamed } from '../../fake-upstream.ts'
import { local, realKey, small, testGate } from '../../test-gate.ts'

// A provider that says the credential back: in its logs of errors, for debugging, or because somebody else answers in its place.
const key = realKey
const guises: readonly (readonly [string, string])[] = [
  ['as it is', key],
  ['as a header', `Bearer ${key}`],
  ['in base64', Buffer.from(`user:${key}`).toString('base64')],
  ['in a URL', key.replaceAll('-', '%2D')],
  ['in hexadecimal', Buffer.from(key).toString('hex')],
]
const head = { 'content-type': 'text/event-stream' }
const json = { 'content-type': 'application/json' }
const delta = (text: string) => sse('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })

/** What the agent can make of a stream: the bytes of it, and its text. */
function readings(body: string): string {
  const texts = body
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => (JSON.parse(line.slice(6)) as { delta?: { text?: string } }).delta?.text ?? '')
  return `${body}\n${texts.join('')}`
}
async function asked(answer: (response: ServerResponse) => void, request: object = {}) {
  await using upstream = await fakeUpstream(answer)
  await using it = await testGate({ provider: local(upstream.url) })
  const said = await it.call('/v1/messages', small(request))
  return { ...said, usage: it.usage() }
}

test.each(guises)('modelWindow() strikes the credential out that an error says %s, in body and headers', async (_, said) => {
  const body = JSON.stringify({ type: 'error', error: { type: 'authentication_error', message: `not valid: ${said}` } })
  for (const status of [400, 403, 429, 500]) {
    const headers = { ...json, 'request-id': said, 'anthropic-ratelimit-tokens': said, 'content-length': Buffer.byteLength(body) }
    const answer = await asked((response) => void response.writeHead(status, headers).end(body))
    expect(answer.status).toBe(status)
    expect(JSON.stringify(answer)).not.toContain(said.replace('Bearer ', '').slice(4, -4))
    expect(answer.body).toHaveLength(body.length)
    expect(answer.headers['request-id']).toMatch(/\*{8}/)
    expect(JSON.parse(answer.body)).toMatchObject({ type: 'error' })
  }
})

test.each(guises)('modelWindow() strikes the credential out that an answer in one piece says %s', async (_, said) => {
  const body = JSON.stringify({
    type: 'message',
    content: [{ type: 'text', text: said }],
    usage: { input_tokens: 7, output_tokens: 9 },
  })
  const answer = await asked((response) => void response.writeHead(200, json).end(body), { stream: false })
  expect(answer.body).not.toContain(said.replace('Bearer ', '').slice(4, -4))
  expect(answer.body).toMatch(/\*{8}/)
})

test('modelWindow() strikes the credential out of a stream, wherever its bytes are cut', async () => {
  const whole = Buffer.from(streamed(`before ${key} after`, 10, 5))
  const at = whole.indexOf(key)
  for (const cuts of [[at + 1], [at + key.length - 1], [at + 5, at + 6, at + 20]]) {
    const answer = await asked(async (response) => {
      response.writeHead(200, head)
      for (const [index, to] of [...cuts, whole.length].entries())
        await new Promise<void>((next) =>
          response.write(whole.subarray(index === 0 ? 0 : cuts[index - 1], to), () => setImmediate(next)),
        )
      response.end()
    })
    expect(readings(answer.body)).toContain(`before ${'*'.repeat(key.length)} after`)
    expect(readings(answer.body)).not.toMatch(/sk-ant|owner/)
  }
})

test('modelWindow() strikes the credential out that comes in pieces, with an event for each', async () => {
  for (const size of [1, 2, 7, 16, key.length - 1]) {
    const pieces = Array.from({ length: Math.ceil(key.length / size) }, (_, at) => key.slice(at * size, (at + 1) * size))
    const body = [
      sse('message_start', { message: { usage: { input_tokens: 10, output_tokens: 1 } } }),
      ...['before ', ...pieces, ' after'].map(delta),
      sse('content_block_stop', { index: 0 }),
      sse('message_delta', { usage: { output_tokens: 5 } }),
      sse('message_stop'),
    ].join('')
    const headers = { ...head, 'content-length': Buffer.byteLength(body) }
    const answer = await asked((response) => void response.writeHead(200, headers).end(body))
    const text = readings(answer.body).split('\n').at(-1)
    expect(text).toBe(`before ${'*'.repeat(key.length)} after`)
    expect(answer.body).toContain('message_stop')
  }
})

test('modelWindow() passes on at once what no credential can have begun in', async () => {
  let goOn = () => {}
  await using upstream = await fakeUpstream((response) => {
    response.writeHead(200, head).write(delta('hello '))
    goOn = () => void response.end(delta('world'))
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const [response] = (await once(it.start('/v1/messages', JSON.stringify(small())), 'response')) as [NodeJS.ReadableStream]
  const [first] = (await once(response, 'data')) as [Buffer]
  expect(first.toString()).toBe(delta('hello '))
  goOn()
  const [rest] = (await once(response, 'data')) as [Buffer]
  expect(rest.toString()).toBe(delta('world'))
})

test('modelWindow() says no part of a credential in which an answer breaks off', async () => {
  await using upstream = await fakeUpstream((response) => {
    response.writeHead(200, head)
    response.write(`${delta('before')}${delta(key.slice(0, 20))}`, () => setImmediate(() => response.socket?.destroy()))
  })
  await using it = await testGate({ provider: local(upstream.url) })
  const [response] = (await once(it.start('/v1/messages', JSON.stringify(small())), 'response')) as [NodeJS.ReadableStream]
  const said: Buffer[] = []
  response.on('data', (chunk: Buffer) => said.push(chunk)).on('error', () => {})
  await new Promise((done) => response.once('close', done))
  expect(Buffer.concat(said).toString()).toBe(`${delta('before')}${delta(key)}`.split(key)[0])
})

test('modelWindow() says no half of a credential with which an answer ends', async () => {
  const answer = await asked((response) => void response.writeHead(500, json).end(`no: ${key.slice(0, 20)}`))
  expect(answer.body).toBe(`no: ${'*'.repeat(20)}`)
})

test.each([
  ['a coding of its content', { 'content-encoding': 'gzip' }],
  ['several codings', { 'content-encoding': 'identity, gzip' }],
  ['a coding of its transfer', { 'transfer-encoding': 'gzip, chunked' }],
] as const)('modelWindow() passes nothing on of an answer with %s', async (_, headers) => {
  const packed = gzipSync(streamed(key, 10, 5))
  const answer = await asked((response) => void response.writeHead(200, { ...head, ...headers }).end(packed))
  expect(answer.status).toBe(502)
  expect(answer.body).toContain('compressed form that was not asked for')
})
