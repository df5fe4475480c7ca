import type { Action, Pin } from '@anchorhold/protocol/actions'
import type { EventBody, EventType, NewEvent } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import type { Authority as Terms, Grant } from '@anchorhold/protocol/authority'
import type { Policy } from '@anchorhold/protocol/policy'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { authority, type AuthorityParts } from './authority.ts'
import { defaultPolicy } from '../policy/default-policy.ts'
import { plainMeaning } from '../policy/meaning.ts'
import { toolMeaning } from '../policy/tool-meaning.ts'

const supervised: Policy = { ...defaultPolicy, autonomy: 'supervised', rules: [{ on: 'spend', match: {}, effect: 'ask' }] }
const never = () => new AbortController().signal
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
const meaningOf = (action: Action) => (action.kind === 'tool' ? toolMeaning(action) : plainMeaning(action))

/** An authority whose records the test reads and whose people it speaks for. */
function make(terms: Partial<Terms> = {}, more: Partial<AuthorityParts> = {}) {
  const events: NewEvent[] = []
  let flushed = 0
  const time = { now: 1000 }
  let requests = 0
  const one = authority({
    terms: { policy: supervised, grants: [], asked: [], ...terms },
    name: 'keeper',
    whenLeft: { takeBack: (work) => work() },
    write: (event) => void events.push(event),
    async flush() {
      await settled()
      flushed = events.length
    },
    inOrder: (work) => work(),
    mayAsk: () => true,
    now: () => time.now,
    newRequest: () => `req_${String(++requests).padStart(16, '0')}` as RequestId,
    sha256: (text) => createHash('sha256').update(text).digest('hex'),
    ...more,
  })
  const of = <T extends EventType>(type: T) =>
    events.flatMap((event) => (event.type === type ? [event.body as EventBody<T>] : []))
  return {
    one,
    events,
    time,
    of,
    get flushed() {
      return flushed
    },
    judge: (action: Action, { pins = [], signal = never() }: { pins?: readonly Pin[]; signal?: AbortSignal } = {}) =>
      one.judge({ meaning: meaningOf(action), call: 'call', pins: async () => pins }, () => signal),
    /** What a person's allowance of the last request is. */
    grant: (more: Partial<Grant> = {}): Grant => grantOf(of('request.opened').at(-1)!, more),
    async allow(request: RequestId, grant: Grant | null) {
      return one.answer({ request, answer: { decision: 'allow' }, actor: 'ann', grant })
    },
  }
}
const grantOf = ({ id, digest, pins = [], action }: EventBody<'request.opened'>, more: Partial<Grant> = {}): Grant => ({
  ...{ request: id, digest: digest!, pins, scope: 'once', rule: null, expires_at: null, actor: 'ann' },
  nanos: action.kind === 'spend' ? action.needed_nanos : null,
  ...more,
})

test('whoever is being told is not sent away by those who leave meanwhile', async () => {
  const { one, judge, of, allow, grant } = make()
  const verdict = judge({ kind: 'tool', tool: 'Bash', input: { command: 'make' } })
  await settled()
  const [opened] = of('request.opened')
  const telling = allow(opened!.id, grant())
  one.leaveAll()
  expect(await telling).toEqual({ told: true })
  expect(await verdict).toMatchObject({ allow: true })
})

/** An action that was allowed once, and the grant for it in the hands of the process that comes next. */
async function allowed(action: Action, pins: readonly Pin[] = []) {
  const asker = make()
  void asker.judge(action, { pins })
  await settled()
  return make({ grants: [asker.grant()] })
}
/** Whether it happens without anybody being asked. */
async function happens(
  it: ReturnType<typeof make>,
  action: Action,
  pins: readonly Pin[] = [],
): Promise<'yes' | 'asked' | 'refused'> {
  let verdict: 'yes' | 'refused' | null = null
  void it.judge(action, { pins }).then(({ allow }) => (verdict = allow ? 'yes' : 'refused'))
  for (let turns = 0; turns < 5; turns++) await settled()
  return verdict ?? 'asked'
}

const hash = (of: string) => of.repeat(64)
const base = {
  bash: { kind: 'tool', tool: 'Bash', input: { command: 'make build', timeout: 5000, description: 'Builds it' } },
  write: { kind: 'tool', tool: 'Write', input: { file_path: '/workspace/a', content: 'x' } },
  agent: { kind: 'tool', tool: 'Agent', input: { prompt: 'Look', subagent_type: 'general', description: 'Looks' } },
  net: { kind: 'net', host: 'example.org', port: 443, method: 'GET', path: '/a?b=1' },
  spend: { kind: 'spend', provider: 'own', model: 'm', needed_nanos: 100, left_nanos: 0, budget_nanos: 0 },
  host: { kind: 'host', program: 'deploy', params: { to: 'staging', force: false, times: 1 } },
} as const satisfies Record<string, Action>
type Named = keyof typeof base

/** Each differs from what was allowed in one field that means something. */
const mutations: readonly (readonly [string, Named, object])[] = [
  ['another command', 'bash', { input: { ...base.bash.input, command: 'make deploy' } }],
  ['one more word', 'bash', { input: { ...base.bash.input, command: 'make build install' } }],
  ['a second command', 'bash', { input: { ...base.bash.input, command: 'make build; make deploy' } }],
  ['a space that means nothing to a person', 'bash', { input: { ...base.bash.input, command: 'make  build' } }],
  ['a letter that looks the same', 'bash', { input: { ...base.bash.input, command: 'mаke build' } }],
  ['another timeout', 'bash', { input: { ...base.bash.input, timeout: 6000 } }],
  ['a number that became a text', 'bash', { input: { ...base.bash.input, timeout: '5000' } }],
  ['the background', 'bash', { input: { ...base.bash.input, run_in_background: true } }],
  ['a field that nobody knows', 'bash', { input: { ...base.bash.input, dangerouslyDisableSandbox: true } }],
  ['a field left out', 'bash', { input: { command: 'make build' } }],
  ['another tool', 'bash', { tool: 'Monitor' }],
  ['another file', 'write', { input: { file_path: '/workspace/b', content: 'x' } }],
  ['other content', 'write', { input: { file_path: '/workspace/a', content: 'y' } }],
  ['another prompt', 'agent', { input: { ...base.agent.input, prompt: 'Look away' } }],
  ['another kind of sub-agent', 'agent', { input: { ...base.agent.input, subagent_type: 'admin' } }],
  ['another host', 'net', { host: 'example.com' }],
  ['a host below', 'net', { host: 'a.example.org' }],
  ['another port', 'net', { port: 8443 }],
  ['another method', 'net', { method: 'POST' }],
  ['no method', 'net', { method: null }],
  ['another path', 'net', { path: '/a?b=2' }],
  ['another model', 'spend', { model: 'dearer' }],
  ['another provider', 'spend', { provider: 'other' }],
  ['a much larger sum', 'spend', { needed_nanos: 126 }],
  ['another program', 'host', { program: 'destroy' }],
  ['another value', 'host', { params: { ...base.host.params, to: 'production' } }],
  ['a switch that was off', 'host', { params: { ...base.host.params, force: true } }],
  ['another number', 'host', { params: { ...base.host.params, times: 2 } }],
  ['a parameter more', 'host', { params: { ...base.host.params, as: 'root' } }],
  ['a parameter less', 'host', { params: { to: 'staging', force: false } }],
]

test.each(mutations)('a grant does not cover %s (%s)', async (_, named, change) => {
  const it = await allowed(base[named])
  expect(await happens(it, { ...base[named], ...change })).toBe('asked')
  // What was allowed still is, once.
  expect(await happens(it, base[named])).toBe('yes')
  expect(it.of('grant.used')).toHaveLength(1)
})

test.each([
  ['its description reworded', 'bash', { input: { ...base.bash.input, description: 'Something else' } }],
  ['no description', 'bash', { input: { command: 'make build', timeout: 5000 } }],
  ['its fields in another order', 'bash', { input: { timeout: 5000, command: 'make build' } }],
  ["a sub-agent's description reworded", 'agent', { input: { ...base.agent.input, description: 'Other words' } }],
  ['its host in capitals and with its root', 'net', { host: 'EXAMPLE.org.' }],
  ['a sum that has grown a little', 'spend', { needed_nanos: 125 }],
  ['its parameters in another order', 'host', { params: { times: 1, force: false, to: 'staging' } }],
] as const)('a grant covers the same with %s', async (_, named, change) => {
  const it = await allowed(base[named])
  expect(await happens(it, { ...base[named], ...change })).toBe('yes')
})

test.each([
  ['a script that changed', [{ path: '/workspace/build.sh', sha256: hash('b') }]],
  ['another program of that name on the path', [{ path: '/home/agent/bin/build.sh', sha256: hash('a') }]],
  ['a program that is gone', []],
  [
    'one more program',
    [
      { path: '/workspace/build.sh', sha256: hash('a') },
      { path: '/tmp/x', sha256: hash('a') },
    ],
  ],
])('a grant is refused for %s, with a sentence, and is not used', async (_, pins) => {
  const before = [{ path: '/workspace/build.sh', sha256: hash('a') }]
  const it = await allowed(base.bash, before)
  const verdict = await it.judge(base.bash, { pins })
  expect(verdict).toMatchObject({
    allow: false,
    why: expect.stringMatching(/is not what was allowed in req_\S+: it has changed since/),
  })
  expect(it.of('grant.used')).toEqual([])
  expect(await happens(await allowed(base.bash, before), base.bash, before)).toBe('yes')
})

test('what changes between the asking and the running is refused though somebody allowed it', async () => {
  const it = make()
  let sha256 = hash('a')
  const pins = async () => [{ path: '/workspace/build.sh', sha256 }]
  const verdict = it.one.judge({ meaning: meaningOf(base.bash), call: 'call', pins }, never)
  await settled()
  sha256 = hash('b')
  await it.allow(it.of('request.opened')[0]!.id, it.grant())
  expect(await verdict).toMatchObject({ allow: false })
  expect(it.of('grant.used')).toEqual([])
})

test('a grant is used once: not again, not by two at the same moment, not when it is told a second time', async () => {
  const it = await allowed(base.bash)
  const both = await Promise.all([happens(it, base.bash), happens(it, base.bash)])
  expect(both.toSorted()).toEqual(['asked', 'yes'])
  const [{ request }] = it.of('grant.used') as [EventBody<'grant.used'>]
  await it.allow(request, grantOf({ ...it.of('request.opened')[0]!, id: request }))
  expect(it.one.terms.grants).toEqual([])
  it.one.update({ policy: supervised, grants: [grantOf({ ...it.of('request.opened')[0]!, id: request })], asked: [] }, () => true)
  expect(await happens(it, base.bash)).toBe('asked')
  expect(it.of('grant.used')).toHaveLength(1)
})

test('a grant that was used by the process before this one is not used again', async () => {
  const asker = make()
  void asker.judge(base.bash)
  await settled()
  const grant = asker.grant()
  const it = make({ grants: [grant] }, { before: { used: [grant.request], told: [] } })
  expect(await happens(it, base.bash)).toBe('asked')
})

test('that a grant is used is on the disk before the action goes on', async () => {
  const it = await allowed(base.bash)
  const verdict = it.judge(base.bash)
  await verdict
  expect(it.flushed).toBeGreaterThan(it.events.findIndex(({ type }) => type === 'grant.used'))
})

test('a grant expires, and so does the request that somebody would join', async () => {
  const it = await allowed(base.bash)
  const late = make({ grants: it.one.terms.grants.map((one) => ({ ...one, expires_at: 2000 })) })
  late.time.now = 2000
  expect(await happens(late, base.bash)).toBe('asked')
  late.time.now += supervised.request_ms
  expect(await happens(late, base.bash)).toBe('asked')
  expect(late.of('request.opened')).toHaveLength(2)
})

test('what is done again while it is being asked joins the request, and one of the two goes on', async () => {
  const it = make()
  const verdicts = [it.judge(base.bash), it.judge(base.bash)]
  await settled()
  expect(it.of('request.opened')).toHaveLength(1)
  await it.allow(it.of('request.opened')[0]!.id, it.grant())
  expect(await Promise.race(verdicts)).toMatchObject({ allow: true })
  await settled()
  // The other one asks anew.
  expect(it.of('request.opened')).toHaveLength(2)
  expect(it.of('grant.used')).toHaveLength(1)
})

test('a grant for the session covers what its rule does, again and again, and never what is denied', async () => {
  const rule = { on: 'tool', match: { tool: 'Bash', command: 'make *' }, effect: 'allow' } as const
  const it = await allowed(base.bash)
  const terms = { grants: it.one.terms.grants.map((one) => ({ ...one, scope: 'session' as const, rule })) }
  const free = make(terms)
  const other: Action = { kind: 'tool', tool: 'Bash', input: { command: 'make test' } }
  expect([await happens(free, other), await happens(free, other), await happens(free, base.write)]).toEqual([
    'yes',
    'yes',
    'asked',
  ])
  const deny = { on: 'tool', match: { command: 'make test' }, effect: 'deny', why: 'Tests are slow' } as const
  const strict = make({ ...terms, policy: { ...supervised, rules: [deny] } })
  expect(await strict.judge(other)).toMatchObject({ allow: false, why: expect.stringContaining('Tests are slow') })
})

test('a grant for the session covers what it executes only as long as that is what was allowed', async () => {
  const pin = (sha256: string) => [{ path: '/workspace/build.sh', sha256 }]
  const rule = { on: 'tool', match: { tool: 'Bash', command: 'make *' }, effect: 'allow' } as const
  const it = await allowed(base.bash, pin(hash('a')))
  const free = make({ grants: it.one.terms.grants.map((one) => ({ ...one, scope: 'session' as const, rule })) })
  const runs = [pin(hash('a')), pin(hash('b')), [{ path: '/tmp/build.sh', sha256: hash('a') }], []]
  const went = []
  for (const pins of runs) went.push(await happens(free, base.bash, pins))
  expect(went).toEqual(['yes', 'asked', 'asked', 'yes'])
})

test('grants for the session cover together what each of them covers a command of', async () => {
  const pin = (name: string, sha256 = hash(name)) => ({ path: `/usr/bin/${name}`, sha256 })
  const grants = ['ls *', 'cat *', 'make', 'python3', 'export A=1', 'cd *'].map((command, at): Grant => ({
    ...{
      request: `req_${'g'.repeat(15)}${at}` as RequestId,
      digest: hash(command),
      scope: 'session',
      expires_at: null,
      actor: 'ann',
    },
    ...{
      rule: { on: 'tool', match: { tool: 'Bash', command }, effect: 'allow' },
      pins: [pin(command.split(' ')[0]!)],
      nanos: null,
    },
  }))
  const free = make({ grants })
  const went = (command: string, pins: readonly Pin[] = [pin('ls'), pin('cat')]) =>
    happens(free, { kind: 'tool', tool: 'Bash', input: { command } }, pins)
  const covered = ['ls && cat x', 'cat x | ls; ls', 'ls $(cat x)', 'cd sub && ls']
  for (const command of covered) expect([command, await went(command)]).toEqual([command, 'yes'])
  expect(
    free
      .of('grant.used')
      .slice(0, 2)
      .map(({ request }) => request),
  ).toEqual([grants[0]!.request, grants[1]!.request])
  const others = [
    'ls && rm x',
    'ls && cat x > y',
    'ls && A=1 cat x',
    'cat x | sh',
    'cat x | python3',
    'export A=1 && make',
    'ls $(rm x)',
  ]
  for (const command of others) expect([command, await went(command)]).toEqual([command, 'asked'])
  expect(await went('ls && cat x', [pin('ls'), pin('cat', hash('b'))])).toBe('asked')
  expect(await went('ls && cat x', [pin('ls'), pin('cat'), pin('other')])).toBe('asked')
})

test('a grant whose file has changed adds nothing, though another was given for the file as it is', async () => {
  const pins = (text: string) => [{ path: '/workspace/run.sh', sha256: hash(text) }]
  const grants = [['./run.sh', 'a'] as const, ['make', 'b'] as const].map(([command, text], at): Grant => ({
    ...{
      request: `req_${'g'.repeat(15)}${at}` as RequestId,
      digest: hash(command),
      scope: 'session',
      expires_at: null,
      actor: 'ann',
    },
    ...{ rule: { on: 'tool', match: { tool: 'Bash', command }, effect: 'allow' }, pins: pins(text), nanos: null },
  }))
  const action: Action = { kind: 'tool', tool: 'Bash', input: { command: './run.sh && make' } }
  expect(await happens(make({ grants }), action, pins('b'))).toBe('asked')
})

test('an answer that comes when the new policy has let the action go on finds it told, and leaves no grant', async () => {
  const it = make()
  const went = it.judge(base.bash)
  await settled()
  const { id } = it.of('request.opened')[0]!
  const grant = it.grant()
  it.one.setPolicy({ ...supervised, rules: [{ on: 'tool', match: { command: 'make *' }, effect: 'allow' }] })
  expect(await went).toMatchObject({ allow: true })
  expect(await it.allow(id, grant)).toEqual({ told: true })
  expect([it.of('request.told'), it.one.terms.grants]).toEqual([[{ id }], []])
})

test('a grant for once never overrides a rule that denies, nor read_only', async () => {
  const it = await allowed(base.bash)
  it.one.setPolicy({ ...supervised, autonomy: 'read_only' })
  expect(await happens(it, base.bash)).toBe('refused')
  it.one.setPolicy({ ...supervised, rules: [{ on: 'tool', match: { tool: 'Bash' }, effect: 'deny' }] })
  expect(await happens(it, base.bash)).toBe('refused')
  expect(it.of('grant.used')).toEqual([])
})

test('what cannot be shown to a person whole is refused, not asked', async () => {
  const it = make()
  const huge: Action = { kind: 'tool', tool: 'Write', input: { file_path: '/workspace/a', content: 'x'.repeat(300_000) } }
  expect(await it.judge(huge)).toMatchObject({ allow: false, why: expect.stringContaining('too large') })
  expect(it.of('request.opened')).toEqual([])
})

test('what is nested too deeply to be read is refused, also where everything is allowed', async () => {
  let deep: unknown = []
  for (let n = 0; n < 100_000; n++) deep = [deep]
  const it = make({ policy: { ...supervised, rules: [{ on: 'tool', match: { tool: '*' }, effect: 'allow' }] } })
  const action: Action = { kind: 'tool', tool: 'mcp__notes__add', input: { deep } }
  expect(await it.one.judge({ meaning: plainMeaning(action), call: null, pins: async () => [] }, never)).toMatchObject({
    allow: false,
    why: expect.stringContaining('nested too deeply') as unknown,
  })
  expect(it.events).toEqual([])
})

test('what would be executed and cannot be read is refused, not asked', async () => {
  const it = make()
  const pins = () => Promise.reject(new Error('It cannot be read'))
  expect(await it.one.judge({ meaning: meaningOf(base.bash), call: null, pins }, never)).toEqual({
    allow: false,
    why: 'It cannot be read',
  })
})

test('of all that a session asks for, only so much is asked at once, and room is made by what is answered or over', async () => {
  const it = make({}, { whenLeft: 'stay open' })
  const ask = (path: string, signal = never()) => it.judge({ ...base.net, path }, { signal })
  const verdicts: unknown[] = []
  for (let n = 0; n < 200; n++) void ask(`/${n}`).then((verdict) => verdicts.push(verdict))
  await expect.poll(() => verdicts.length, { timeout: 20_000 }).toBe(150)
  expect(it.of('request.opened')).toHaveLength(50)
  expect(verdicts[0]).toMatchObject({ allow: false, why: expect.stringContaining('too much is being asked already: 50') })
  // What is asked already can still be joined.
  void ask('/0')
  await settled()
  expect(it.of('request.opened')).toHaveLength(50)
  await it.one.answer({
    request: it.of('request.opened')[0]!.id,
    answer: { decision: 'deny', reason: '' },
    actor: 'ann',
    grant: null,
  })
  void ask('/more')
  await expect.poll(() => it.of('request.opened').length, { timeout: 20_000 }).toBe(51)
  it.time.now += supervised.request_ms
  void ask('/later')
  await expect.poll(() => it.of('request.opened').length, { timeout: 20_000 }).toBe(52)
})

test('a person is asked only after the request is on the disk, and a request is not opened for who has gone', async () => {
  const it = make()
  void it.judge(base.bash)
  await settled()
  await settled()
  expect(it.flushed).toBe(1)
  await it.judge(base.write, { signal: AbortSignal.abort() })
  expect(it.of('request.opened')).toHaveLength(1)
})

test('the agent reads why it was denied', async () => {
  const it = make()
  const verdict = it.judge(base.bash)
  await settled()
  const [{ id }] = it.of('request.opened') as [EventBody<'request.opened'>]
  await it.one.answer({ request: id, answer: { decision: 'deny', reason: 'not today' }, actor: 'ann', grant: null })
  expect(await verdict).toEqual({ allow: false, why: 'ann denied it: not today' })
})

test('askAhead() keeps what is allowed for the action itself, which uses it once', async () => {
  const it = make({}, { whenLeft: 'stay open' })
  const asked = it.one.askAhead(plainMeaning(base.net), 'for a\nlook “at” it', never)
  await settled()
  const [opened] = it.of('request.opened')
  expect(opened!.why).toContain('The agent says: “for a␊look "at" it”')
  await it.allow(opened!.id, it.grant())
  expect(await asked).toEqual({ allow: true, by: `${opened!.id} allowed by ann` })
  // Asking again uses nothing up either, and asks nobody.
  expect(await it.one.askAhead(plainMeaning(base.net), 'other words', never)).toMatchObject({ allow: true })
  expect(it.of('grant.used')).toEqual([])
  expect(await happens(it, { ...base.net, path: '/b' })).toBe('asked')
  expect(await happens(it, base.net)).toBe('yes')
  expect(it.of('grant.used')).toHaveLength(1)
  expect(await happens(it, base.net)).toBe('asked')
})

test('askAhead() means the same whatever is said along with it, and goes by rules without asking', async () => {
  const it = make({}, { whenLeft: 'stay open' })
  for (const said of ['one', 'two']) void it.one.askAhead(plainMeaning(base.net), said, never)
  void it.judge(base.net)
  await settled()
  expect(it.of('request.opened')).toHaveLength(1)
  const rules = [
    { on: 'net', match: { host: 'example.org' }, effect: 'allow' },
    { on: 'net', match: { host: 'example.org', path: '/no' }, effect: 'deny', why: 'never' },
  ] as const
  const ruled = make({ policy: { ...supervised, rules: [...rules] } })
  const ahead = (path: string) => ruled.one.askAhead(plainMeaning({ ...base.net, path }), 'x', never)
  expect(await ahead('/a')).toMatchObject({ allow: true })
  expect(await ahead('/no')).toMatchObject({ allow: false, why: expect.stringContaining('never') as unknown })
  expect(ruled.events).toEqual([])
})

test('askAhead() gives up without taking the request back', async () => {
  const it = make({}, { whenLeft: 'stay open' })
  const asked = it.one.askAhead(plainMeaning(base.net), 'x', () => AbortSignal.timeout(1))
  expect(await asked).toMatchObject({ allow: false })
  expect(it.of('request.answered')).toEqual([])
  expect(it.of('request.left')).toEqual([])
  await it.one.answer({ request: it.of('request.opened')[0]!.id, answer: { decision: 'allow' }, actor: 'ann', grant: it.grant() })
  expect(await happens(it, base.net)).toBe('yes')
})
