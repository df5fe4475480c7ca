import { watchPath } from '@anchorhold/protocol/link'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { rehearsal } from './server.ts'

type Answered = { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: string }

async function served(alone: Parameters<typeof rehearsal>[1] = null) {
  const folder = await mkdtemp(join(tmpdir(), 'ah-rehearsal-'))
  const one = await rehearsal(join(folder, 'api.sock'), alone)
  onTestFinished(async () => {
    await one.close()
    await rm(folder, { recursive: true })
  })
  const send = (path: string, headers: Record<string, string | number> = {}, method = 'POST'): ClientRequest =>
    request({ socketPath: one.path, method, path, agent: false, headers })
  const answered = async (sent: ClientRequest): Promise<Answered> => {
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    return { status: response.statusCode!, headers: response.headers, body: await text(response) }
  }
  return {
    ...one,
    send,
    answered,
    call(path: string, body: unknown): Promise<Answered> {
      const json = JSON.stringify(body)
      const sent = send(path, { 'content-length': Buffer.byteLength(json) })
      sent.end(json)
      return answered(sent)
    },
  }
}

const asking = (said: string, more: object = {}) => ({
  model: 'rehearsal-1',
  max_tokens: 4000,
  stream: true,
  tools: [{ name: 'Bash', input_schema: {} }],
  messages: [{ role: 'user', content: said }],
  ...more,
})
const script = (steps: unknown) => `SCRIPT64:${Buffer.from(JSON.stringify(steps)).toString('base64')}:END`
const events = (stream: string) =>
  stream
    .split('\n\n')
    .filter((part) => part !== '')
    .map((part) => {
      const [event, data] = part.split('\n')
      const parsed = JSON.parse(data!.slice('data: '.length)) as { type: string; [name: string]: unknown }
      expect(event).toBe(`event: ${parsed.type}`)
      return parsed
    })

test('rehearsal() streams as the Messages API does, in several pieces, and counts', async () => {
  const it = await served()
  const asked = asking('run echo a command that is long enough for pieces')
  const { status, headers, body } = await it.call('/v1/messages?beta=true', asked)
  expect(status).toBe(200)
  expect(headers['content-type']).toContain('text/event-stream')
  const all = events(body)
  const types = all.map(({ type }) => type)
  expect([types[0], types[1], ...types.slice(-3)]).toEqual([
    'message_start',
    'content_block_start',
    'content_block_stop',
    'message_delta',
    'message_stop',
  ])
  const json = all.flatMap((event) => (event.delta as { partial_json?: string } | undefined)?.partial_json ?? [])
  expect(json.length).toBeGreaterThan(1)
  expect(JSON.parse(json.join(''))).toMatchObject({ command: 'echo a command that is long enough for pieces' })
  // By length alone: what a call costs in play money follows from it.
  const bytes = JSON.stringify(asked.messages).length + '""'.length + JSON.stringify(asked.tools).length
  expect(all.at(-2)).toMatchObject({
    delta: { stop_reason: 'tool_use' },
    usage: { input_tokens: Math.ceil(bytes / 4), output_tokens: expect.any(Number) },
  })
})

test('rehearsal() says the same twice, streamed or not', async () => {
  const it = await served()
  const [one, two, whole] = await Promise.all(
    [asking('list files'), asking('list files'), asking('list files', { stream: false })].map((body) =>
      it.call('/v1/messages', body),
    ),
  )
  expect(one!.body).toBe(two!.body)
  const message = JSON.parse(whole!.body) as { content: unknown; usage: unknown }
  expect(message).toMatchObject({
    type: 'message',
    stop_reason: 'tool_use',
    content: [
      { type: 'text', text: 'I will list the files.' },
      { type: 'tool_use', name: 'Bash', input: { command: "ls -la '.'" } },
    ],
  })
  expect(message.usage).toEqual(events(one!.body).at(-2)!.usage)
})

test('rehearsal() stays within max_tokens, and cuts no character in two', async () => {
  const it = await served()
  const said = await it.call('/v1/messages', asking('say 5000 words', { max_tokens: 100 }))
  expect(events(said.body).at(-2)).toMatchObject({ delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 100 } })
  const cut = await it.call('/v1/messages', asking('say €€€€', { max_tokens: 2, stream: false }))
  expect(JSON.parse(cut.body)).toMatchObject({ content: [{ type: 'text', text: '€€' }] })
})

test('rehearsal() breaks off where its script says so, and fails where it is told to', async () => {
  const it = await served()
  await expect(it.call('/v1/messages', asking(script([[{ text: 'half' }, { cut: true }]])))).rejects.toThrow(/aborted|hang up/)
  const failed = await it.call('/v1/messages', asking('fail with 503'))
  expect(failed.status).toBe(503)
  expect(JSON.parse(failed.body)).toMatchObject({ type: 'error', error: { type: 'api_error' } })
})

test('rehearsal() counts tokens', async () => {
  const it = await served()
  const { body } = await it.call('/v1/messages/count_tokens', {
    model: 'rehearsal-1',
    messages: [{ role: 'user', content: 'hi' }],
  })
  expect(JSON.parse(body)).toEqual({ input_tokens: expect.any(Number) })
})

test.each([
  ['no JSON', '{', 400, 'not valid JSON'],
  ['no messages', JSON.stringify({ model: 'm', messages: [] }), 400, 'messages: '],
  ['a million wrong messages', JSON.stringify({ model: 'm', messages: Array(100_000).fill(1) }), 400, 'messages.0'],
  ['a million wrong blocks', JSON.stringify(asking('', { system: Array(100_000).fill(1) })), 400, 'system: '],
  ['a script that is wrong everywhere', JSON.stringify(asking(script(Array(50_000).fill(1)))), 400, 'script'],
  ['what is nested deeply', `{"model":"m","messages":${'['.repeat(9e6)}${']'.repeat(9e6)}}`, 400, 'nested'],
  ['more values than anybody sends', `{"model":"m","messages":[${'1,'.repeat(9e6)}1]}`, 400, 'too many parts'],
])('rehearsal() refuses %s, in few words', async (_, body, status, words) => {
  const it = await served()
  const sent = it.send('/v1/messages', { 'content-length': Buffer.byteLength(body) })
  sent.end(body)
  const refused = await it.answered(sent)
  expect(refused.status).toBe(status)
  expect(refused.body).toContain(words)
  expect(refused.body.length).toBeLessThan(1000)
})

test('rehearsal() refuses what says that it is too large, or does not say how large it is, before it has come', async () => {
  const it = await served()
  const large = it.send('/v1/messages', { 'content-length': 33 * 1024 * 1024 })
  large.flushHeaders()
  expect(await it.answered(large)).toMatchObject({ status: 413 })
  large.destroy()
  const unsaid = it.send('/v1/messages', { 'transfer-encoding': 'chunked' })
  unsaid.flushHeaders()
  expect(await it.answered(unsaid)).toMatchObject({ status: 411 })
  unsaid.destroy()
})

test('rehearsal() answers others while large requests do not come to their end, and while answers take long', async () => {
  const it = await served()
  const stuck = Array.from({ length: 70 }, () => {
    const sent = it.send('/v1/messages', { 'content-length': 20 * 1024 * 1024 })
    sent.on('error', () => {})
    sent.write('{')
    return sent
  })
  const slow = Array.from({ length: 70 }, () => {
    const json = JSON.stringify(asking('wait 600 seconds'))
    const sent = it.send('/v1/messages', { 'content-length': json.length })
    sent.on('error', () => {})
    sent.end(json)
    return sent
  })
  await Promise.all(slow.map((sent) => once(sent, 'response')))
  expect(await it.call('/v1/messages', asking('say hi'))).toMatchObject({ status: 200 })
  for (const sent of [...stuck, ...slow]) sent.destroy()
})

test('rehearsal() has so many calls under way and no more, and room again when they have ended', async () => {
  const it = await served()
  const json = JSON.stringify(asking('wait 600 seconds'))
  const slow: ClientRequest[] = []
  for (let batch = 0; batch < 16; batch++) {
    const some = Array.from({ length: 64 }, () => {
      const sent = it.send('/v1/messages', { 'content-length': json.length })
      sent.on('error', () => {})
      sent.end(json)
      return sent
    })
    await Promise.all(some.map((sent) => once(sent, 'response')))
    slow.push(...some)
  }
  expect(await it.call('/v1/messages', asking('say hi'))).toMatchObject({ status: 529 })
  const ended = slow.map((sent) => once(sent, 'close'))
  for (const sent of slow) sent.destroy()
  await Promise.all(ended)
  let last = await it.call('/v1/messages', asking('say hi'))
  // What has been closed here is heard of there a little later.
  while (last.status === 529) last = await it.call('/v1/messages', asking('say hi'))
  expect(last.status).toBe(200)
})

test('rehearsal() is held by whoever is connected, and says when it is alone', async () => {
  const alone = Promise.withResolvers<void>()
  let isAlone = false
  const it = await served({
    ms: 50,
    onAlone() {
      isAlone = true
      alone.resolve()
    },
  })
  const held = it.send(watchPath, {}, 'GET')
  held.on('error', () => {})
  held.end()
  const [response] = (await once(held, 'response')) as [IncomingMessage]
  response.on('error', () => {})
  expect(response.statusCode).toBe(200)
  // Others come and go meanwhile.
  for (let call = 0; call < 3; call++) await it.call('/v1/messages', asking('wait 100 ms'))
  expect(isAlone).toBe(false)
  held.destroy()
  await alone.promise
})

test('close() takes the socket away, and nothing that another has put there', async () => {
  const it = await served()
  await it.close()
  expect(existsSync(it.path)).toBe(false)
  const next = await rehearsal(it.path)
  await it.close().catch(() => {})
  expect(existsSync(it.path)).toBe(true)
  await next.close()
})
