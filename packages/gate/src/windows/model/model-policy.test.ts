import type { Policy } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { fakeUpstream, streamed } from '../../fake-upstream.ts'
import { local, plainAuthority, session, small, testGate } from '../../test-gate.ts'

const messages = '/v1/messages'
const streamHead = { 'content-type': 'text/event-stream; charset=utf-8' }
const answering = () => fakeUpstream((response) => void response.writeHead(200, streamHead).end(streamed('ok', 10, 5)))
const errorIn = (body: string) => (JSON.parse(body) as { error: { message: string } }).error.message
const under = (policy: Partial<Policy>) => ({ ...plainAuthority, policy: { ...plainAuthority.policy, ...policy } })

test.each([
  ['blocked', { allowed: ['*'], blocked: ['claude-opus*'] }, 'blocked_models has "claude-opus*"'],
  ['not allowed', { allowed: ['claude-haiku*'], blocked: [] }, 'allowed_models has "claude-haiku*"'],
])('a model that is %s is refused at the window, whatever the cell asks for', async (_, models, sentence) => {
  await using upstream = await answering()
  await using it = await testGate({ provider: local(upstream.url), authority: under({ models: [models] }) })
  for (const path of [messages, '/v1/messages/count_tokens']) {
    const { status, body } = await it.call(path, small({ model: 'claude-opus-5' }))
    expect([status, errorIn(body)]).toEqual([
      403,
      `The policy does not let this session use the model "claude-opus-5": ${sentence}`,
    ])
  }
  expect(upstream.received).toEqual([])
  expect((await it.call(messages, small({ model: 'claude-haiku-5' }))).status).toBe(200)
  expect(it.notices()).toEqual(['model_denied'])
})

test('a prompt that may be longer than the policy allows is refused, and one that was measured is not', async () => {
  await using upstream = await answering()
  await using it = await testGate({ provider: local(upstream.url), authority: under({ max_context_tokens: 1000 }) })
  const long = (letters: number) => small({ messages: [{ role: 'user', content: 'x'.repeat(letters) }] })
  expect((await it.call(messages, long(100))).status).toBe(200)
  const { status, body } = await it.call(messages, long(3000))
  expect([status, errorIn(body)]).toEqual([
    403,
    expect.stringMatching(/^The policy allows prompts of 1000 tokens .* this one may have \d+:/),
  ])
  // The first was measured to have ten tokens: the same with a word more is far below.
  const more = small({ messages: [...long(100).messages, { role: 'assistant', content: 'y'.repeat(400) }] })
  expect((await it.call(messages, more)).status).toBe(200)
})

test('tools that are denied do not leave the cell, and a new policy counts from the next call on', async () => {
  await using upstream = await answering()
  const tools = ['Read', 'Bash'].map((name) => ({ name, input_schema: { type: 'object' } }))
  const { policy } = under({ tools: [['Read']] })
  await using it = await testGate({ provider: local(upstream.url) })
  const offered = async () => {
    await it.call(messages, small({ tools }))
    return (JSON.parse(upstream.received.at(-1)!.body) as { tools: { name: string }[] }).tools.map(({ name }) => name)
  }
  expect(await offered()).toEqual(['Read', 'Bash'])
  await it.gate.handle({ do: 'policy', session, policy })
  expect(await offered()).toEqual(['Read'])
  const used = { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'Bash', input: {} }] }
  const { status, body } = await it.call(messages, small({ tools, messages: [used] }))
  expect([status, errorIn(body)]).toEqual([
    403,
    expect.stringContaining('The policy denies the tool "Bash" (allowed_tools does not name it)'),
  ])
})

test('an actor that has had its tokens of this minute waits, and one that would wait too long is refused', async () => {
  await using upstream = await fakeUpstream((response) => void response.writeHead(200, streamHead).end(streamed('ok', 5000, 5)))
  const rates = { actor: 'bot', requests_per_minute: null, tokens_per_minute: 1000 }
  await using it = await testGate({ provider: local(upstream.url), rules: { allow: [], rates } })
  expect((await it.call(messages, small())).status).toBe(200)
  const { status, body } = await it.call(messages, small())
  expect([status, errorIn(body)]).toEqual([403, expect.stringContaining('The policy lets "bot" have 1000 tokens a minute')])
})
