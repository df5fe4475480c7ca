import { client } from '@anchorhold/protocol/client'
import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ended, reason, sessionsOf } from './both-doors.ts'
import { type Installation, installation, outputsOf, script, textOf, until } from './installation.ts'
import { upstream } from './upstream.ts'

let it: Installation
beforeAll(async () => {
  it = await installation({ config: 'spare_keeper: false\n', policy: 'default_autonomy: full\n' })
  mkdirSync(join(it.state, 'config/policies'))
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
})
const { session, request, last, archiveAll, afterTurn } = sessionsOf(() => it)
afterEach(archiveAll)

/** Writes a named policy as its owner does, and has it read. */
async function policy(name: string, text: string): Promise<void> {
  writeFileSync(join(it.state, `config/policies/${name}.yaml`), text)
  const { code, out, err } = await it.cli(['policy', 'reload'])
  expect([code, out, err]).toEqual([0, expect.any(String), ''])
}
const bash = (command: string) => ({ tool_use: 'Bash', input: { command } })
const usage = (log: readonly Event[]) => log.filter(({ type }) => type === 'usage')
const requests = (log: readonly Event[]) => log.filter(({ type }) => type === 'request.opened')
const endOf = (log: readonly Event[]) => log.findLast(ended)?.body

test('a model that is blocked starts no session, and one that is blocked later is called no more', async () => {
  await policy('models', 'blocked_models: ["other-*"]\n')
  const refused = await it.cli(['run', '--policy', 'models', '--model', 'other-1', 'say no'])
  expect(refused.code).not.toBe(0)
  expect(refused.err).toContain('Cannot use the model "other-1": the policy\'s blocked_models has "other-*"')
  const { session: one } = await it.run('say yes', { policy: 'models' })
  await policy('models', 'blocked_models: ["rehearsal-*"]\n')
  const log = await it.turn(one.id, 'say never')
  expect(usage(log)).toEqual([])
  expect(JSON.stringify(log)).toContain('blocked_models has')
})

test('an actor that has had its tokens of the minute is told so, and one that has had its calls waits for the next', async () => {
  await policy('tokens', 'rates: { tokens_per_minute: 1 }\n')
  const { session: one, events } = await it.run('say first', { policy: 'tokens' })
  expect(usage(events).length).toBeGreaterThan(0)
  const log = await it.turn(one.id, 'say second')
  expect(usage(log)).toEqual([])
  expect(JSON.stringify(endOf(log))).toContain('1 tokens a minute')

  await policy('calls', 'rates: { requests_per_minute: 1 }\n')
  const bot = await somebody('caller', 'calls')
  const { id } = await bot.createSession({ body: { prompt: { text: 'say first' } } })
  await it.event(id, 0, ended)
  const before = await last(id)
  await bot.prompt({ params: { id }, body: { text: 'say second' } })
  await it.event(id, before, ({ type }) => type === 'turn.started')
  // Others are served meanwhile, and it still waits.
  expect(textOf((await it.run('say meanwhile')).events)).toContain('meanwhile')
  expect(usage(await it.log(id))).toHaveLength(1)
  expect((await session(id)).state).toBe('working')
  await it.api.interrupt({ params: { id } })
  await it.event(id, before, ended)
})

test.each([
  ['repeats', [bash('echo x'), bash('echo x'), bash('echo x')], 'times in a row in the same way with the same result'],
  ['errors', [bash('exit 1'), bash('exit 2'), bash('exit 3')], '2 failed tool calls in a row'],
  ['turns', [bash('echo 1'), bash('echo 2'), bash('echo 3')], 'has gone through 2 rounds of model and tools in this turn'],
])('the breaker %s ends the turn and says why', async (name, calls, why) => {
  await policy('circles', `breakers: { ${name}: 2 }\n`)
  const { events } = await it.run(script(...calls, { text: 'never said' }), { policy: 'circles' })
  expect(endOf(events)).toMatchObject({ reason: 'breaker', why: expect.stringContaining(why) as string })
  expect(textOf(events)).not.toContain('never said')
})

/** An agent of the house with a policy of its own, and its way in. */
async function somebody(name: string, named: string) {
  expect((await it.cli(['user', 'add', name, '--role', 'agent', '--policy', named])).code).toBe(0)
  const { out } = await it.cli(['token', 'add', `${name}s`, '--user', name])
  return client({ url: it.url, headers: { authorization: `Bearer ${out.trim()}` } })
}

test('an agent has as many sessions at once as its policy says, and its keys are its own', async () => {
  await policy('few', 'max_concurrent: 2\nrequire_idempotency: true\n')
  const bot = await somebody('bot', 'few')
  await expect(bot.createSession({ body: {} })).rejects.toMatchObject({ code: 'bad_request' })
  const body = { idempotency_key: 'k' }
  const { id: mine } = await it.api.createSession({ body })
  const { id: its } = await bot.createSession({ body })
  expect(its).not.toBe(mine)
  // Asked for again it is the same one, and takes no more room.
  for (const [api, id] of [
    [it.api, mine],
    [bot, its],
  ] as const)
    expect((await api.createSession({ body })).id).toBe(id)
  await using model = await upstream(() => ({ text: 'x' }))
  await it.api.putProvider({
    params: { name: 'second' },
    body: { kind: 'local', base_url: model.url, credential: { from: 'none' }, use: false },
  })
  expect((await it.api.createSession({ body: { ...body, provider: 'second', model: 'm' } })).id).not.toBe(mine)
  await bot.createSession({ body: { idempotency_key: 'k2' } })
  await expect(bot.createSession({ body: { idempotency_key: 'k3' } })).rejects.toMatchObject({
    code: 'too_many',
    message: expect.stringContaining('the policy allows 2') as string,
  })
  await bot.archive({ params: { id: its } })
  await bot.createSession({ body: { idempotency_key: 'k3' } })
  // For prompts as well.
  const prompted = await it.api.prompt({ params: { id: mine }, body: { text: 'say once', idempotency_key: 'p' } })
  expect(await it.api.prompt({ params: { id: mine }, body: { text: 'say once', idempotency_key: 'p' } })).toMatchObject({
    id: prompted.id,
  })
})

test('a session that comes to the approval threshold asks, and goes on with what it is given', async () => {
  await policy('dear', 'budget: { approval_threshold_usd: 1 }\n')
  const { id } = await it.api.createSession({ body: { policy: 'dear', prompt: { text: 'say approved' } } })
  const asked = await request(id, 0)
  expect(asked.body.action).toMatchObject({ kind: 'spend' })
  expect(await session(id)).toMatchObject({ state: 'waiting', open_requests: 1 })
  expect(usage(await it.log(id))).toEqual([])
  expect((await it.cli(['allow', asked.body.id])).code).toBe(0)
  const log = await afterTurn(id, 0)
  expect(reason(log.findLast(ended)!)).toBe('done')
  expect(textOf(log)).toContain('approved')
  expect(log.flatMap((event) => (event.type === 'budget.raised' ? [event.body.node] : []))).toEqual([`approval/${id}`])
})

test('autonomy is narrowed and widened in mid-session, by those who may', async () => {
  const { session: one } = await it.run('run `echo free`')
  expect((await it.cli(['autonomy', one.id, 'restricted'])).code).toBe(0)
  const before = await last(one.id)
  await it.api.prompt({ params: { id: one.id }, body: { text: 'run `echo asked`' } })
  const asked = await request(one.id, before)
  await it.api.answerRequest({ params: { id: asked.body.id }, body: { decision: 'deny', reason: 'not so fast' } })
  expect(outputsOf(await afterTurn(one.id, before))).toContain('not so fast')
  await it.cli(['autonomy', one.id, 'full'])
  expect(requests(await it.turn(one.id, 'run `echo free again`'))).toEqual([])
  // An agent narrows its own, and widens nothing.
  await policy('watched', 'default_autonomy: supervised\n')
  const bot = await somebody('narrow', 'watched')
  const { id } = await bot.createSession({ body: {} })
  await expect(bot.changeSession({ params: { id }, body: { autonomy: 'full' } })).rejects.toMatchObject({ code: 'forbidden' })
})

test('a network that the policy takes away is gone from sessions that run, and comes back with it', async () => {
  const probe = 'run `ls /run/windows; curl -sS -m 20 http://127.0.0.2:9/ 2>&1 | head -c 300`'
  await policy('net', 'network_mode: proxy_only\n')
  const { session: one, events } = await it.run(probe, { policy: 'net' })
  expect(outputsOf(events)).toContain('net.sock')
  await policy('net', 'network_mode: none\n')
  await until(async () => !outputsOf(await it.turn(one.id, probe)).includes('net.sock'))
  await policy('net', 'network_mode: proxy_only\n')
  await until(async () => outputsOf(await it.turn(one.id, probe)).includes('"blocked"'))
}, 120_000)

test('observe, propose, lock: what was seen is then allowed, and nothing beside it', async () => {
  const seen = ['git status --short', 'ls -la', 'cat README.md']
  const workspace = () => it.workspace({ 'README.md': 'read me\n' })
  const work = script(...seen.map(bash), { text: 'done with it' })
  const { session: one, events } = await it.run(work, { workspace: workspace(), autonomy: 'supervised', observe: true })
  expect(requests(events)).toEqual([])
  expect(textOf(events)).toContain('done with it')
  const proposed = await it.cli(['policy', 'propose', one.id])
  expect([proposed.code, proposed.err]).toEqual([0, expect.any(String)])
  const file = join(it.state, 'proposed.yaml')
  writeFileSync(file, proposed.out)
  expect((await it.cli(['policy', 'check', file])).code).toBe(0)
  const tried = JSON.parse((await it.cli(['policy', 'backtest', file, '--json'])).out) as { sessions: { session: SessionId }[] }
  expect(tried.sessions.map(({ session: id }) => id)).not.toContain(one.id)
  await policy('locked', proposed.out)
  const again = await it.run(work, { workspace: workspace(), policy: 'locked', autonomy: 'supervised' })
  expect(requests(again.events)).toEqual([])
  expect(textOf(again.events)).toContain('done with it')
  const { id } = await it.api.createSession({
    body: { policy: 'locked', autonomy: 'supervised', prompt: { text: 'run `git push`' } },
  })
  expect((await request(id, 0)).body.action).toMatchObject({ kind: 'tool', input: { command: 'git push' } })
})
