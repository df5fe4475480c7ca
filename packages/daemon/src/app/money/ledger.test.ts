import type { Actor } from '@anchorhold/core/actors'
import { type MoneyLimits, noSettings } from '@anchorhold/core/policy/effective'
import type { EventBody } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { newUserId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fakePolicies } from '../../policy/fake-policies.ts'
import { createSession } from '../sessions/create-session.ts'
import { openWindows } from '../keepers/keeper-start.ts'
import { approved, listBudgets, raiseEvents, requireRaise, setBudget } from './ledger.ts'
import { prompt } from '../prompts/prompt.ts'
import { spending } from '../sessions/read.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => parts[Symbol.dispose]())

const dayMs = 86_400_000
const create = (group?: string) => createSession(parts, owner, group === undefined ? {} : { group })
let records = 0
/** The gate says what a call cost. */
function spend(session: SessionId, cost_nanos: number, more: Partial<EventBody<'usage'>> = {}): void {
  const tokens = { input: 1, output: 2, cache_read: 3, cache_write: 4 }
  const body = { call: `c${++records}`, provider: 'p', model: 'm', tokens, cost_nanos, simulated: false, estimated: false }
  const rest = { notional: false, status: 200, duration_ms: 1, nodes: ['owner'], ...more }
  parts.store.events.append(session, 'gate', [
    { n: parts.store.events.lastOf('gate') + 1, at: parts.at, event: { type: 'usage', body: { ...body, ...rest } } },
  ])
}
/** What the gate was last told of a session. */
async function told(session: SessionId) {
  await openWindows(parts, session)
  const command = parts.gate.commands.findLast((one) => one.do === 'open' && one.session === session)
  return command?.do === 'open' ? command.ledger : null
}

test('openWindows() tells what the nodes above a session hold, up to the same record', async () => {
  const { id } = await create('docs')
  parts.at = 10 * dayMs
  spend(id, 7, { simulated: true, nodes: ['owner', 'group/docs'], began_at: 9 * dayMs })
  spend(id, 5, { simulated: true, nodes: ['owner', 'group/docs'], began_at: 10 * dayMs })
  spend(id, 100, { nodes: ['owner', 'group/docs'], began_at: 10 * dayMs })
  await setBudget(parts, owner, { node: 'group/docs', per: 'day', budget_micros: 3 })
  expect(await told(id)).toEqual({
    simulated: true,
    at: expect.any(Number) as number,
    to: 3,
    nodes: [
      {
        node: 'owner',
        caps: { life: null, day: null, tick: null },
        tick_ms: 3_600_000,
        asks: false,
        spent: { life: 12, day: 5, tick: 5 },
      },
      {
        node: 'group/docs',
        caps: { life: null, day: 3000, tick: null },
        tick_ms: 3_600_000,
        asks: false,
        spent: { life: 12, day: 5, tick: 5 },
      },
    ],
  })
})

test('openWindows() tells of no day that is over because the clock went back', async () => {
  const { id } = await create()
  spend(id, 5, { simulated: true, began_at: 10 * dayMs })
  parts.at = 8 * dayMs
  expect(await told(id)).toMatchObject({ at: 10 * dayMs, nodes: [{ spent: { day: 5 } }] })
})

test('raiseEvents() raise a cap in the period that they name', async () => {
  const { id } = await create('docs')
  await setBudget(parts, owner, { node: 'group/docs', per: 'day', budget_micros: 3 })
  parts.at = 10 * dayMs
  record(parts, id, ...raiseEvents([{ node: 'group/docs', span: 'day', period: 10, cap_nanos: 9000 }], true, owner))
  expect(parts.all(id).at(-1)).toMatchObject({
    type: 'budget.raised',
    body: { node: 'group/docs', cap_nanos: 9000, actor: 'owner' },
  })
  expect((await told(id))?.nodes[1]?.caps.day).toBe(9000)
  parts.at = 11 * dayMs
  expect((await told(id))?.nodes[1]?.caps.day).toBe(3000)
})

test('requireRaise() lets only those raise what the house may spend who write its policy', async () => {
  const { id } = await create()
  const member: Actor = { kind: 'member', user: newUserId(randomBytes), name: 'm', door: 'test' }
  const raise = { span: 'day' as const, period: 1, cap_nanos: 1 }
  expect(() => requireRaise(parts, member, id, [{ node: 'owner', ...raise }])).toThrow('may not do this')
  expect(() => requireRaise(parts, member, id, [{ node: `approval/${id}`, ...raise }])).not.toThrow()
  await expect(setBudget(parts, member, { node: 'owner', per: 'day', budget_micros: null })).rejects.toMatchObject({
    code: 'forbidden',
  })
})

test('setBudget() tells the gate, of play money and of real money', async () => {
  await setBudget(parts, owner, { node: 'owner', per: 'tick', budget_micros: 5 })
  const commands = parts.gate.commands.flatMap((one) => (one.do === 'ledger' ? [one] : []))
  expect(commands.map(({ simulated, nodes }) => [simulated, nodes[0]?.caps.tick])).toEqual([
    [false, 5000],
    [true, 5000],
  ])
  expect(listBudgets(parts, owner)).toMatchObject([{ node: 'owner', tick: { cap_micros: 5, spent_micros: 0 } }])
})

test('listBudgets() shows who is no owner what their own sessions spend under, and not what the house spends', async () => {
  const bob: Actor = { ...owner, kind: 'member', name: 'bob', user: newUserId(randomBytes) }
  parts.store.people.insert({ id: bob.user!, name: 'bob', role: 'member', policy: null, created_at: 1 })
  for (const [actor, group] of [
    [owner, 'docs'],
    [bob, 'site'],
  ] as const) {
    const { id } = await createSession(parts, actor, { group })
    spend(id, 7, { nodes: ['owner', `group/${group}`] })
  }
  const nodes = (actor: Actor) => listBudgets(parts, actor).map(({ node }) => node)
  expect(nodes(owner)).toEqual(expect.arrayContaining(['owner', 'group/docs', 'group/site']))
  expect(nodes(bob)).toEqual(['group/site'])
})

test('spending() sums up to the nano what the usage events say, each way', async () => {
  const [one, other] = [await create('docs'), await create()]
  parts.at = 10 * dayMs
  spend(one.id, 7, { began_at: 9 * dayMs, model: 'a' })
  spend(one.id, 1001, { model: 'a' })
  spend(other.id, 13, { model: 'b' })
  spend(other.id, 500, { model: 'b', simulated: true })
  const rows = (by: 'session' | 'group' | 'day' | 'model', since: string | null = null) =>
    spending(parts, owner, { by, since, session: null }).map(({ key, simulated, cost_nanos, calls }) => [
      key,
      simulated,
      cost_nanos,
      calls,
    ])
  expect(rows('group')).toEqual([
    ['docs', false, 1008, 2],
    ['', true, 500, 1],
    ['', false, 13, 1],
  ])
  expect(rows('day')).toEqual([
    ['1970-01-11', false, 1014, 2],
    ['1970-01-11', true, 500, 1],
    ['1970-01-10', false, 7, 1],
  ])
  expect(rows('model', '1970-01-11')).toEqual([
    ['a', false, 1001, 1],
    ['b', true, 500, 1],
    ['b', false, 13, 1],
  ])
  expect(rows('session')).toHaveLength(3)
})

test('what a purged session spent stays spent', async () => {
  const { id } = await create()
  spend(id, 5, { began_at: 1 })
  parts.store.sessions.purge(id)
  spend(id, 6, { began_at: 2 })
  expect(parts.store.ledger.spent('owner', false, 0, 3_600_000)).toEqual({ life: 11, day: 11, tick: 11 })
})

test('an idempotency key counts for one actor', async () => {
  const { id } = await create()
  const other = { ...owner, name: 'other' }
  const input = { text: 'Hello', idempotency_key: 'k' }
  const first = prompt(parts, owner, id, input)
  expect(prompt(parts, other, id, input).id).not.toBe(first.id)
  expect(prompt(parts, owner, id, input).id).toBe(first.id)
})

/** The daemon under these policies. */
const under = (house: Partial<MoneyLimits>, named: Readonly<Record<string, Partial<MoneyLimits>>> = {}) => {
  const money = (limits: Partial<MoneyLimits>) => ({ money: { ...noSettings('').money, ...limits } })
  const all = Object.fromEntries(Object.entries(named).map(([name, limits]) => [name, money(limits)]))
  return { ...parts, policies: fakePolicies(money(house), all) }
}
const hour = 3_600_000

test('openWindows() tells what the policies cap: the house by its own, and what a named one covers by that', async () => {
  const held = under({ perDayNanos: 50, tickMs: hour / 2 }, { ci: { perTickNanos: 7 } })
  const { id } = await createSession(held, owner, { policy: 'ci', group: 'docs' })
  await openWindows(held, id)
  const command = parts.gate.commands.findLast((one) => one.do === 'open')
  expect(command?.do === 'open' && command.ledger.nodes).toMatchObject([
    { node: 'owner', caps: { life: null, day: 50, tick: null }, tick_ms: hour / 2 },
    { node: 'policy/ci', caps: { life: null, day: null, tick: 7 }, tick_ms: hour / 2 },
    { node: 'group/docs', caps: { life: null, day: null, tick: null } },
  ])
})

test('setBudget() raises a cap of the policy in the period that is now, and in no other', async () => {
  const held = under({ perDayNanos: 5000 })
  const { id } = await createSession(held, owner, {})
  parts.at = 10 * dayMs
  const cap = async () => (await openWindows(held, id), parts.gate.commands.findLast((one) => one.do === 'open'))
  const day = async () => {
    const command = await cap()
    return command?.do === 'open' ? command.ledger.nodes[0]?.caps.day : undefined
  }
  expect(await day()).toBe(5000)
  await setBudget(held, owner, { node: 'owner', per: 'day', budget_micros: 9 })
  expect(await day()).toBe(9000)
  parts.at = 11 * dayMs
  expect(await day()).toBe(5000)
  await setBudget(held, owner, { node: 'owner', per: 'day', budget_micros: 2 })
  expect(await day()).toBe(2000)
})

test('a session that has spent what needs no approval is asked about, by those whom the policy names', async () => {
  const held = under({ approvalThresholdNanos: 1000, approvers: ['ann'] })
  const { id } = await createSession(held, owner, {})
  spend(id, 300, { simulated: true })
  await openWindows(held, id)
  const command = parts.gate.commands.findLast((one) => one.do === 'open')
  const node = `approval/${id}`
  expect(command?.do === 'open' && command.ledger.nodes[1]).toMatchObject({
    node,
    asks: true,
    caps: { life: 1000 },
    spent: { life: 300 },
  })
  const raises = [{ node, span: 'life' as const, period: 0, cap_nanos: 1300 }]
  const member = (name: string): Actor => ({ kind: 'member', user: newUserId(randomBytes), name, door: 'test' })
  expect(() => requireRaise(held, member('bob'), id, raises)).toThrow('may not approve')
  expect(() => requireRaise(held, member('ann'), id, raises)).not.toThrow()
  record(held, id, ...raiseEvents(approved(held, id, raises), true, member('ann')))
  await openWindows(held, id)
  const next = parts.gate.commands.findLast((one) => one.do === 'open')
  expect(next?.do === 'open' && next.ledger.nodes[1]?.caps.life).toBe(2000)
})

test('openWindows() tells how many calls and tokens the owner of a session may have in a minute', async () => {
  const rates = { requestsPerMinute: 5, tokensPerMinute: null }
  const held = { ...parts, policies: fakePolicies({ rates }) }
  const { id } = await createSession(held, owner, {})
  await openWindows(held, id)
  const command = parts.gate.commands.findLast((one) => one.do === 'open')
  expect(command?.do === 'open' && command.rules.rates).toEqual({
    actor: 'owner',
    requests_per_minute: 5,
    tokens_per_minute: null,
  })
})
