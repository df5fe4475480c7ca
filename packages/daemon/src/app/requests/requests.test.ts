import type { Event, NewEvent, RequestAction } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { newRequestId, type RequestId, type SessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Runtime } from '../../processes/runtime.ts'
import { authorityFor, enforcePolicy } from '../policy/authority.ts'
import { createSession } from '../sessions/create-session.ts'
import { inbox } from './inbox.ts'
import { keeperStart } from '../keepers/keeper-start.ts'
import { change, interrupt, start, stop } from '../sessions/lifecycle.ts'
import { reconciler } from '../keepers/reconcile.ts'
import { answerRequest, getRequest, listRequests } from './requests.ts'
import { tellAsker, tellAskers } from './tell.ts'
import { owner, record, type TestParts, testParts } from '../test-parts.ts'

let parts: TestParts
beforeEach(() => {
  parts = testParts()
})
afterEach(() => parts[Symbol.dispose]())

const started: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const turn: NewEvent = { type: 'turn.started', body: { cause: 'prompt', prompt: null } }
const lost: NewEvent = { type: 'keeper.lost', body: { why: 'killed' } }
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))
const digest = 'a'.repeat(64)
const bash: RequestAction = { kind: 'tool', tool: 'Bash', input: { command: 'make' } }
const net: RequestAction = { kind: 'net', host: 'example.org', port: 443, method: null, path: null }
const spend: RequestAction = { kind: 'spend', model: 'm', needed_nanos: 500, left_nanos: 100, budget_nanos: 1000 }
const shortOf: RequestAction = { ...spend, short: true }
const question: RequestAction = { kind: 'question', questions: [] }
const rule = { on: 'tool', match: { tool: 'Bash', command: 'make *' }, effect: 'allow' } as const

/** A session whose agent waits for an answer. */
async function asking(action: RequestAction = bash, more: object = {}): Promise<{ id: RequestId; session: SessionId }> {
  const { id: session } = await createSession(parts, owner, { budget_micros: 1 })
  await settled()
  const id = newRequestId(randomBytes)
  record(parts, session, started, turn, { type: 'request.opened', body: { id, call: null, action, digest, ...more } })
  return { id, session }
}
/** The keeper is gone, as it is when it was killed. */
function loseKeeper(session: SessionId): void {
  parts.keepers.vanish(session)
  record(parts, session, lost)
}
/** A keeper that waits for the answer and journals that it has heard it. */
function hearing(): void {
  parts.keepers.handle = async (session, command) => {
    if (command.do !== 'answer') return null
    record(parts, session, { type: 'request.told', body: { id: command.request } })
    return { told: true }
  }
}
const of = <T extends Event['type']>(session: SessionId, type: T) =>
  parts.all(session).filter((event): event is Extract<Event, { type: T }> => event.type === type)
const rowOf = (session: SessionId) => parts.store.sessions.get(session)!

test('answerRequest() stores the answer before it tells the keeper that waits, and nobody is prompted', async () => {
  const { id, session } = await asking()
  hearing()
  const tellKeeper = parts.keepers.handle
  parts.keepers.handle = (of, command) => {
    if (command.do === 'answer') expect(getRequest(parts, owner, id).answer).toMatchObject({ decision: 'allow' })
    return tellKeeper(of, command)
  }
  const settledRequest = await answerRequest(parts, owner, id, { decision: 'allow' })
  expect(settledRequest).toMatchObject({
    answer: { decision: 'allow', scope: 'once' },
    answered_by: 'owner',
    answered_from: 'test',
  })
  expect(parts.keepers.commands.at(-1)?.command).toMatchObject({ do: 'answer', grant: { digest, scope: 'once', rule: null } })
  expect(of(session, 'prompt.queued')).toEqual([])
  expect(rowOf(session).state).toBe('working')
})

test('answerRequest() lets one of many answers win, and tells the others who, when and from which door', async () => {
  const { id, session } = await asking()
  const tries = await Promise.allSettled(
    Array.from({ length: 8 }, (_, index) =>
      answerRequest(parts, { ...owner, name: `person ${index}`, door: `door ${index}` }, id, {
        decision: index % 2 ? 'deny' : 'allow',
      }),
    ),
  )
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(of(session, 'request.answered')).toHaveLength(1)
  const refusal = tries.find((one) => one.status === 'rejected')!.reason as Failure
  expect(refusal).toMatchObject({ code: 'conflict' })
  expect(refusal.message).toMatch(/already settled at 1970\S+ \(door: door (\d)\): (allowed|denied) by person \1/)
})

test.each([
  ['allowed', { decision: 'allow' as const }, /owner allowed your use of the tool Bash .*"make"/],
  ['denied', { decision: 'deny' as const, reason: 'not on a Friday' }, /owner denied .*not on a Friday/s],
])('what is %s when whoever asked is gone is told by a prompt, once, and the session goes on', async (_, answer, words) => {
  const { id, session } = await asking()
  loseKeeper(session)
  expect(rowOf(session)).toMatchObject({ state: 'interrupted', open_requests: 1 })
  await answerRequest(parts, owner, id, answer)
  await settled()
  const [queued, ...more] = of(session, 'prompt.queued')
  expect(more).toEqual([])
  expect(queued!.body).toMatchObject({ mode: 'steer', actor: 'owner', text: expect.stringMatching(words) as string })
  expect(rowOf(session).state).toBe('ready')
  expect(parts.keepers.commands.at(-1)?.command).toMatchObject({ do: 'prompt', cause: 'resume' })
  await tellAskers(parts, null)
  expect(of(session, 'prompt.queued')).toHaveLength(1)
  expect(of(session, 'request.told')).toHaveLength(1)
})

test('what was answered and not told before the daemon died is told by the next one', async () => {
  const { id, session } = await asking()
  loseKeeper(session)
  record(parts, session, {
    type: 'request.answered',
    body: { id, answer: { decision: 'allow' }, actor: 'owner', door: 'test' },
  })
  await tellAskers(parts, null)
  expect(of(session, 'prompt.queued')).toHaveLength(1)
})

test('what is told by two at the same moment is told once', async () => {
  const { id, session } = await asking()
  loseKeeper(session)
  const answer = { decision: 'allow' as const, scope: 'once' as const }
  record(parts, session, { type: 'request.answered', body: { id, answer, actor: 'owner', door: 'http' } })
  await Promise.all([tellAsker(parts, id), tellAsker(parts, id), tellAskers(parts, null)])
  expect(of(session, 'prompt.queued')).toHaveLength(1)
  expect(of(session, 'request.told')).toHaveLength(1)
})

test('a keeper that is leaving hears nothing; the end of it is the time to tell', async () => {
  const { id, session } = await asking()
  parts.keepers.handle = () => Promise.reject(new Failure('wrong_state', 'leaving'))
  await answerRequest(parts, owner, id, { decision: 'allow' })
  expect(of(session, 'prompt.queued')).toEqual([])
  loseKeeper(session)
  await tellAsker(parts, id)
  expect(of(session, 'prompt.queued')).toHaveLength(1)
})

test('nobody is told again what a dead keeper may have heard, as long as it cannot be read', async () => {
  const { id, session } = await asking()
  loseKeeper(session)
  const { stands } = parts.keepers
  parts.keepers.stands = () => Promise.reject(new Failure('keeper_unavailable', 'Cannot read what it left'))
  await answerRequest(parts, owner, id, { decision: 'allow' })
  expect([of(session, 'request.told'), of(session, 'prompt.queued')]).toEqual([[], []])
  parts.keepers.stands = stands
  await tellAskers(parts, session)
  expect([of(session, 'request.told').length, of(session, 'prompt.queued').length]).toEqual([1, 1])
})

test('what is answered counts as asked until it is told: whoever is told of the session anew goes on waiting for it', async () => {
  const { id, session } = await asking(net)
  const asked = () => authorityFor(parts, session, 'gate').asked
  expect(asked()).toMatchObject([{ request: id, digest }])
  // The daemon that stored the answer dies before it has told the gate.
  parts.gate.handle = () => Promise.reject(new Failure('gate_unavailable', 'gone'))
  await answerRequest(parts, owner, id, { decision: 'allow' })
  expect(asked()).toMatchObject([{ request: id, digest }])
  expect(authorityFor(parts, session, 'keeper').asked).toEqual([])
  record(parts, session, { type: 'request.told', body: { id } })
  expect(asked()).toEqual([])
})

test('whoever came back by itself and has used what was allowed is not sent to do it again', async () => {
  const { id, session } = await asking(net)
  parts.gate.handle = () => Promise.reject(new Failure('gate_unavailable', 'gone'))
  await answerRequest(parts, owner, id, { decision: 'allow' })
  // Its call came again to a gate that had heard of the grant, and nobody waits there; then everything died.
  record(parts, session, { type: 'grant.used', body: { request: id, digest, call: null } })
  loseKeeper(session)
  parts.gate.handle = async () => ({ told: false })
  await tellAsker(parts, id)
  expect(of(session, 'request.told')).toHaveLength(1)
  expect(of(session, 'prompt.queued')).toEqual([])
  expect(rowOf(session).state).toBe('interrupted')
})

test('nobody is started to hear of an answer or of a policy: a keeper that is known may be on its way out for good', async () => {
  const { id, session } = await asking()
  await parts.keepers.ensure(session)
  const { starts } = parts.keepers
  // Its link is closed, and its lock is not free yet.
  Object.assign(parts.keepers, { stands: async () => (parts.keepers.vanish(session), false) })
  await enforcePolicy(parts, session)
  await parts.keepers.ensure(session)
  await stop(parts, owner, session)
  await tellAsker(parts, id)
  expect(parts.keepers.starts).toBe(starts + 1)
})

test('a session that was ended gets no keeper, whoever asks for one', async () => {
  const { session } = await asking()
  await stop(parts, owner, session)
  await expect(keeperStart(parts, {} as Runtime, Promise.resolve(null), session)).rejects.toThrow('it is stopped')
})

test('a grant for once goes to the next keeper until it is used; it is given to no other session', async () => {
  const { id, session } = await asking(bash, { pins: [{ path: '/x', sha256: digest }] })
  const other = await asking()
  loseKeeper(session)
  await answerRequest(parts, owner, id, { decision: 'allow' })
  expect(authorityFor(parts, session, 'keeper').grants).toMatchObject([
    { request: id, digest, scope: 'once', actor: 'owner', pins: [{ path: '/x' }] },
  ])
  expect(authorityFor(parts, session, 'gate').grants).toEqual([])
  expect(authorityFor(parts, other.session, 'keeper')).toMatchObject({ grants: [], asked: [{ request: other.id }] })
  // Another session cannot use it up either.
  record(parts, other.session, { type: 'grant.used', body: { request: id, digest, call: null } })
  expect(authorityFor(parts, session, 'keeper').grants).toHaveLength(1)
  record(parts, session, { type: 'grant.used', body: { request: id, digest, call: null } })
  expect(authorityFor(parts, session, 'keeper').grants).toEqual([])
})

test('a grant expires, and one for the session does not', async () => {
  const once = await asking()
  const always = await asking(bash, { rule })
  await answerRequest(parts, owner, once.id, { decision: 'allow' })
  await answerRequest(parts, owner, always.id, { decision: 'allow', scope: 'session' })
  parts.at += 25 * 60 * 60 * 1000
  expect(authorityFor(parts, once.session, 'keeper').grants).toEqual([])
  expect(authorityFor(parts, always.session, 'keeper').grants).toMatchObject([{ scope: 'session', rule, expires_at: null }])
})

test.each([
  ['a rule where none would settle it', bash, { rule_refused: 'rule: ask Bash' }, 'rule', /rule: ask Bash/],
  ['a question for the session', question, {}, 'session', /it is a question/],
] as const)('answerRequest() refuses to make %s, and the request stays open', async (_, action, more, scope, words) => {
  const { id } = await asking(action, more)
  await expect(answerRequest(parts, owner, id, { decision: 'allow', scope })).rejects.toThrow(words)
  expect(getRequest(parts, owner, id).answer).toBeNull()
})

test('answerRequest() with later leaves the request open, says so, and parks the keeper', async () => {
  const { id, session } = await asking()
  expect(await answerRequest(parts, owner, id, { decision: 'later' })).toMatchObject({ answer: null, deferred: true })
  expect(parts.keepers.commands.at(-1)?.command).toMatchObject({ do: 'park' })
  parts.keepers.vanish(session)
  record(parts, session, { type: 'turn.ended', body: { reason: 'waiting', why: null, duration_ms: 1 } })
  record(parts, session, { type: 'keeper.left', body: { why: 'parked', failed: false } })
  expect(rowOf(session)).toMatchObject({ state: 'waiting', open_requests: 1 })
  await answerRequest(parts, owner, id, { decision: 'allow' })
  await settled()
  expect(rowOf(session).state).toBe('ready')
  expect(of(session, 'prompt.queued')).toHaveLength(1)
})

test('a request cannot be answered when its time is over, and the agent is told', async () => {
  const { id, session } = await asking(bash, { expires_at: 5000 })
  parts.at = 6000
  await expect(answerRequest(parts, owner, id, { decision: 'allow' })).rejects.toThrow(
    /already settled at 1970\S+: expired: nobody answered in time/,
  )
  loseKeeper(session)
  await tellAskers(parts, null)
  expect(of(session, 'prompt.queued')[0]?.body.text).toContain('not answered in time')
  // That time went by does not decide that a crashed session goes on.
  expect(rowOf(session).state).toBe('interrupted')
  expect(authorityFor(parts, session, 'keeper').grants).toEqual([])
})

test('stop() withdraws what is open, and what was answered is told when it is started again', async () => {
  const { id, session } = await asking()
  const second = newRequestId(randomBytes)
  record(parts, session, { type: 'request.opened', body: { id: second, call: null, action: bash, digest: 'b'.repeat(64) } })
  parts.keepers.handle = () => Promise.reject(new Failure('wrong_state', 'leaving'))
  await answerRequest(parts, owner, id, { decision: 'allow' })
  await stop(parts, owner, session)
  expect(getRequest(parts, owner, second).answer).toMatchObject({ decision: 'withdrawn' })
  // A keeper that has not heard of it yet may still ask.
  const late = newRequestId(randomBytes)
  record(parts, session, { type: 'request.opened', body: { id: late, call: null, action: bash, digest: 'c'.repeat(64) } })
  expect(listRequests(parts, owner, { openOnly: true, session })).toEqual([])
  await tellAskers(parts, null)
  expect(of(session, 'prompt.queued')).toEqual([])
  start(parts, owner, session)
  await settled()
  expect(of(session, 'prompt.queued')).toHaveLength(1)
})

test('interrupt() takes back what an earlier turn asked for', async () => {
  const { id, session } = await asking()
  record(parts, session, { type: 'turn.ended', body: { reason: 'waiting', why: null, duration_ms: 1 } })
  parts.keepers.vanish(session)
  await interrupt(parts, owner, session, { dropQueued: false })
  expect(getRequest(parts, owner, id)).toMatchObject({ answer: { decision: 'withdrawn' }, answered_by: 'owner' })
  expect(rowOf(session)).toMatchObject({ state: 'ready', open_requests: 0 })
})

test('a turn that ends by itself takes back what it asked and gave up at the gate, and nothing of the turns before', async () => {
  const { id: parked, session } = await asking(net)
  const ended = (reason: 'waiting' | 'done', more: object = {}): NewEvent => ({
    type: 'turn.ended',
    body: { reason, why: null, duration_ms: 1, ...more },
  })
  const [mine, cut, background] = [newRequestId(randomBytes), newRequestId(randomBytes), newRequestId(randomBytes)]
  const left = (id: RequestId): NewEvent => ({ type: 'request.left', body: { id } })
  const open = (id: RequestId, of: string): NewEvent => ({
    type: 'request.opened',
    body: { id, call: null, action: net, digest: of.repeat(64) },
  })
  // Of a gate that dies nobody can tell who had given up.
  record(parts, session, ended('waiting'), turn, open(mine, 'b'), open(cut, 'd'), left(mine), left(parked), ended('done'))
  expect(getRequest(parts, owner, cut).answer).toBeNull()
  expect(getRequest(parts, owner, parked).answer).toBeNull()
  expect(getRequest(parts, owner, mine).answer).toMatchObject({ decision: 'withdrawn' })
  record(parts, session, turn, open(background, 'c'), left(background), ended('done', { tasks: 1 }))
  expect(getRequest(parts, owner, background).answer).toBeNull()
  // Whoever waits at the gate hears of it.
  await tellAskers(parts, null)
  expect(parts.gate.commands).toContainEqual(expect.objectContaining({ do: 'answer', request: mine }))
  expect(of(session, 'prompt.queued')).toEqual([])
})

test('what a keeper takes back too late does not undo an answer', async () => {
  const { id, session } = await asking()
  hearing()
  await answerRequest(parts, owner, id, { decision: 'allow' })
  const withdrawn: NewEvent = {
    type: 'request.answered',
    body: { id, answer: { decision: 'withdrawn' }, actor: 'keeper', door: 'none' },
  }
  parts.store.events.append(session, `keeper/${session}`, [{ n: 1, at: 1, event: withdrawn }])
  expect(getRequest(parts, owner, id)).toMatchObject({ answer: { decision: 'allow' } })
  expect(of(session, 'request.answered')).toHaveLength(1)
  expect(rowOf(session).open_requests).toBe(0)
})

test('inbox() looks again soon where it could not look, as on a full disk', async () => {
  const overdue = vi.spyOn(parts.store.requests, 'overdue').mockImplementationOnce(() => {
    throw new Failure('storage_unavailable', 'the disk is full')
  })
  const timers: (() => void)[] = []
  const box = inbox(parts, {
    now: Date.now,
    elapsed: () => performance.now(),
    soon: (then) => then(),
    after: (_, then) => (timers.push(then), () => {}),
  })
  box.look()
  await settled()
  expect(timers).toHaveLength(1)
  timers[0]!()
  await settled()
  expect(overdue).toHaveBeenCalledTimes(2)
  box.close()
})

test('inbox() parks what waits too long, closes what nobody answers, and tells', async () => {
  vi.useFakeTimers()
  try {
    parts.now = Date.now
    const box = inbox(parts, {
      now: Date.now,
      elapsed: () => performance.now(),
      soon: (then) => void setImmediate(then),
      after: (ms, then) => {
        const timer = setTimeout(then, ms)
        return () => clearTimeout(timer)
      },
    })
    const { id: session } = await createSession(parts, owner, {})
    await vi.advanceTimersByTimeAsync(0)
    const id = newRequestId(randomBytes)
    const expires_at = Date.now() + 24 * 60 * 60 * 1000
    record(parts, session, started, turn, { type: 'request.opened', body: { id, call: null, action: bash, digest, expires_at } })
    box.look()
    const parks = () => parts.keepers.commands.filter(({ command }) => command.do === 'park').length
    await vi.advanceTimersByTimeAsync(14 * 60 * 1000)
    expect(parks()).toBe(0)
    await vi.advanceTimersByTimeAsync(2 * 60 * 1000)
    expect(parks()).toBe(1)
    parts.keepers.vanish(session)
    record(parts, session, { type: 'turn.ended', body: { reason: 'waiting', why: null, duration_ms: 1 } })
    record(parts, session, { type: 'keeper.left', body: { why: 'parked', failed: false } })
    box.look()
    await vi.advanceTimersByTimeAsync(25 * 60 * 60 * 1000)
    expect(getRequest(parts, owner, id).answer).toEqual({ decision: 'expired' })
    expect(of(session, 'prompt.queued')).toHaveLength(1)
    box.close()
  } finally {
    vi.useRealTimers()
  }
})

test('answerRequest() raises the budget by what a held call needs in the transaction of the answer, also when the call is gone', async () => {
  const { id, session } = await asking(shortOf)
  record(parts, session, { type: 'session.changed', body: { budget_nanos: 100, actor: 'x' } })
  parts.gate.handle = (command) => {
    if (command.do === 'price') throw new Failure('not_found', 'gone')
    if (command.do === 'answer') expect(command).toMatchObject({ budget_nanos: 500 })
    return command.do === 'answer' ? { told: false } : null
  }
  await answerRequest(parts, owner, id, { decision: 'allow' })
  expect(rowOf(session).budgetNanos).toBe(500)
  expect(of(session, 'prompt.queued')).toHaveLength(1)
})

test.each([
  ['more money', { budget_micros: 2 }, 'allow'],
  ['no limit any more', { budget_micros: null }, 'allow'],
  ['the same', { budget_micros: 1 }, undefined],
  ['less', { budget_micros: 0 }, undefined],
] as const)(
  'change() to %s answers a call that the money did not hold, and none that a rule asks about',
  async (_, input, decision) => {
    const { id: ruled, session } = await asking(spend)
    const short = newRequestId(randomBytes)
    record(parts, session, { type: 'request.opened', body: { id: short, call: null, action: shortOf, digest: 'b'.repeat(64) } })
    await change(parts, owner, session, input)
    expect(getRequest(parts, owner, ruled).answer).toBeNull()
    expect(getRequest(parts, owner, short).answer?.decision).toBe(decision)
  },
)

test('change() leaves a call open that a rule has a fresh proof for, and asks no budget of what a rule asks about', async () => {
  parts.policies.addRule({ on: 'spend', match: { model: 'm' }, effect: 'ask', step_up: true }, { actor: 'ann', door: 'test' })()
  const { id: short, session } = await asking(shortOf)
  await change(parts, { ...owner, provenAt: null }, session, { budget_micros: 2 })
  expect(getRequest(parts, owner, short).answer).toBeNull()
  const { id: ruled, session: other } = await asking({ ...spend, needed_nanos: 5000 })
  await answerRequest(parts, owner, ruled, { decision: 'allow' })
  expect(rowOf(other).budgetNanos).toBe(1000)
})

test('answerRequest() with a rule adds it to the policy of the house, once, and the agent goes on', async () => {
  const { id, session } = await asking(bash, { rule })
  hearing()
  const tries = [1, 2, 3].map(() => answerRequest(parts, owner, id, { decision: 'allow', scope: 'rule' }))
  expect((await Promise.allSettled(tries)).filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(parts.policies.house().settings.rules.map((one) => one.rule)).toEqual([rule])
  expect(parts.keepers.commands.at(-1)?.command).toMatchObject({ do: 'answer', grant: { scope: 'once', rule: null } })
  expect(authorityFor(parts, session, 'keeper').policy.rules).toMatchObject([rule])
})

test('policyChanged() has keeper and gate of every live session go by the policy that is in force now', async () => {
  const { session } = await asking()
  parts.policies.addRule(rule, { actor: 'ann', door: 'test' })()
  reconciler(parts, { look() {} }).policyChanged()
  await settled()
  const policy = expect.objectContaining({ rules: [expect.objectContaining(rule)] }) as unknown
  expect(parts.keepers.commands.at(-1)).toEqual({ session, command: { do: 'policy', policy } })
  expect(parts.gate.commands).toContainEqual({ do: 'policy', session, policy })
})
