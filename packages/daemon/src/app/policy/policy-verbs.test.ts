import type { NewEvent } from '@anchorhold/protocol/events'
import { newRequestId, newUserId, type RequestId, type SessionId } from '@anchorhold/protocol/ids'
import type { ActionText } from '@anchorhold/protocol/actions'
import type { Rule } from '@anchorhold/protocol/policy'
import { mkdirSync, writeFileSync } from 'node:fs'
import { digestOf } from '@anchorhold/core/policy/digest'
import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readPolicy } from '../../policy/read-policy.ts'
import { createSession } from '../sessions/create-session.ts'
import { addUser } from '../people/people.ts'
import { backtestPolicy, proposePolicy, requestRule } from './policy-history.ts'
import { checkPolicy, explainAction, reloadPolicy, showPolicy, testPolicy } from './policy-verbs.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => parts[Symbol.dispose]())

const write = (text: string, file = 'policy.yaml') => {
  mkdirSync(join(parts.config.config, 'policies'), { recursive: true })
  writeFileSync(join(parts.config.config, file), text)
  parts.policies.reload()
}
const house = `default_autonomy: supervised
rules:
  - { on: tool, match: { tool: Bash, command: git * }, effect: allow }
  - { on: tool, match: { tool: Bash, command: git push * }, effect: deny, why: not from here }
`
const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const ran = (tool: string, input: Record<string, unknown>, truncated = false): NewEvent => ({
  type: 'tool.started',
  body: { call: 'c', tool, input, truncated },
})
async function past(...events: readonly NewEvent[]): Promise<SessionId> {
  const { id } = await createSession(parts, owner, { name: 'Past' })
  record(parts, id, ...events)
  return id
}

test('showPolicy() says what is in force and where each rule stands', () => {
  write(house)
  write('blocked_tools: [WebFetch]\n', 'policies/ci.yaml')
  const { files, policy, rules } = showPolicy(parts, owner, null)
  expect(files.map(({ file, in_force }) => `${file} ${in_force}`)).toEqual(['policy.yaml current', 'policies/ci.yaml current'])
  expect(policy.autonomy).toBe('supervised')
  expect(rules.map(({ words, at }) => `${at.file}:${at.line} ${words}`)).toEqual([
    'policy.yaml:3 allow Bash "git *"',
    'policy.yaml:4 deny Bash "git push *" (not from here)',
  ])
})

test('showPolicy() of a session takes in the policy that it names', async () => {
  write('blocked_tools: [WebFetch]\n', 'policies/ci.yaml')
  const { id } = await createSession(parts, owner, { policy: 'ci', autonomy: 'restricted' })
  const { policy, rules } = showPolicy(parts, owner, id)
  expect(policy.autonomy).toBe('restricted')
  expect(rules[0]?.at).toEqual({ file: 'policies/ci.yaml', line: 1 })
})

test('checkPolicy() and reloadPolicy() tell of files and of texts', () => {
  write(house)
  expect(checkPolicy(parts, owner, {})).toEqual({ ok: true, rules: 2, problems: [] })
  expect(checkPolicy(parts, owner, { text: 'x: 1', name: 'mine.yaml' })).toMatchObject({
    ok: false,
    problems: [{ file: 'mine.yaml', line: 1 }],
  })
  writeFileSync(join(parts.config.config, 'policy.yaml'), 'rules: 3\n')
  expect(reloadPolicy(parts, owner)).toMatchObject({ ok: false, problems: [{ file: 'policy.yaml', line: 1, column: 8 }] })
  expect(showPolicy(parts, owner, null).rules).toHaveLength(2)
})

test('checkPolicy() sees a file that was emptied, and leaves the last good one in force', () => {
  write(house)
  writeFileSync(join(parts.config.config, 'policy.yaml'), '')
  expect(checkPolicy(parts, owner, {})).toMatchObject({ ok: false, problems: [{ file: 'policy.yaml' }] })
  expect(showPolicy(parts, owner, null).rules).toHaveLength(2)
  expect(reloadPolicy(parts, owner)).toEqual({ ok: true, rules: 0, problems: [] })
})

test('explainAction() names rule, file, line, what would change it and the rule that would', () => {
  write(house)
  expect(explainAction(parts, owner, { action: { tool: 'Bash', command: 'ls; git push' } })).toMatchObject({
    effect: 'deny',
    by: 'rule: deny Bash "git push *" (not from here)',
    at: { file: 'policy.yaml', line: 4 },
    command: 'git push',
    autonomy: 'supervised',
    rule: null,
  })
  expect(explainAction(parts, owner, { action: { tool: 'Bash', command: 'make' } })).toMatchObject({
    effect: 'ask',
    at: null,
    rule: { match: { command: 'make' } },
  })
  expect(explainAction(parts, owner, { action: { net: 'GET https://a.org/' }, autonomy: 'full' }).effect).toBe('ask')
  expect(() => explainAction(parts, owner, { action: { host: 'x' }, policy: 'none' })).toThrow('There is no policy "none"')
})

test('explainAction() finds what somebody has allowed and nobody has used up', async () => {
  const once = newRequestId(randomBytes)
  const forSession = newRequestId(randomBytes)
  const make = { kind: 'tool', tool: 'Bash', input: { command: 'make', description: 'a' } } as const
  const push = { kind: 'tool', tool: 'Bash', input: { command: 'git push' } } as const
  const digest = digestOf(make, sha256)
  const rule: Rule = { on: 'tool', match: { tool: 'Bash', command: 'git push *' }, effect: 'allow' }
  const by = { actor: 'owner', door: 'test' }
  const session = await past(
    { type: 'request.opened', body: { id: once, call: null, action: make, digest } },
    { type: 'request.answered', body: { id: once, answer: { decision: 'allow' }, ...by } },
    { type: 'request.opened', body: { id: forSession, call: null, action: push, digest: digestOf(push, sha256), rule } },
    { type: 'request.answered', body: { id: forSession, answer: { decision: 'allow', scope: 'session' }, ...by } },
  )
  const grants = (command: string) =>
    explainAction(parts, owner, { action: { tool: 'Bash', command, input: { description: 'b' } }, session }).grants
  expect(grants('make')).toEqual([`${once}, allowed once by owner`])
  expect(grants('make x')).toEqual([])
  const stranger = { ...owner, kind: 'member', name: 'bob', user: newUserId(randomBytes) } as const
  const asked = { action: { tool: 'Bash', command: 'make' }, text: 'rules: []', session } as const
  expect(() => explainAction(parts, stranger, asked)).toThrow('There is no session')
  expect(grants('git push origin')).toEqual([`${forSession}, allowed for the session by owner`])
  record(parts, session, { type: 'grant.used', body: { request: once, digest, call: null } })
  expect(grants('make')).toEqual([])
})

test('testPolicy() holds fixtures against what is in force, or against a text', () => {
  write(house)
  const fixtures = `
- { action: { tool: Bash, command: git push }, expect: deny }
- action: { tool: Bash, command: git status }
  expect: ask
- { action: { tool: Bash, command: make }, expect: allow, autonomy: full }
- { action: { net: GET https://a.org/x }, expect: ask }
- { action: { host: deploy, params: { env: x } }, expect: ask }
- { action: { spend: claude-opus-5, usd: 2 }, expect: allow }
`
  const { outcomes, failed } = testPolicy(parts, owner, { fixtures })
  expect(failed).toBe(1)
  expect(outcomes.find(({ passed }) => !passed)).toMatchObject({
    line: 3,
    action: 'Bash git status',
    expected: 'ask',
    effect: 'allow',
  })
  expect(testPolicy(parts, owner, { fixtures, text: '' }).failed).toBe(2)
  for (const nothing of ['', '[]', '# to be written\n'])
    expect(() => testPolicy(parts, owner, { fixtures: nothing })).toThrow('There is nothing to test')
  expect(() => testPolicy(parts, owner, { fixtures: '- { action: { tool: x }, expect: perhaps }' })).toThrow('line 1: 0.expect')
  expect(() => testPolicy(parts, owner, { fixtures: '\n- [', text: '' })).toThrow('line')
  expect(() => testPolicy(parts, owner, { fixtures, text: 'x: 1' })).toThrow('Cannot use the policy: line 1')
})

test('proposePolicy() is a policy under which the same would have gone through', async () => {
  const id = await past(
    ran('Bash', { command: 'git status && make test > log' }),
    ran('Read', { file_path: '/workspace/src/a.ts' }),
    ran('AskUserQuestion', { questions: [] }),
    ran('Bash', { command: 'x' }, true),
    {
      type: 'decision',
      body: {
        kind: 'net',
        effect: 'allow',
        by: '',
        digest: 'a'.repeat(64),
        call: null,
        action: { kind: 'net', host: 'a.org', port: 443, method: 'GET', path: '/' },
      },
    },
  )
  const { text, actions, skipped } = await proposePolicy(parts, owner, [id])
  expect({ actions, skipped }).toEqual({ actions: 3, skipped: 1 })
  expect(text).toContain('default_autonomy: supervised\nallowed_providers:\n  - rehearsal\nallowed_models:\n  - rehearsal-1\n')
  expect(readPolicy('p', text)).toMatchObject({ problems: [], settings: { autonomy: 'supervised' } })
  const { denied, asked } = await backtestPolicy(parts, owner, { text })
  expect({ denied, asked }).toEqual({ denied: 0, asked: 0 })
  // Without its rules the same would have been asked for.
  expect((await backtestPolicy(parts, owner, { text: 'default_autonomy: supervised\n' })).asked).toBe(3)
})

test('backtestPolicy() says which sessions and actions a policy would have stopped', async () => {
  parts.at = 100 * 24 * 60 * 60 * 1000
  const id = await past(
    ran('Bash', { command: 'git push origin' }),
    ran('Bash', { command: 'git status' }),
    ran('Read', { file_path: 'x' }),
  )
  await past(ran('Bash', { command: 'git status' }))
  const result = await backtestPolicy(parts, owner, { text: house })
  expect(result).toMatchObject({ actions: 4, denied: 1, asked: 1, skipped: 0 })
  expect(result.sessions).toMatchObject([
    {
      session: id,
      name: 'Past',
      stopped: null,
      denied: 1,
      asked: 1,
      examples: [{ action: 'Bash git push origin', effect: 'deny', before: null }, { effect: 'ask' }],
    },
  ])
  const models = await backtestPolicy(parts, owner, { text: 'blocked_models: ["rehearsal-*"]\n' })
  expect(models.sessions.map(({ stopped }) => stopped)).toEqual(
    Array(2).fill('model "rehearsal-1": blocked_models has "rehearsal-*"'),
  )
  parts.at += 31 * 24 * 60 * 60 * 1000
  expect((await backtestPolicy(parts, owner, { text: house })).actions).toBe(0)
  expect((await backtestPolicy(parts, owner, { text: house, days: 60 })).actions).toBe(4)
  await expect(backtestPolicy(parts, owner, {})).rejects.toThrow('Give either')
})

test('backtestPolicy() of one rule counts only what it would change', async () => {
  write('default_autonomy: supervised\n')
  await past(ran('Bash', { command: 'git push' }), ran('Bash', { command: 'make' }), ran('Bash', { command: 'git push && make' }))
  const rule = (effect: Rule['effect']): Rule => ({ on: 'tool', match: { tool: 'Bash', command: 'git push *' }, effect })
  expect(await backtestPolicy(parts, owner, { rule: rule('allow') })).toMatchObject({
    actions: 3,
    complete: true,
    allowed: 1,
    denied: 0,
    asked: 0,
    sessions: [{ examples: [{ before: 'ask', effect: 'allow' }] }],
  })
  expect(await backtestPolicy(parts, owner, { rule: rule('deny') })).toMatchObject({ actions: 3, allowed: 0, denied: 2 })
})

const request = 'req_0000000000000001' as RequestId
const asked = (more: object): NewEvent => ({
  type: 'request.opened',
  body: {
    id: request,
    call: null,
    action: { kind: 'tool', tool: 'Bash', input: { command: 'git push' } },
    digest: 'a'.repeat(64),
    pins: [],
    ...more,
  },
})
const gitPush: Rule = { on: 'tool', match: { tool: 'Bash', command: 'git push *' }, effect: 'allow' }

test('requestRule() shows the rule and what it would have done to the last 30 days, to those who may see the request', async () => {
  write('default_autonomy: supervised\n')
  parts.at = 100 * 24 * 60 * 60 * 1000
  await past(...Array.from({ length: 5 }, () => ran('Bash', { command: 'git push origin' })))
  parts.at += 31 * 24 * 60 * 60 * 1000
  const id = await past(
    ...Array.from({ length: 5 }, (_, at) => ran('Bash', { command: `git push origin ${at}` })),
    asked({ rule: gitPush }),
  )
  const look = await requestRule(parts, owner, request)
  expect(look).toMatchObject({
    rule: gitPush,
    words: 'allow Bash "git push *"',
    refused: null,
    past: { actions: 5, allowed: 5, denied: 0, asked: 0, complete: true, sessions: [{ session: id, allowed: 5 }] },
  })
  // A few are enough for a person, and they are the last ones.
  expect(look.past!.sessions[0]!.examples.map(({ action }) => action)).toEqual(
    [2, 3, 4].map((at) => `Bash git push origin ${at}`),
  )
  const { id: user } = addUser(parts, owner, { name: 'ann', role: 'member' })
  const ann = { kind: 'member' as const, user, name: 'ann', door: 'test' }
  await expect(requestRule(parts, ann, request)).rejects.toMatchObject({ code: 'not_found' })
})

test('requestRule() says why there is no rule', async () => {
  await past(asked({ rule_refused: 'a rule stands in the way' }))
  expect(await requestRule(parts, owner, request)).toEqual({
    rule: null,
    words: null,
    refused: 'a rule stands in the way',
    past: null,
  })
})

test('explainAction() looks at models, providers, caps, the network mode and addresses, and says what it did not look at', async () => {
  const effect = (action: ActionText, session?: SessionId) => {
    const { effect, by, unseen } = explainAction(parts, owner, { action, ...(session === undefined ? {} : { session }) })
    return { effect, by, unseen: unseen.join('; ') }
  }
  write(`blocked_models: ["claude-opus-*"]
allowed_providers: [anthropic]
budget: { per_day_usd: "$2", approval_threshold_usd: "$1" }
rules:
  - { on: net, match: { host: "*" }, effect: allow }
  - { on: net, match: { host: 192.168.1.5, port: 80 }, effect: allow, own_network: true }
`)
  expect(effect({ spend: 'claude-opus-5', usd: 3 })).toMatchObject({
    effect: 'deny',
    by: `the policy's blocked_models has "claude-opus-*"`,
  })
  expect(effect({ spend: 'claude-haiku-5', usd: '0.50' })).toMatchObject({
    effect: 'allow',
    unseen: expect.stringContaining('allowed_providers: say of which provider') as string,
  })
  expect(effect({ spend: 'claude-haiku-5', provider: 'local', usd: '0.50' })).toMatchObject({ effect: 'deny' })
  expect(effect({ spend: 'claude-haiku-5', usd: 3 })).toMatchObject({
    effect: 'ask',
    by: 'the budget of owner by day is $2.00, of which $0.00 are spent',
  })
  expect(effect({ spend: 'claude-haiku-5', usd: '1.50' }).by).toContain('may spend without being approved is $1.00')
  expect(effect({ net: 'GET https://a.org/' })).toMatchObject({
    effect: 'allow',
    unseen: expect.stringContaining('leads to') as string,
  })
  expect(effect({ net: 'GET http://10.0.0.1/' })).toMatchObject({
    effect: 'deny',
    by: '10.0.0.1 is this machine or in a private network',
  })
  expect(effect({ net: 'GET http://192.168.1.5/' }).effect).toBe('allow')
  expect(effect({ net: 'GET http://169.254.169.254/' }).effect).toBe('deny')
  write('network_mode: none\nrules:\n  - { on: net, match: { host: "*" }, effect: allow }\n')
  expect(effect({ net: 'GET https://a.org/' })).toMatchObject({
    effect: 'deny',
    by: expect.stringContaining('network_mode none') as string,
  })
  const { id } = await createSession(parts, owner, { budget_micros: 1_000_000 })
  expect(effect({ spend: 'm', usd: 2 }, id)).toMatchObject({
    effect: 'ask',
    by: expect.stringContaining('the budget of the session is $1.00') as string,
  })
})

test('showPolicy() shows every setting that differs from the defaults, and says where there is no file', () => {
  expect(showPolicy(parts, owner, null)).toMatchObject({ folder: parts.config.config, files: [{ exists: false }], settings: [] })
  write(`allowed_providers: [anthropic]
blocked_models: [x]
max_cost_usd_per_day: "$5"
require_max_cost: true
budget: { approval_threshold_usd: "$1", approvers: [ann] }
max_concurrent: 2
rates: { requests_per_minute: 3 }
require_idempotency: true
rung: bwrap
network_mode: none
repo_filter: strict
breakers: { errors: 4 }
grant_hours: 1
`)
  const { files, settings } = showPolicy(parts, owner, null)
  expect(files).toMatchObject([{ exists: true }])
  expect(settings.map(({ key, value }) => `${key}: ${value}`)).toEqual([
    'blocked_models: x',
    'allowed_providers: anthropic',
    'max_cost_usd_per_day: $5.00',
    'require_max_cost: true',
    'budget.approval_threshold_usd: $1.00',
    'budget.approvers: ann',
    'max_concurrent: 2',
    'rates.requests_per_minute: 3',
    'require_idempotency: true',
    'rung: bwrap',
    'network_mode: none',
    'repo_filter: strict',
    'breakers.errors: 4',
    'grant_hours: 1',
  ])
})

test('backtestPolicy() says of past sessions all for which they would not have started', async () => {
  const id = await past(ran('Bash', { command: 'ls' }))
  const stopped = async (text: string) =>
    (await backtestPolicy(parts, owner, { text })).sessions.find(({ session }) => session === id)?.stopped ?? null
  const open = 'default_autonomy: full\n'
  expect(await stopped(open)).toBe(null)
  expect(await stopped(`${open}allowed_providers: [anthropic]`)).toBe('provider "rehearsal": the policy allows "anthropic"')
  expect(await stopped(`${open}rung: microvm`)).toBe('rung "bwrap": it requires "microvm" or stronger')
  expect(await stopped(`${open}network_mode: none`)).toBe('network "proxy_only": network_mode is "none"')
  expect(await stopped(`${open}require_max_cost: true`)).toBe('it had no budget, and require_max_cost wants one')
  expect(await stopped('mounts: { /claude: { access: disabled } }')).toContain('access: disabled')
  expect(await stopped(`${open}rung: gvisor\nallowed_models: [x]`)).toContain('; rung "bwrap"')
})

test('backtestPolicy() holds a past session to the filter of its folder, and an agent to its autonomy', async () => {
  const workspace = join(parts.config.state, '../work')
  mkdirSync(workspace, { recursive: true })
  const { id } = await createSession(parts, owner, { workspace, repo_filter: 'none' })
  record(parts, id, ran('Bash', { command: 'ls' }))
  addUser(parts, owner, { name: 'bot', role: 'agent' })
  const bot = parts.store.people.byName('bot')!
  const actor = { kind: 'agent', user: bot.id, name: 'bot', door: 'test' } as const
  const other = await createSession(parts, actor, { autonomy: 'full' })
  record(parts, other.id, ran('Bash', { command: 'ls' }))
  const { sessions } = await backtestPolicy(parts, owner, { text: 'repo_filter: strict\ndefault_autonomy: restricted\n' })
  expect(Object.fromEntries(sessions.map(({ session, stopped }) => [session, stopped]))).toEqual({
    [id]: 'repo_filter "none": the policy requires "strict"',
    [other.id]: 'autonomy "full": an agent is given restricted',
  })
})

test('proposePolicy() says when a session did more than it looked at', async () => {
  const many = Array.from({ length: 2600 }, (_, n) => ran('Read', { file_path: `/workspace/src/f${n}` }))
  const long = await past(...many)
  expect(await proposePolicy(parts, owner, [long])).toMatchObject({ complete: false })
  expect(await proposePolicy(parts, owner, [await past(ran('Read', { file_path: '/workspace/a' }))])).toMatchObject({
    complete: true,
  })
})
