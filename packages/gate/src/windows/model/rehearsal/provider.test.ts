import { settlePath } from '@anchorhold/protocol/link'
import { expect, test } from 'vitest'
import { rehearsal, small, testGate } from '../../../test-gate.ts'

const asking = (text: string, more: object = {}) =>
  small({
    model: 'rehearsal-1',
    max_tokens: 4000,
    tools: [{ name: 'Bash', input_schema: {} }],
    messages: [{ role: 'user', content: text }],
    ...more,
  })
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

test('rehearsalProvider() streams as the Messages API does, in several pieces, and counts', async () => {
  await using it = await testGate({ provider: rehearsal })
  const { status, headers, body } = await it.call(
    '/v1/messages?beta=true',
    asking('run echo a command that is long enough for pieces'),
  )
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
  expect(all.at(-2)).toMatchObject({ delta: { stop_reason: 'tool_use' }, usage: { output_tokens: expect.any(Number) } })
  await it.call(settlePath, '')
  expect(it.usage()).toEqual([
    expect.objectContaining({ provider: 'rehearsal', model: 'rehearsal-1', simulated: true, estimated: false, notional: false }),
  ])
})

test('rehearsalProvider() says the same twice, streamed or not', async () => {
  await using it = await testGate({ provider: rehearsal })
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

test('rehearsalProvider() stays within max_tokens', async () => {
  await using it = await testGate({ provider: rehearsal })
  const { body } = await it.call('/v1/messages', asking('say 5000 words', { max_tokens: 100 }))
  expect(events(body).at(-2)).toMatchObject({ delta: { stop_reason: 'max_tokens' }, usage: { output_tokens: 100 } })
})

test('rehearsalProvider() breaks off where its script says so, and fails where it is told to', async () => {
  await using it = await testGate({ provider: rehearsal })
  const script = `SCRIPT64:${Buffer.from(JSON.stringify([[{ text: 'half' }, { cut: true }]])).toString('base64')}:END`
  await expect(it.call('/v1/messages', asking(script))).rejects.toThrow(/aborted|hang up/)
  const failed = await it.call('/v1/messages', asking('fail with 503'))
  expect(failed.status).toBe(503)
  expect(JSON.parse(failed.body)).toMatchObject({ type: 'error', error: { type: 'api_error' } })
})

test('rehearsalProvider() counts tokens', async () => {
  await using it = await testGate({ provider: rehearsal })
  const { body } = await it.call('/v1/messages/count_tokens', {
    model: 'rehearsal-1',
    messages: [{ role: 'user', content: 'hi' }],
  })
  expect(JSON.parse(body)).toEqual({ input_tokens: expect.any(Number) })
})
