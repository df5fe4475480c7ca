import type { Actor } from '@anchorhold/core/actors'
import type { PolicySettings } from '@anchorhold/core/policy/effective'
import { noSettings } from '@anchorhold/core/policy/effective'
import type { CreateSession } from '@anchorhold/protocol/api/sessions'
import { type SessionId, UserId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { fakePolicies } from '../../policy/fake-policies.ts'
import { policies } from '../../policy/policies.ts'
import { createSession } from '../sessions/create-session.ts'
import { forkSession } from '../sessions/fork-session.ts'
import type { Runtime } from '../../processes/runtime.ts'
import { keeperStart, openWindows } from '../keepers/keeper-start.ts'
import { archive } from '../sessions/archive.ts'
import { change } from '../sessions/lifecycle.ts'
import { effectivePolicy } from './policy.ts'
import { prompt } from '../prompts/prompt.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => parts[Symbol.dispose]())

const settings = (more: Partial<PolicySettings>) => ({ ...noSettings('p'), ...more })
const under = (house: Partial<PolicySettings>, named: Record<string, Partial<PolicySettings>> = {}): TestParts => ({
  ...parts,
  policies: fakePolicies(house, named),
})
const money = (more: Partial<PolicySettings['money']>) => ({ money: { ...settings({}).money, ...more } })

/** As a daemon would that never saw these files before. */
function policiesAt(folder: string) {
  const all = policies({ folder, memory: join(parts.config.state, 'fresh'), log: parts.log })
  return { policies: all, [Symbol.dispose]: () => all.close() }
}

/** With a keeper that stands. */
async function standing(session: Promise<Session>): Promise<SessionId> {
  const { id } = await session
  await new Promise((resolve) => setImmediate(resolve))
  record(parts, id, {
    type: 'keeper.started',
    body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
  })
  return id
}

function agent(policy: string | null = null): Actor {
  const id = UserId.parse('usr_0000000000000bot')
  parts.store.people.insert({ id, name: 'bot', role: 'agent', policy, created_at: 1 })
  return { kind: 'agent', user: id, name: 'bot', door: 'test' }
}

test.each<[string, Partial<PolicySettings>, CreateSession, string | null]>([
  ['a weaker rung than the policy requires', { rung: 'bwrap' }, { rung: 'none' }, 'requires "bwrap" or stronger'],
  ['a rung that is strong enough', { rung: 'none' }, { rung: 'bwrap' }, null],
  ['a provider that is not allowed', { providers: ['anthropic', 'local'] }, {}, 'the policy allows "anthropic", "local"'],
  ['one that is', { providers: ['rehearsal'] }, {}, null],
  ['a blocked model', { models: { allowed: ['*'], blocked: ['rehearsal-*'] } }, {}, 'blocked_models has "rehearsal-*"'],
  [
    'a model that no list names',
    { models: { allowed: ['claude-*'], blocked: [] } },
    { model: 'gpt' },
    'allowed_models has "claude-*"',
  ],
  ['no budget where one is required', money({ requireMaxCost: true }), {}, 'without a budget'],
  ['a budget where one is required', money({ requireMaxCost: true }), { budget_micros: 1 }, null],
  ['no key where one is required', { requireIdempotency: true }, {}, 'requires an idempotency key'],
  ['a key where one is required', { requireIdempotency: true }, { idempotency_key: 'k' }, null],
  ['a policy that switches all off', { disabledAt: 3 }, {}, 'line 3, has access: disabled'],
  ['a policy that is not there', {}, { policy: 'nobody' }, 'There is no policy "nobody"'],
])('createSession() with %s', async (_, house, input, message) => {
  const made = createSession(under(house), owner, input)
  if (message === null) await expect(made).resolves.toMatchObject({ rung: 'bwrap' })
  else await expect(made).rejects.toThrow(message)
})

test('createSession() takes the budget and the filter that the policy gives', async () => {
  const folder = join(parts.config.state, '../work')
  mkdirSync(folder)
  const held = under({ ...money({ defaultMaxCostNanos: 5_000_000_000 }), repoFilter: 'strict' })
  const { id, budget_micros } = await createSession(held, owner, { workspace: folder })
  expect(budget_micros).toBe(5_000_000)
  expect(parts.store.sessions.get(id)?.options.repo_filter).toBe('strict')
  await expect(createSession(held, owner, { workspace: folder, repo_filter: 'none' })).rejects.toThrow(
    'the policy requires "strict"',
  )
  const lists = under({ repoFilter: { denylist: ['x'], allowlist: [] } })
  const other = await createSession(lists, owner, { workspace: folder })
  expect(parts.store.sessions.get(other.id)?.options.repo_filter).toEqual({ denylist: ['x'], allowlist: [] })
  await expect(createSession(lists, owner, { workspace: folder, repo_filter: 'standard' })).rejects.toThrow('the policy requires')
})

test('createSession() holds an agent to so many sessions that are not ended, and nobody else', async () => {
  const bot = agent()
  const [first] = await Promise.all([1, 2, 3].map(() => standing(createSession(parts, bot, {}))))
  await expect(createSession(parts, bot, {})).rejects.toThrow('has 3 that are not ended, and the policy allows 3')
  await expect(forkSession(parts, bot, first!, {})).rejects.toThrow('the policy allows 3')
  await archive(parts, owner, first!)
  await createSession(parts, bot, {})
  await createSession(parts, owner, {})
  await expect(createSession(under({ maxConcurrent: 1 }), bot, {})).rejects.toThrow('the policy allows 1')
})

test('createSession() holds people to the number of sessions that a policy names', async () => {
  const held = under({ maxConcurrent: 1 })
  await standing(createSession(held, owner, {}))
  await expect(createSession(held, owner, {})).rejects.toThrow('has 1 that are not ended, and the policy allows 1')
})

test('createSession() makes no more of them when several are asked for at once', async () => {
  const bot = agent()
  const made = await Promise.allSettled(Array.from({ length: 6 }, () => createSession(parts, bot, {})))
  expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
  expect(parts.store.sessions.openOf(bot.user!)).toBe(3)
})

test('an agent narrows what it is given, and widens nothing', async () => {
  const bot = agent('bots')
  const held = under({ autonomy: 'supervised' }, { bots: { autonomy: 'restricted' } })
  await expect(createSession(held, bot, { autonomy: 'full' })).rejects.toThrow('an agent widens nothing')
  await expect(createSession(held, bot, { autonomy: 'supervised' })).rejects.toThrow('an agent widens nothing')
  await expect(createSession(held, bot, { observe: true })).rejects.toThrow('an agent widens nothing')
  const { id } = await createSession(held, bot, {})
  expect(effectivePolicy(held, id).autonomy).toBe('restricted')
  await expect(change(held, bot, id, { autonomy: 'supervised' })).rejects.toThrow('"bot" may not do this')
  await change(held, bot, id, { autonomy: 'read_only' })
  expect(effectivePolicy(held, id).autonomy).toBe('read_only')
  // Nor when the policy is changed under a session that was free to choose before.
  const free = await createSession(under({}, { bots: {} }), bot, { autonomy: 'full' })
  expect(effectivePolicy(under({ autonomy: 'restricted' }, { bots: {} }), free.id).autonomy).toBe('restricted')
  // What a person gives it holds.
  expect((await change(held, owner, id, { autonomy: 'full' })).autonomy).toBe('full')
  expect(effectivePolicy(held, id).autonomy).toBe('full')
})

test('a session is held to the house, its agent and the policy that it names, taken together', async () => {
  const bot = agent('bots')
  const rule = { rule: { on: 'tool', match: { tool: 'Bash' }, effect: 'deny' }, line: 1 } as const
  const held = under({ maxContextTokens: 300 }, { bots: { rules: [rule] }, ci: { maxContextTokens: 200 } })
  const { id } = await createSession(held, bot, { policy: 'ci' })
  expect(effectivePolicy(held, id)).toMatchObject({ max_context_tokens: 200, rules: [rule.rule] })
  const own = await createSession(held, owner, {})
  expect(effectivePolicy(held, own.id)).toMatchObject({ max_context_tokens: 300, rules: [] })
  // One that is not there any more lets nothing happen.
  expect(effectivePolicy(under({}), id).rules.map(({ effect }) => effect)).toEqual(Array(8).fill('deny'))
})

test('of a policy that an agent names, only what takes away counts; of one that it was given, everything', async () => {
  const rules = [
    { rule: { on: 'tool', match: { tool: 'Bash' }, effect: 'allow' }, line: 1 },
    { rule: { on: 'tool', match: { tool: 'Write' }, effect: 'deny' }, line: 2 },
  ] as const
  const wide = { rules, autonomy: 'full', maxConcurrent: 100, breakers: { repeats: null } } as const
  const held = under({ autonomy: 'supervised' }, { wide, tight: {} })
  const bot = agent('tight')
  const { id } = await createSession(held, bot, { policy: 'wide' })
  expect(effectivePolicy(held, id)).toMatchObject({ rules: [rules[1].rule], autonomy: 'supervised', breakers: { repeats: 5 } })
  const person = await createSession(held, owner, { policy: 'wide' })
  expect(effectivePolicy(held, person.id).rules).toEqual(rules.map(({ rule }) => rule))
  parts.store.people.setRole(bot.user!, 'agent', 'wide')
  expect(effectivePolicy(held, id).rules).toEqual(rules.map(({ rule }) => rule))
})

test.each<[string, Partial<PolicySettings>, string]>([
  ['a rung', { rung: 'gvisor' }, 'its cell is of rung "bwrap", and the policy requires "gvisor" or stronger'],
  ['a provider', { providers: ['anthropic'] }, 'Cannot use the provider "rehearsal": the policy allows "anthropic"'],
  ['a filter', { repoFilter: 'strict' }, 'the policy requires "strict"'],
])('a session does not go on with %s that the policy does not allow any more', async (_, house, message) => {
  const folder = join(parts.config.state, '../work')
  mkdirSync(folder)
  const { id } = await createSession(parts, owner, { workspace: folder })
  await openWindows(parts, id)
  await expect(openWindows(under(house), id)).rejects.toThrow(message)
})

test('change() does not take away the budget that a policy requires', async () => {
  const held = under(money({ requireMaxCost: true }))
  const { id } = await createSession(held, owner, { budget_micros: 5 })
  await expect(change(held, owner, id, { budget_micros: null })).rejects.toThrow('the policy requires one')
})

test('a person chooses the autonomy, and can change it in mid-session', async () => {
  const held = under({ autonomy: 'supervised' })
  const { id, autonomy } = await createSession(held, owner, { autonomy: 'full' })
  expect(autonomy).toBe('full')
  expect(effectivePolicy(held, id).autonomy).toBe('full')
  await change(held, owner, id, { autonomy: 'read_only' })
  expect(effectivePolicy(held, id).autonomy).toBe('read_only')
  const changed = parts.all(id).findLast(({ type }) => type === 'session.changed')
  expect(changed).toMatchObject({ body: { autonomy: 'read_only', actor: 'owner' } })
})

test('change() and forkSession() ask the policy about the model too', async () => {
  const id = await standing(createSession(parts, owner, {}))
  const held = under({ models: { allowed: [], blocked: ['rehearsal-*', 'big'] } })
  await expect(change(held, owner, id, { model: 'big' })).rejects.toThrow('blocked_models has "big"')
  await expect(forkSession(held, owner, id, {})).rejects.toThrow('blocked_models')
})

test('prompt() needs a key where the policy requires one', async () => {
  const held = under({ requireIdempotency: true })
  const { id } = await createSession(held, owner, { idempotency_key: 'k' })
  expect(() => prompt(held, owner, id, { text: 'x' })).toThrow('requires an idempotency key')
  expect(prompt(held, owner, id, { text: 'x', idempotency_key: 'p' }).session).toBe(id)
})

test('no session starts under a policy that can not be used and never could', async () => {
  mkdirSync(parts.config.config, { recursive: true })
  writeFileSync(join(parts.config.config, 'policy.yaml'), 'nonsense: 1\n')
  using held = policiesAt(parts.config.config)
  await expect(createSession({ ...parts, policies: held.policies }, owner, {})).rejects.toThrow(
    'policy.yaml cannot be used: line 1: Unknown key "nonsense"',
  )
})

/** On a machine whose engine has a hole, until it is mended. */
function withHole(on: TestParts, touched: 'no' | 'perhaps', isMended: () => boolean = () => false): TestParts {
  const hole = {
    ids: ['CVE-1'],
    what: 'runc 1.1.5 lets a process out (CVE-1)',
    touched,
    why: 'it may',
    remedy: 'Install runc 1.1.12',
  }
  const { doctor } = on
  return {
    ...on,
    async doctor(look) {
      const report = await doctor(look)
      const holes = look.fresh && isMended() ? [] : [hole]
      return { ...report, rungs: report.rungs.map((one) => ({ ...one, rung: 'container' as const, holes })) }
    },
  }
}
const refusedForHole = {
  code: 'cell_unavailable',
  message: expect.stringContaining(
    'the policy requires "container" or stronger, and runc 1.1.5 lets a process out (CVE-1)',
  ) as string,
  hint: 'Install runc 1.1.12',
}

test('createSession() takes no engine with a hole that cells may meet for the rung that a policy requires', async () => {
  const required = under({ rung: 'container' })
  const asked = { rung: 'container' } as const
  await expect(createSession(withHole(required, 'perhaps'), owner, asked)).rejects.toMatchObject(refusedForHole)
  await createSession(withHole(required, 'no'), owner, asked)
  await createSession(withHole(under({}), 'perhaps'), owner, asked)
  await createSession(
    withHole(required, 'perhaps', () => true),
    owner,
    asked,
  )
})

test('keeperStart() holds a session to that as well, when its policy has come to require the rung', async () => {
  const { id } = await createSession(withHole(under({}), 'perhaps'), owner, { rung: 'container' })
  const start = (on: TestParts) => keeperStart(on, {} as Runtime, Promise.resolve(null), id)
  await expect(start(withHole(under({ rung: 'container' }), 'perhaps'))).rejects.toMatchObject(refusedForHole)
})
