import type { LedgerNode } from '@anchorhold/protocol/link'
import { expect, test, vi } from 'vitest'
import { fakeUpstream, streamed } from '../../fake-upstream.ts'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import { local, session, small, testGate } from '../../test-gate.ts'

const messages = '/v1/messages'
const usd = 1_000_000_000
const streamHead = { 'content-type': 'text/event-stream; charset=utf-8' }
const errorIn = (body: string) => (JSON.parse(body) as { error: { message: string } }).error.message
const node = (name: string, caps: Partial<LedgerNode['caps']>, more: Partial<LedgerNode> = {}): LedgerNode => ({
  node: name,
  caps: { life: null, day: null, tick: null, ...caps },
  tick_ms: 3_600_000,
  asks: false,
  spent: { life: 0, day: 0, tick: 0 },
  ...more,
})
const ledger = (...nodes: readonly LedgerNode[]) => ({ simulated: false, at: Date.now(), to: 0, nodes: [...nodes] })
const answering = () => fakeUpstream((response) => void response.writeHead(200, streamHead).end(streamed('ok', 10, 5)))

test('a call that the house does not hold for this day is refused with a sentence that says when and how it goes on', async () => {
  await using upstream = await answering()
  await using it = await testGate({ provider: local(upstream.url), ledger: ledger(node('owner', { day: 1000 })) })
  const { status, body } = await it.call(messages, small())
  expect(status).toBe(403)
  expect(errorIn(body)).toMatch(
    /^The budget of the whole house for this day \(UTC\), \$0\.000001, does not hold another call: the next begins at \d{4}-\d\d-\d\d 00:00 UTC; or raise it with: anchorhold budget owner USD --per day$/,
  )
  expect(upstream.received).toEqual([])
})

test('a call is booked at every node that it goes through, with the sub-agent that made it', async () => {
  await using upstream = await answering()
  const nodes = [node('owner', {}), node('group/docs', { life: usd })]
  await using it = await testGate({ provider: local(upstream.url), ledger: ledger(...nodes), agent_cap_nanos: usd })
  await it.call(messages, small(), { 'x-claude-code-agent-id': 'a6cb8075a05544128' })
  await it.call(messages, small(), { 'x-claude-code-agent-id': '../../owner' })
  expect(it.usage().map((one) => [one.nodes, one.agent])).toEqual([
    [['owner', 'group/docs', `agent/${session}/a6cb8075a05544128`], 'a6cb8075a05544128'],
    [['owner', 'group/docs'], undefined],
  ])
})

test('a sub-agent that has spent what it may is refused, and its session goes on', async () => {
  await using upstream = await answering()
  await using it = await testGate({ provider: local(upstream.url), agent_cap_nanos: 1000 })
  const { status, body } = await it.call(messages, small(), { 'x-claude-code-agent-id': 'a1' })
  expect([status, errorIn(body)]).toEqual([403, expect.stringContaining('the sub-agent "a1"')])
  expect((await it.call(messages, small())).status).toBe(200)
})

test('a call of a sub-agent above its cap goes on when somebody allows it, and is asked for once', async () => {
  await using upstream = await answering()
  await using it = await testGate({ provider: local(upstream.url), spend: 'ask', agent_cap_nanos: 1000 })
  const waiting = it.call(messages, small(), { 'x-claude-code-agent-id': 'a1' })
  const asked = () => it.events.filter((event) => event.type === 'request.opened')
  await vi.waitUntil(() => asked().length > 0)
  const [{ body: { id: request, raises = [] } } = expect.unreachable()] = asked()
  expect(raises).toMatchObject([{ node: `agent/${session}/a1`, span: 'life' }])
  const allow = { do: 'answer' as const, session, request, answer: { decision: 'allow' as const } }
  await it.gate.handle({ ...allow, actor: 'ann', grant: null, raises })
  expect([(await waiting).status, asked().length]).toEqual([200, 1])
})

test('a call that waits for its group goes on when somebody raises what the group may spend', async () => {
  await using upstream = await answering()
  const docs = node('group/docs', { tick: 1000 })
  await using it = await testGate({ provider: local(upstream.url), spend: 'ask', ledger: ledger(docs) })
  const waiting = it.call(messages, small())
  await vi.waitUntil(() => it.events.some(({ type }) => type === 'request.opened'))
  expect(it.events[0]).toMatchObject({ body: { action: { kind: 'spend', left_nanos: 1000, budget_nanos: 1000 } } })
  await it.gate.handle({ do: 'ledger', ...ledger(node('group/docs', { tick: usd })) })
  expect((await waiting).status).toBe(200)
  expect(it.events).toContainEqual(
    expect.objectContaining({ type: 'request.answered', body: expect.objectContaining({ actor: 'gate' }) }),
  )
})

test('a call above what needs approval is asked for also where sessions do not ask, at the price that it has', async () => {
  await using upstream = await answering()
  const limit = node(`approval/${session}`, { life: 1000 }, { asks: true })
  await using it = await testGate({ provider: local(upstream.url), ledger: ledger(limit) })
  const waiting = it.call(messages, small())
  await vi.waitUntil(() => it.events.some(({ type }) => type === 'request.opened'))
  const opened = it.events.find((event) => event.type === 'request.opened')!
  const price = await it.gate.handle({ do: 'price', session, request: opened.body.id })
  expect(price).toMatchObject({ budget_nanos: null, raises: [{ node: `approval/${session}`, span: 'life', period: 0 }] })
  const { raises } = price as { raises: { node: string; span: 'life'; period: number; cap_nanos: number }[] }
  expect(opened.body).toMatchObject({ raises })
  expect(opened.body.why).toBe(
    'What this session may spend without being approved, $0.000001, does not hold another call: somebody approves it: anchorhold requests shows what waits, anchorhold allow REQUEST allows it',
  )
  const allow = { do: 'answer' as const, session, request: opened.body.id, answer: { decision: 'allow' as const } }
  expect(await it.gate.handle({ ...allow, actor: 'ann', grant: null, raises })).toEqual({ told: true })
  expect((await waiting).status).toBe(200)
})

test('a session that is opened while its windows are being closed is held by what needs approval', async () => {
  await using upstream = await answering()
  const limit = node(`approval/${session}`, { life: usd }, { asks: true })
  await using it = await testGate({ provider: local(upstream.url), ledger: ledger(limit) })
  const closed = it.gate.handle({ do: 'close', session })
  await it.gate.handle(it.opened)
  await closed
  expect((await it.call(messages, small())).status).toBe(200)
  expect(it.usage().map(({ nodes }) => nodes)).toEqual([[`approval/${session}`]])
})

test.each([
  ['an answer', {}, { max_tokens: Number.MAX_SAFE_INTEGER }],
  [
    'thinking',
    { budget_nanos: usd, spend: 'ask' as const },
    { max_tokens: Number.MAX_SAFE_INTEGER, thinking: { budget_tokens: 2 ** 52 } },
  ],
])('a cell that asks for %s without end keeps no later gate from starting', async (_, money, body) => {
  await using upstream = await answering()
  const disk = memoryDisk()
  let status = 0
  {
    await using it = await testGate({ provider: local(upstream.url), ...money }, disk, { heldMs: 1 })
    ;({ status } = await it.call(messages, small(body)))
  }
  await using next = await testGate({ provider: local(upstream.url) }, disk)
  expect([status, (await next.call(messages, small())).status]).toEqual([400, 200])
})

test('a document of a few bytes and many pages is not let out where the budget does not hold them', async () => {
  await using upstream = await answering()
  await using it = await testGate({ provider: local(upstream.url), budget_nanos: usd })
  const source = { type: 'base64', media_type: 'application/pdf', data: Buffer.alloc(783).toString('base64') }
  const { status, body } = await it.call(
    messages,
    small({ messages: [{ role: 'user', content: [{ type: 'document', source }] }] }),
  )
  expect([status, errorIn(body)]).toEqual([403, expect.stringContaining('does not hold another call')])
  expect(upstream.received).toEqual([])
})
