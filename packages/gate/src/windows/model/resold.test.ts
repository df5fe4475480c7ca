import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Seller } from '@anchorhold/core/prices'
import { systemClock } from '@anchorhold/link/clock'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox } from '@anchorhold/link/outbox'
import { eventBodies } from '@anchorhold/protocol/events'
import type { Policy } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { sessionAuthority } from '../../authority.ts'
import { openBooks } from '../../money/books.ts'
import { sse } from '../../fake-upstream.ts'
import type { Upstream } from '../../providers/providers.ts'
import { rateLimits } from '../../money/rates.ts'
import { plainAuthority, session, small, textOf } from '../../test-gate.ts'
import { messages } from './dialects/messages/messages.ts'
import { modelWindow } from './window.ts'

const usd = 1_000_000_000
const done = async () => {}

type Terms = { readonly budget?: number | null; readonly allow?: readonly string[]; readonly policy?: Partial<Policy> }

/** A window to one who sells models, and what it has answered to: a reseller is reached by TLS alone, so it is stood in for here. */
async function windowTo(seller: Seller, answer: string, { budget = usd, allow = [], policy = {} }: Terms = {}) {
  const root = await mkdtemp(join(tmpdir(), 'ah-resold-'))
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  const leases = { nodes: async () => [], putNodes: done, list: async () => [], put: done, remove: done }
  let calls = 0
  const newCall = () => `call ${calls++}`
  const books = await openBooks({ outbox, leases, now: () => 0, newCall, soon: done, onBroken: () => {} })
  const money = { budget_nanos: budget, spent_nanos: 0, spent_to: 0, closed: false }
  const account = books.open(session, { ...money, nodes: [], agent_cap_nanos: null, simulated: false })
  const sent: string[] = []
  const upstream: Upstream = {
    ...{ name: 'test', simulated: false, notional: false, billed: true, seller, unreachable: (code: string) => code },
    authorise: async () => ({ key: null, scrubber: null }),
    dial({ body }, listener) {
      sent.push(body)
      queueMicrotask(() => {
        listener.answered(200, { 'content-type': 'text/event-stream' })
        listener.data(Buffer.from(answer))
        listener.ended()
      })
      return { pause() {}, resume() {}, cut() {} }
    },
  }
  const authority = sessionAuthority({
    terms: { ...plainAuthority, policy: { ...plainAuthority.policy, ...policy } },
    heardTo: 0,
    before: books.asks(session),
    account,
    flush: books.flush,
    now: () => 0,
    onChange() {},
  })
  const window = await modelWindow({
    session,
    dialect: messages,
    folder: root,
    terms: { upstream, allow: new Set(allow), spend: 'stop', rates: undefined },
    account,
    books,
    authority,
    rates: rateLimits(systemClock),
    now: () => 0,
    log: () => {},
    heldMs: 1,
  })
  return {
    account,
    sent,
    async call(model: string) {
      const asking = request({ socketPath: join(root, 'model.sock'), path: '/v1/messages', method: 'POST' })
      const [response] = (await once(asking.end(JSON.stringify(small({ model }))), 'response')) as [IncomingMessage]
      return { status: response.statusCode, body: await textOf(response) }
    },
    async usage() {
      await window.quiet()
      await books.flush()
      return (await outbox.read(0, Infinity)).flatMap(({ type, body }) =>
        type === 'usage' ? [eventBodies.usage.parse(body)] : [],
      )
    },
    async [Symbol.asyncDispose]() {
      await window.close()
      await rm(root, { recursive: true })
    },
  }
}

const answered = (more: object) =>
  sse('message_start', { message: { usage: { input_tokens: 10, output_tokens: 1 } } }) +
  sse('message_delta', { usage: { output_tokens: 10, ...more } })

test.each([
  ['says', { cost: 0.0123 }, 12_300_000],
  [
    'says, and nothing of the bill of the maker that it paid itself',
    { cost: 0.5, is_byok: false, cost_details: { upstream_inference_cost: 0.5 } },
    usd / 2,
  ],
  [
    'and the maker say, where the owner has a key there',
    { cost: 0.01, is_byok: true, cost_details: { upstream_inference_cost: 0.2 } },
    210_000_000,
  ],
])('a call to a reseller is booked at what it %s', async (_, usage, nanos) => {
  await using it = await windowTo('reseller', answered(usage))
  expect((await it.call('qwen/qwen3-coder')).status).toBe(200)
  expect(await it.usage()).toMatchObject([{ cost_nanos: nanos, estimated: false }])
})

test('a call to a reseller that cost more than was set aside closes the budget', async () => {
  await using it = await windowTo('reseller', answered({ cost: 0.9 }))
  await it.call('anthropic/claude-sonnet-5')
  await it.usage()
  expect(it.account.lease).toMatchObject({ spentNanos: 900_000_000, closed: true })
})

test.each([
  ['a maker', 'maker', 'claude-sonnet-5', { cost: 0 }, 10 * 2000 + 10 * 10_000, false],
  [
    'a reseller whose cost cannot be read',
    'reseller',
    'anthropic/claude-sonnet-5',
    { cost: 'much' },
    10 * 2000 + 10 * 10_000,
    false,
  ],
  ['a reseller that says nothing', 'reseller', 'qwen/qwen3-coder', {}, 10 * 15_000 + 10 * 75_000, true],
] as const)('a call to %s is booked by the list', async (_, seller, model, usage, nanos, estimated) => {
  await using it = await windowTo(seller, answered(usage))
  await it.call(model)
  expect(await it.usage()).toMatchObject([{ cost_nanos: nanos, estimated }])
})

test('a dear model of a reseller is not let out where the budget does not hold its price', async () => {
  await using it = await windowTo('reseller', answered({}), { budget: usd / 2 })
  expect((await it.call('openai/o1-pro')).status).toBe(403)
  expect((await it.call('openai/gpt-5.2')).status).toBe(200)
  expect(it.sent).toHaveLength(1)
})

test.each([
  ['that searches the web is refused', 'anthropic/claude-sonnet-5:online', {}, 403],
  ['that searches the web is refused without a budget too', 'anthropic/claude-sonnet-5:online', { budget: null }, 403],
  ['that nobody knows is refused', 'anthropic/claude-sonnet-5:dearer', { budget: null }, 403],
  ['that may cost more is refused under a budget', 'qwen/qwen3-coder:nitro', {}, 403],
  ['that may cost more goes out without one', 'qwen/qwen3-coder:nitro', { budget: null }, 200],
  ['that costs less goes out', 'qwen/qwen3-coder:free', {}, 200],
  ['that the owner allows goes out', 'anthropic/claude-sonnet-5:online', { allow: ['variant:online'] }, 200],
  [
    'that a policy names goes out',
    'anthropic/claude-sonnet-5:online',
    { policy: { models: [{ allowed: ['anthropic/*:online'], blocked: [] }] } },
    200,
  ],
  [
    'that a policy allows among others is refused',
    'anthropic/claude-sonnet-5:online',
    { policy: { models: [{ allowed: ['anthropic/*'], blocked: [] }] } },
    403,
  ],
])('a variant of a reseller %s', async (_, model, terms, status) => {
  await using it = await windowTo('reseller', answered({ cost: 0 }), terms)
  expect((await it.call(model)).status).toBe(status)
})

test('a colon in the name of a model of anybody else means nothing', async () => {
  await using it = await windowTo('maker', answered({}))
  expect((await it.call('qwen3-coder:30b')).status).toBe(200)
})
