import { runs } from '@anchorhold/protocol/test-runs'
import { after, atBirth, type Standing, takesUp } from '@anchorhold/core/session-states'
import { systemClock } from '@anchorhold/link/clock'
import { memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox } from '@anchorhold/link/outbox'
import type { Pin } from '@anchorhold/protocol/actions'
import { type EventBody, type NewEvent, parseNewEvent, type RequestAnswer } from '@anchorhold/protocol/events'
import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { newPromptId, type PromptId, type RequestId } from '@anchorhold/protocol/ids'
import type { CheckedOut } from '@anchorhold/protocol/workspace'
import type { Grant } from '@anchorhold/protocol/authority'
import type { Settlement } from '@anchorhold/protocol/link'
import fc from 'fast-check'
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { fakeAgents, type FakeAgentsOptions } from './agents/fake-agent.ts'
import { fakeCells, type FakeCellsOptions } from './cells/fake-cell.ts'
import { fakeStart } from './fake-start.ts'
import { keeper, type Keeper, type KeeperOptions } from './keeper.ts'
import { noVeil, type Veil } from './repo-filter/veil.ts'

const start = fakeStart()
const plan = { kind: 'plan', plan: 'Do it' } as const
const never = () => new Promise<never>(() => {})

type Made = {
  readonly start?: Parameters<typeof fakeStart>[0]
  readonly agents?: FakeAgentsOptions
  readonly cells?: FakeCellsOptions
  readonly settle?: () => Promise<Settlement | null>
  readonly veil?: Veil
  readonly pins?: readonly Pin[]
  readonly checkedOut?: () => Promise<CheckedOut | null>
  readonly furnish?: Partial<KeeperOptions['furnish']>
}

/** A keeper over a memory disk, with a fake cell and a fake agent that the test speaks for. */
async function make(made: Made = {}) {
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  const agents = fakeAgents(made.agents)
  const cells = fakeCells(made.cells)
  const one = keeper({
    start: fakeStart(made.start),
    cells,
    agents,
    toolchains: [],
    veil: made.veil ?? noVeil,
    outbox,
    live: () => {},
    settle: made.settle ?? (async () => null),
    pinFiles: async () => made.pins ?? [],
    furnish: { agent: async () => {}, programs: async () => {}, ...made.furnish },
    checkedOut: made.checkedOut ?? (async () => null),
    agentBeatMs: 5000,
    clock: systemClock,
    random: randomBytes,
    die: (error) => {
      throw error
    },
  })
  const events = async (): Promise<NewEvent[]> => {
    await settled()
    return (await outbox.read(0, 10_000)).map(({ type, body }) => parseNewEvent(type, body))
  }
  return {
    one,
    outbox,
    agents,
    cells,
    events,
    types: async () => (await events()).map(({ type }) => type),
    ended: async () =>
      (await events()).flatMap((event) => (event.type === 'turn.ended' ? [[event.body.reason, event.body.why]] : [])),
    prompt: (id: PromptId, mode: 'steer' | 'queue' = 'steer') =>
      one.handle({ do: 'prompt', id, text: 'Hello', images: [], mode, cause: 'prompt' }),
    answer: (request: RequestId, answer: RequestAnswer = { decision: 'allow' }) =>
      one.handle({ do: 'answer', request, answer, actor: 'owner', grant: null }),
    async request(): Promise<RequestId> {
      const opened = (await events()).findLast((event) => event.type === 'request.opened')
      return opened!.body.id
    },
    /** The agent takes up what it was given and is done with it. */
    async work(prompts: readonly PromptId[] = []) {
      agents.heard.state('running')
      agents.heard.result({ ok: true, why: null, prompts })
      agents.heard.state('idle')
      await settled()
    },
  }
}
const newId = () => newPromptId(randomBytes)
/** Lets everything happen that needs no time to pass. */
const settled = () => vi.advanceTimersByTimeAsync(0)

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

test('keeper() journals a prompt, its turn and its end, in that order', async () => {
  const { prompt, work, types, agents } = await make()
  const id = newId()
  expect(await prompt(id)).toEqual({ had: false })
  await work([id])
  expect(await types()).toEqual(['keeper.started', 'prompt', 'turn.started', 'turn.ended'])
  expect(agents.prompts.map((one) => one.id)).toEqual([id])
})

test.each([
  ['when nobody has asked it yet', {}, ['agent', 'start', 'programs', 'prompt']],
  ['that takes up its turn by itself', { agent: { take_up: true } }, ['agent', 'programs', 'start', 'prompt']],
  ['that loads settings of its workspace', { agent: { workspace_settings: 'load' } }, ['agent', 'programs', 'start', 'prompt']],
] as const)(
  'keeper() has everything written that an agent and its programs find before they look, %s',
  async (_, more, order) => {
    const seen: string[] = []
    const note = (what: string) => async () => void seen.push(what)
    const { prompt, one, agents } = await make({
      start: more,
      furnish: { agent: note('agent'), programs: note('programs') },
      agents: { starting: note('start') },
    })
    await prompt(newId())
    if (agents.prompts.length > 0) seen.push('prompt')
    expect(seen).toEqual(order)
    await one.handle({ do: 'leave', why: 'done' })
  },
)

test('keeper() lets nobody into a cell whose programs do not find all that they need yet', async () => {
  const written = Promise.withResolvers<void>()
  const { one } = await make({ furnish: { programs: () => written.promise } })
  let isIn = false
  const looked = one.handle({ do: 'commands' }).then(() => (isIn = true))
  await settled()
  expect(isIn).toBe(false)
  written.resolve()
  await looked
  expect(isIn).toBe(true)
})

test('keeper() says that what the agent told is stored when it is on the disk', async () => {
  const { agents, outbox, types } = await make()
  await settled()
  for (const message of ['a', 'b']) agents.heard.event({ type: 'notice', body: { level: 'info', code: 'x', message } })
  await agents.heard.stored()
  expect([outbox.last, outbox.written]).toEqual([3, 3])
  expect(await types()).toEqual(['keeper.started', 'notice', 'notice'])
})

test('keeper() hands a prompt to the agent once, however often it is delivered', async () => {
  const { prompt, agents, types } = await make()
  const id = newId()
  await Promise.all([prompt(id), prompt(id)])
  expect(await prompt(id)).toEqual({ had: true })
  expect(agents.prompts).toHaveLength(1)
  expect((await types()).filter((type) => type === 'prompt')).toHaveLength(1)
})

test('keeper() gives a steering prompt to the running turn, and a queued one to the next', async () => {
  const { prompt, work, agents, types } = await make()
  const [first, queued, steering] = [newId(), newId(), newId()]
  await prompt(first)
  await prompt(queued, 'queue')
  expect(agents.prompts.map(({ id }) => id)).toEqual([first])
  await prompt(steering)
  expect(agents.prompts.map(({ id }) => id)).toEqual([first, steering])
  await work([first, steering])
  expect(agents.prompts.map(({ id }) => id)).toEqual([first, steering, queued])
  expect((await types()).filter((type) => type === 'turn.started')).toHaveLength(2)
})

test('keeper() holds a prompt that comes while it starts, and hands it on when the agent stands', async () => {
  const standing = Promise.withResolvers<void>()
  const { prompt, agents, types } = await make({ cells: { standing: () => standing.promise } })
  const taken = prompt(newId())
  await settled()
  expect(agents.starts).toHaveLength(0)
  standing.resolve()
  await taken
  expect(agents.prompts).toHaveLength(1)
  expect(await types()).toEqual(['keeper.started', 'prompt', 'turn.started'])
})

const dropped = { why: 'Dropped by owner', actor: 'owner', door: 'test' }

test('keeper() drops what the agent was not given, journals it, and never hands it on', async () => {
  const { one, prompt, work, agents, events } = await make()
  const [first, queued, kept, unheard] = [newId(), newId(), newId(), newId()]
  await prompt(first)
  await prompt(queued, 'queue')
  await prompt(kept, 'queue')
  await one.handle({ do: 'drop', prompts: [first, queued, unheard], ...dropped })
  await one.handle({ do: 'drop', prompts: [queued], ...dropped })
  expect(await prompt(unheard)).toEqual({ had: true })
  await work([first])
  await work([kept])
  expect(agents.prompts.map(({ id }) => id)).toEqual([first, kept])
  const told = (await events()).flatMap((event) => (event.type === 'prompt.dropped' ? [event.body] : []))
  expect(told).toEqual([queued, unheard].map((id) => ({ id, ...dropped })))
})

test('keeper() drops what comes before its agent stands', async () => {
  const standing = Promise.withResolvers<void>()
  const { one, prompt, agents } = await make({ cells: { standing: () => standing.promise } })
  const id = newId()
  const taken = prompt(id)
  await one.handle({ do: 'drop', prompts: [id], ...dropped })
  standing.resolve()
  await taken
  await settled()
  expect(agents.prompts).toEqual([])
})

test.each(['agent that does not stand yet', 'agent whose repository is still being looked at'])(
  'keeper() interrupts what it is about to give to an %s',
  async (which) => {
    const held = Promise.withResolvers<void>()
    const { one, prompt, agents, ended } = await make(
      which.includes('stand') ? { cells: { standing: () => held.promise } } : { checkedOut: () => held.promise.then(() => null) },
    )
    const taken = prompt(newId())
    await settled()
    const interrupted = one.handle({ do: 'interrupt' })
    await settled()
    held.resolve()
    await Promise.all([taken, interrupted])
    expect(agents.interrupts).toBe(1)
    agents.heard.state('idle')
    expect(await ended()).toEqual([['interrupted', 'Asked to stop']])
  },
)

/** What the end of the turn says that the agent had not read. */
const leftOf = (events: readonly NewEvent[]) =>
  events.flatMap((event) => (event.type === 'turn.ended' ? [event.body.left ?? []] : []))

test.each([
  ['parked', (one: Keeper) => one.handle({ do: 'park', why: 'Nobody answered' })],
  ['shut down', (one: Keeper) => one.handle({ do: 'leave', why: 'Anchorhold was shut down', unread: 'kept' })],
  ['cut by its time limit', async () => void (await vi.advanceTimersByTimeAsync(5000))],
])('keeper() keeps a steering prompt that the agent has not read when its turn is %s', async (_, cut) => {
  const { one, prompt, agents, events } = await make({ start: { policy: { timeout_ms: 5000 } } })
  const [first, steering] = [newId(), newId()]
  await prompt(first)
  agents.heard.event({ type: 'text', body: { block: 'b', text: 'I begin', parent: null } })
  await prompt(steering)
  await cut(one)
  agents.heard.state('idle')
  expect(leftOf(await events())).toEqual([[steering]])
})

test('keeper() keeps the prompt of a turn that is parked before its agent has said anything', async () => {
  const { one, prompt, agents, events } = await make()
  const first = newId()
  await prompt(first)
  await one.handle({ do: 'park', why: 'Nobody answered' })
  agents.heard.state('idle')
  expect(leftOf(await events())).toEqual([[first]])
})

test.each([
  ['interrupts it', { do: 'interrupt' }],
  ['stops the session', { do: 'leave', why: 'Stopped by owner' }],
])('keeper() lets go of what the agent has not read when a person %s', async (_, command) => {
  const { one, prompt, agents, events } = await make()
  await prompt(newId())
  await prompt(newId())
  await one.handle(command)
  agents.heard.state('idle')
  expect(leftOf(await events())).toEqual([[]])
})

test('keeper() that goes down with the machine leaves its turn as a crash does, to be taken up, and has not failed', async () => {
  const { one, prompt, agents, events } = await make()
  await prompt(newId())
  await one.goDown('The keeper got SIGTERM')
  expect(agents.interrupts).toBe(0)
  const told = await events()
  expect(told.slice(-2)).toMatchObject([
    { type: 'turn.ended', body: { reason: 'crashed', why: 'The keeper got SIGTERM' } },
    { type: 'keeper.left', body: { failed: false } },
  ])
  let standing: Standing = { ...atBirth, onCrash: 'resume' }
  for (const event of told) standing = after(standing, event).standing
  expect([standing.state, takesUp(standing)]).toEqual(['interrupted', true])
})

test('keeper() that goes down before any turn has not failed', async () => {
  const { one, events } = await make()
  await settled()
  await one.goDown('The keeper got SIGTERM')
  expect((await events()).at(-1)).toMatchObject({ type: 'keeper.left', body: { failed: false } })
})

test.each([
  ['says so when the agent does not know of the turns before', { turns: 2 }, false, ['memory_lost']],
  ['says nothing when the agent goes on', { turns: 2 }, true, []],
  ['says nothing of a first turn that was cut short before anything was written', { turns: 1, unfinished: true }, false, []],
] as const)('keeper() %s', async (_, { turns, ...cut }, resumed, codes) => {
  const unfinished = 'unfinished' in cut ? [{ id: newId(), text: 'Hello', images: [] }] : []
  const { events } = await make({ start: { agent: { resume: true, turns, unfinished } }, agents: { resumed } })
  const told = await events()
  expect(told.flatMap((event) => (event.type === 'notice' ? [event.body.code] : []))).toEqual(codes)
  expect(told.find((event) => event.type === 'keeper.started')?.body).toMatchObject({ resumed })
})

test('keeper() tells whoever waits how a request was settled, once, however often it hears it', async () => {
  const { prompt, agents, answer, request, types } = await make()
  await prompt(newId())
  const answered = agents.heard.ask(plan, 'call', new AbortController().signal)
  const id = await request()
  expect(await Promise.all([answer(id), answer(id)])).toEqual([{ told: true }, { told: true }])
  expect(await answered).toMatchObject({ decision: 'allow' })
  expect(await answer(id)).toEqual({ told: true })
  expect((await types()).filter((type) => type === 'request.told')).toHaveLength(1)
  // Whether it was the first answer is the daemon's to say.
  expect(await types()).not.toContain('request.answered')
})

test('keeper() withdraws a request that the agent no longer asks', async () => {
  const { prompt, agents, answer, request, events } = await make()
  await prompt(newId())
  const end = new AbortController()
  const answered = agents.heard.ask(plan, null, end.signal)
  const id = await request()
  end.abort()
  expect(await answered).toMatchObject({ decision: 'withdrawn' })
  await settled()
  expect(await answer(id)).toEqual({ told: false })
  expect((await events()).at(-1)).toMatchObject({ type: 'request.answered', body: { answer: { decision: 'withdrawn' } } })
})

test('keeper() opens no request for an agent that has stopped asking before', async () => {
  const { prompt, agents, types } = await make()
  await prompt(newId())
  expect(await agents.heard.ask(plan, null, AbortSignal.abort())).toMatchObject({ decision: 'withdrawn' })
  expect(await types()).not.toContain('request.opened')
})

test('keeper() withdraws an open request when the turn is interrupted', async () => {
  const { one, prompt, agents, types, ended } = await make()
  await prompt(newId())
  const answered = agents.heard.ask(plan, null, new AbortController().signal)
  await settled()
  await one.handle({ do: 'interrupt' })
  expect(await answered).toMatchObject({ decision: 'withdrawn' })
  agents.heard.state('idle')
  expect((await types()).slice(-3)).toEqual(['request.opened', 'request.answered', 'turn.ended'])
  expect(await ended()).toEqual([['interrupted', 'Asked to stop']])
})

const supervised = { policy: { ...defaultPolicy, autonomy: 'supervised' as const }, grants: [], asked: [] }
const grantOf = (opened: EventBody<'request.opened'>, more: Partial<Grant> = {}): Grant => ({
  request: opened.id,
  digest: opened.digest!,
  pins: opened.pins ?? [],
  scope: 'once',
  rule: null,
  expires_at: null,
  actor: 'owner',
  ...more,
})
const openedIn = (events: readonly NewEvent[]) => events.flatMap((event) => (event.type === 'request.opened' ? [event.body] : []))

test('keeper() asks for a tool, and writes down that its grant is used before the tool runs', async () => {
  const { one, prompt, agents, events, types } = await make({ start: { policy: { authority: supervised } } })
  await prompt(newId())
  const verdict = agents.heard.mayRun('Bash', { command: 'make' }, 'call', new AbortController().signal)
  const [opened] = openedIn(await events())
  expect(opened).toMatchObject({ call: 'call', action: { tool: 'Bash', input: { command: 'make' } }, rule: { effect: 'allow' } })
  expect(await one.handle({ do: 'ping' })).toMatchObject({ state: 'waiting' })
  const answer = { do: 'answer', request: opened!.id, answer: { decision: 'allow' }, actor: 'owner', grant: grantOf(opened!) }
  expect(await one.handle(answer)).toEqual({ told: true })
  expect(await verdict).toMatchObject({ allow: true })
  expect((await types()).slice(-4)).toEqual(['request.opened', 'request.told', 'grant.used', 'decision'])
})

test('keeper() leaves what it asked open when it is parked, and ends its turn as waiting', async () => {
  const { one, prompt, agents, events, ended } = await make({ start: { policy: { authority: supervised } } })
  await prompt(newId())
  const end = new AbortController()
  const verdict = agents.heard.mayRun('Bash', { command: 'make' }, 'call', end.signal)
  const question = agents.heard.ask(plan, null, end.signal)
  await settled()
  const parked = one.handle({ do: 'park', why: 'Nobody has answered yet' })
  // The agent that is interrupted stops asking.
  end.abort()
  await parked
  expect([await verdict, await question]).toMatchObject([{ allow: false }, { decision: 'withdrawn' }])
  expect(await ended()).toEqual([['waiting', 'Nobody has answered yet']])
  const log = await events()
  expect(openedIn(log)).toHaveLength(2)
  expect(log.map(({ type }) => type)).not.toContain('request.answered')
})

test.each([
  ['leaves', (one: Pick<Keeper, 'handle'>) => one.handle({ do: 'leave', why: 'Anchorhold was shut down' })],
  ['goes down with the machine', (one: Pick<Keeper, 'goDown'>) => one.goDown('The keeper got SIGTERM')],
  ['loses its agent', (_: unknown, gone: () => void) => Promise.resolve(gone())],
])('keeper() takes nothing back when it %s', async (_, end) => {
  const { one, prompt, agents, types } = await make({ start: { policy: { authority: supervised } } })
  await prompt(newId())
  void agents.heard.mayRun('Bash', { command: 'make' }, 'call', new AbortController().signal)
  await settled()
  await end(one, () => agents.heard.gone('it fell over'))
  await one.left
  expect(await types()).toContain('request.opened')
  expect(await types()).not.toContain('request.answered')
})

test('keeper() lets what waits go on when a new policy allows it, and takes the question back', async () => {
  const { one, prompt, agents, events } = await make({ start: { policy: { authority: supervised } } })
  await prompt(newId())
  const verdict = agents.heard.mayRun('Bash', { command: 'make' }, 'call', new AbortController().signal)
  await settled()
  await one.handle({ do: 'policy', policy: defaultPolicy })
  expect(await verdict).toMatchObject({ allow: true })
  expect((await events()).at(-2)).toMatchObject({ type: 'request.answered', body: { answer: { decision: 'withdrawn' } } })
})

test('keeper() lets an agent go that does not answer an interrupt', async () => {
  const { one, prompt, ended, types } = await make({ agents: { interrupt: never } })
  await prompt(newId())
  const done = one.handle({ do: 'interrupt' })
  await vi.advanceTimersByTimeAsync(5000)
  await done
  // It is asked once more before it is ended.
  await vi.advanceTimersByTimeAsync(1000)
  expect(await ended()).toEqual([['interrupted', 'Asked to stop']])
  expect((await types()).at(-1)).toBe('keeper.left')
})

test('keeper() waits for an agent in a slow cell as much longer as the cell is slow', async () => {
  const limits = [{ name: 'cpu', value: '1 CPU', enforcement: 'enforced', how: 'x', slowness: 20 }] as const
  const { one, prompt, types } = await make({ agents: { interrupt: never }, cells: { limits } })
  await prompt(newId())
  const done = one.handle({ do: 'interrupt' })
  await vi.advanceTimersByTimeAsync(20 * 5000 - 1)
  expect(await types()).not.toContain('keeper.left')
  await vi.advanceTimersByTimeAsync(1)
  await done
  await vi.advanceTimersByTimeAsync(1000)
  expect((await types()).at(-1)).toBe('keeper.left')
})

test('keeper() goes on with what is queued after an interrupt', async () => {
  const { one, prompt, agents } = await make()
  await prompt(newId())
  const queued = newId()
  await prompt(queued, 'queue')
  await one.handle({ do: 'interrupt' })
  agents.heard.state('idle')
  await settled()
  expect(agents.prompts.at(-1)?.id).toBe(queued)
})

test('keeper() is done with what steered a turn that a person interrupted, also where the agent had not come to it', async () => {
  const [first, steering] = [newId(), newId()]
  const { one, prompt, work, agents, events } = await make({ agents: { interrupt: async () => [steering] } })
  await prompt(first)
  agents.heard.state('running')
  await prompt(steering)
  await one.handle({ do: 'interrupt' })
  agents.heard.result({ ok: false, why: 'interrupted', prompts: [first] })
  agents.heard.state('idle')
  await settled()
  const next = newId()
  await prompt(next)
  await work([next])
  expect(agents.prompts.map(({ id }) => id)).toEqual([first, steering, next])
  const ends = (await events()).flatMap((event) => (event.type === 'turn.ended' ? [event.body.left] : []))
  expect(ends).toEqual([undefined, undefined])
})

test('keeper() hands on once more what the agent let go when its turn took too long', async () => {
  const [first, steering] = [newId(), newId()]
  const { prompt, agents, types, ended, events } = await make({
    start: { policy: { timeout_ms: 2000 } },
    agents: { interrupt: async () => [steering] },
  })
  await prompt(first)
  agents.heard.state('running')
  await prompt(steering)
  await vi.advanceTimersByTimeAsync(2000)
  agents.heard.result({ ok: false, why: 'interrupted', prompts: [first] })
  agents.heard.state('idle')
  await settled()
  expect(agents.prompts.map(({ id }) => id)).toEqual([first, steering, steering])
  expect(await ended()).toEqual([['interrupted', 'It took longer than 2 s']])
  expect((await types()).slice(-3)).toEqual(['turn.ended', 'prompt.again', 'turn.started'])
  // Until then it is the next keeper's, should this one die.
  expect((await events()).find(({ type }) => type === 'turn.ended')).toMatchObject({ body: { left: [steering] } })
})

test('keeper() keeps what its agent begins to say before the turn before it is told to have ended', async () => {
  for (let ticks = 0; ticks < 20; ticks++) {
    const settling = Promise.withResolvers<null>()
    const { one, prompt, agents, events, ended } = await make({ settle: () => settling.promise })
    const [first, late] = [newId(), newId()]
    const delta = (block: string, offset: number, text: string) =>
      ({ type: 'text.delta', block, offset, text, parent: null }) as const
    await prompt(first)
    agents.heard.state('running')
    agents.heard.live(delta('a', 0, 'Cut off'))
    await prompt(late)
    agents.heard.result({ ok: true, why: null, prompts: [first] })
    agents.heard.state('idle')
    for (let tick = 0; tick < ticks; tick++) await Promise.resolve()
    agents.heard.state('running')
    agents.heard.live(delta('b', 0, 'It '))
    await settled()
    settling.resolve(null)
    await settled()
    agents.heard.live(delta('b', 3, 'came late'))
    expect(one.saying()).toContainEqual(delta('b', 0, 'It came late'))
    const stored = (await events()).flatMap((event) => (event.type === 'text' ? [event.body.block] : []))
    // Where it went on before anybody had seen it rest, it is one turn.
    const isOne = (await ended()).length === 0
    expect({ ticks, isOne, stored }).toEqual({ ticks, isOne: isOne && ticks < 10, stored: isOne ? [] : ['a'] })
  }
})

/** An agent that is done, and has yet to begin with a prompt that came too late for that. */
async function owing() {
  const it = await make()
  const [first, late] = [newId(), newId()]
  await it.prompt(first)
  it.agents.heard.state('running')
  await it.prompt(late)
  it.agents.heard.result({ ok: true, why: null, prompts: [first] })
  it.agents.heard.state('idle')
  await settled()
  expect(await it.types()).toEqual(['keeper.started', 'prompt', 'turn.started', 'prompt', 'turn.ended'])
  const rest = async () => (await it.events()).slice(5)
  return { ...it, late, rest }
}

test('keeper() says of a prompt that its agent died with that its turn was cut short', async () => {
  const { agents, one, late, rest } = await owing()
  agents.heard.gone('killed')
  await one.left
  expect(await rest()).toMatchObject([
    { type: 'turn.started', body: { cause: 'prompt', prompt: late } },
    { type: 'turn.ended', body: { reason: 'crashed', why: 'killed' } },
    { type: 'keeper.left', body: { failed: false } },
  ])
})

test('keeper() stops what its agent is about to take up', async () => {
  const { agents, one, late, rest } = await owing()
  const asked = one.handle({ do: 'interrupt' })
  await settled()
  agents.heard.state('running')
  agents.heard.result({ ok: false, why: 'interrupted', prompts: [late] })
  agents.heard.state('idle')
  await asked
  expect(agents.interrupts).toBe(1)
  expect(await rest()).toMatchObject([
    { type: 'turn.started', body: { prompt: late } },
    { type: 'turn.ended', body: { reason: 'interrupted', why: 'Asked to stop' } },
  ])
})

test('keeper() does not wait for ever for its agent to take up a prompt', async () => {
  const { late, rest } = await owing()
  await vi.advanceTimersByTimeAsync(29_000)
  expect(await rest()).toEqual([])
  await vi.advanceTimersByTimeAsync(1000)
  expect(await rest()).toMatchObject([
    { type: 'turn.started', body: { prompt: late } },
    { type: 'turn.ended', body: { reason: 'error', why: 'The agent ended its turn without a result' } },
  ])
})

test('keeper() waits for an agent that has taken up a prompt as long as that takes', async () => {
  const { agents, late, rest } = await owing()
  agents.heard.state('running')
  await vi.advanceTimersByTimeAsync(60_000)
  agents.heard.result({ ok: true, why: null, prompts: [late] })
  agents.heard.state('idle')
  await vi.advanceTimersByTimeAsync(40_000)
  expect(await rest()).toMatchObject([{ type: 'turn.started' }, { type: 'turn.ended', body: { reason: 'done' } }])
})

test('keeper() stops what it is just handing on', async () => {
  const { one, prompt, agents } = await make()
  await settled()
  const given = prompt(newId())
  await one.handle({ do: 'interrupt' })
  await given
  expect([agents.prompts.length, agents.interrupts]).toEqual([1, 1])
})

test('keeper() gives a turn that was interrupted nothing more to read, whenever that comes', async () => {
  for (let ticks = 0; ticks < 20; ticks++) {
    const steering = newId()
    const late: boolean[] = []
    const { one, prompt, agents } = await make({
      agents: {
        interrupt: async () => {
          late.push(agents.prompts.length === 1)
          return []
        },
      },
    })
    await prompt(newId())
    agents.heard.state('running')
    const given = prompt(steering)
    for (let tick = 0; tick < ticks; tick++) await Promise.resolve()
    await one.handle({ do: 'interrupt' })
    await Promise.race([given, settled()])
    expect({ ticks, late, given: agents.prompts.length }).toEqual({ ticks, late, given: late[0] === true ? 1 : 2 })
  }
})

test('keeper() leaves open what an agent asked that died, and takes back what one that lives does not ask any more', async () => {
  const asks = async () => {
    const it = await make()
    await it.prompt(newId())
    it.agents.heard.state('running')
    const asking = new AbortController()
    void it.agents.heard.ask(plan, 'call', asking.signal)
    await it.request()
    asking.abort()
    return it
  }
  const lives = await asks()
  expect((await lives.types()).at(-1)).toBe('request.answered')
  const dies = await asks()
  dies.agents.heard.gone('Killed')
  await settled()
  await dies.one.left
  expect(await dies.types()).not.toContain('request.answered')
})

test('keeper() hands nothing on to a turn that was interrupted, and lets no tool run in it', async () => {
  const { one, prompt, agents, ended } = await make()
  await prompt(newId())
  agents.heard.state('running')
  await one.handle({ do: 'interrupt' })
  const later = newId()
  void prompt(later)
  await settled()
  expect(agents.prompts).toHaveLength(1)
  const verdict = await agents.heard.mayRun('Bash', { command: 'ls' }, 'call', new AbortController().signal)
  expect(verdict).toEqual({ allow: false, why: 'The turn was interrupted' })
  agents.heard.state('idle')
  expect(await ended()).toEqual([['interrupted', 'Asked to stop']])
  expect(agents.prompts.at(-1)?.id).toBe(later)
})

test('keeper() ends a turn whose prompt the agent let go before it began', async () => {
  const id = newId()
  const { one, prompt, ended, types } = await make({ agents: { interrupt: async () => [id] } })
  await prompt(id)
  await one.handle({ do: 'interrupt' })
  expect(await ended()).toEqual([['interrupted', 'Asked to stop']])
  await vi.advanceTimersByTimeAsync(6000)
  expect(await types()).not.toContain('keeper.left')
})

test('keeper() keeps an agent that has stopped while its usage is still being settled', async () => {
  const slowly = Promise.withResolvers<null>()
  const { one, prompt, agents, ended, types } = await make({ settle: () => slowly.promise })
  await prompt(newId())
  agents.heard.state('running')
  await one.handle({ do: 'interrupt' })
  agents.heard.state('idle')
  await vi.advanceTimersByTimeAsync(6000)
  slowly.resolve(null)
  expect(await ended()).toEqual([['interrupted', 'Asked to stop']])
  expect(await types()).not.toContain('keeper.left')
  expect(agents.living).toBe(1)
})

test('keeper() interrupts a turn that takes longer than it may', async () => {
  const { prompt, agents, ended } = await make({ start: { policy: { timeout_ms: 2000 } } })
  await prompt(newId())
  await vi.advanceTimersByTimeAsync(2000)
  expect(agents.interrupts).toBe(1)
  agents.heard.state('idle')
  expect(await ended()).toEqual([['interrupted', 'It took longer than 2 s']])
  await vi.advanceTimersByTimeAsync(10_000)
  expect(await ended()).toHaveLength(1)
})

test('keeper() leaves when idle for long enough, with no agent and no cell left', async () => {
  const { one, prompt, work, types, agents, cells } = await make()
  await prompt(newId())
  await vi.advanceTimersByTimeAsync(start.policy.idle_ms)
  expect(await types()).not.toContain('keeper.left')
  await work()
  await vi.advanceTimersByTimeAsync(start.policy.idle_ms - 1)
  expect(await types()).not.toContain('keeper.left')
  await vi.advanceTimersByTimeAsync(1)
  await one.left
  expect((await types()).at(-1)).toBe('keeper.left')
  expect([agents.living, cells.standing]).toEqual([0, 0])
})

test('keeper() stays for a prompt that comes in the moment in which it would have left, also while that is being written down', async () => {
  const { prompt, work, types, agents } = await make()
  await prompt(newId())
  await work()
  await vi.advanceTimersByTimeAsync(start.policy.idle_ms - 1)
  const id = newId()
  const handed = prompt(id)
  vi.advanceTimersByTime(1)
  expect(await handed).toEqual({ had: false })
  expect(agents.prompts.at(-1)?.id).toBe(id)
  await work([id])
  expect(await types()).not.toContain('keeper.left')
})

test('keeper() does not leave while a background task of the agent lives', async () => {
  const { one, prompt, work, agents, types } = await make()
  await prompt(newId())
  agents.heard.tasks(1)
  await work()
  await vi.advanceTimersByTimeAsync(10 * start.policy.idle_ms)
  expect(await types()).not.toContain('keeper.left')
  agents.heard.tasks(0)
  await vi.advanceTimersByTimeAsync(start.policy.idle_ms)
  await one.left
})

test('keeper() begins a turn of its own for a background task that comes back', async () => {
  const { prompt, work, agents, events } = await make()
  const id = newId()
  await prompt(id)
  await work([id])
  agents.heard.state('running')
  await settled()
  agents.heard.result({ ok: true, why: null, prompts: [] })
  agents.heard.state('idle')
  const turns = (await events()).flatMap((event) => (event.type === 'turn.started' ? [event.body] : []))
  expect(turns).toEqual([
    { cause: 'prompt', prompt: id },
    { cause: 'task', prompt: null },
  ])
})

test('keeper() tells what is checked out when that has changed: before the first turn, and after each', async () => {
  const first = { branch: 'main', commit: 'a'.repeat(40) }
  const then = { branch: 'topic', commit: 'b'.repeat(40) }
  const looks: (CheckedOut | null | Error)[] = [first, first, null, new Error('gone'), then]
  const { prompt, work, events } = await make({
    checkedOut: async () => {
      const next = looks.shift() ?? null
      if (next instanceof Error) throw next
      return next
    },
  })
  for (let turn = 1; turn <= 4; turn++) {
    const id = newId()
    await prompt(id)
    await work([id])
    await settled()
  }
  const told = (await events()).flatMap((event): unknown[] =>
    event.type === 'workspace.at' ? [event.body] : event.type === 'turn.started' ? ['turn'] : [],
  )
  expect(told).toEqual([first, 'turn', 'turn', 'turn', 'turn', then])
  const known = await make({ start: { agent: { checked_out: first } }, checkedOut: async () => first })
  await known.prompt(newId())
  expect(await known.types()).not.toContain('workspace.at')
})

test('keeper() takes a task for a task after a turn that confirmed no prompt', async () => {
  const { one, prompt, agents, events } = await make()
  await prompt(newId())
  await one.handle({ do: 'interrupt' })
  agents.heard.state('idle')
  await settled()
  agents.heard.state('running')
  expect((await events()).at(-1)).toMatchObject({ type: 'turn.started', body: { cause: 'task', prompt: null } })
})

test('keeper() tells what a new turn says after the end of the old one, however long settling takes', async () => {
  const gate = Promise.withResolvers<null>()
  const { prompt, agents, types, ended } = await make({ settle: () => gate.promise })
  await prompt(newId())
  agents.heard.result({ ok: true, why: null, prompts: [] })
  agents.heard.state('idle')
  await settled()
  // The gate has not answered yet, and a task has come back.
  agents.heard.state('running')
  agents.heard.event({ type: 'text', body: { block: 'b', text: 'late' } })
  void agents.heard.ask(plan, null, new AbortController().signal)
  agents.heard.result({ ok: true, why: null, prompts: [] })
  await settled()
  gate.resolve(null)
  expect((await types()).slice(2)).toEqual(['turn.started', 'turn.ended', 'turn.started', 'text', 'request.opened'])
  agents.heard.state('idle')
  expect(await ended()).toEqual([
    ['done', null],
    ['done', null],
  ])
})

test('keeper() refuses a prompt that arrives while it leaves, so that the next keeper gets it', async () => {
  const { one, prompt, types } = await make()
  await settled()
  const leaving = one.handle({ do: 'leave', why: 'idle' })
  await expect(prompt(newId())).rejects.toMatchObject({ code: 'wrong_state' })
  await leaving
  expect(await types()).not.toContain('prompt')
})

test('keeper() refuses a prompt that it took and did not hand on before it left', async () => {
  const standing = Promise.withResolvers<void>()
  const { one, prompt } = await make({ cells: { standing: () => standing.promise } })
  const taken = prompt(newId())
  const leaving = one.handle({ do: 'leave', why: 'Stopped by owner' })
  standing.resolve()
  await expect(taken).rejects.toMatchObject({ code: 'wrong_state' })
  await leaving
})

test('keeper() that is told to leave while its cell starts leaves no cell behind', async () => {
  const standing = Promise.withResolvers<void>()
  const { one, cells, agents, types } = await make({ cells: { standing: () => standing.promise } })
  await settled()
  const leaving = one.handle({ do: 'leave', why: 'Stopped by owner' })
  await settled()
  standing.resolve()
  await leaving
  expect([cells.standing, agents.living]).toEqual([0, 0])
  expect((await types()).at(-1)).toBe('keeper.left')
})

test('keeper() that is told to leave while its agent starts leaves no agent behind', async () => {
  const standing = Promise.withResolvers<void>()
  const { one, cells, agents } = await make({ agents: { starting: () => standing.promise } })
  await settled()
  const leaving = one.handle({ do: 'leave', why: 'Stopped by owner' })
  await settled()
  standing.resolve()
  await leaving
  expect([cells.standing, agents.living]).toEqual([0, 0])
})

test('keeper() leaves with a failure when its cell cannot start', async () => {
  const { one, prompt, events } = await make({ cells: { standing: () => Promise.reject(new Error('no bubblewrap')) } })
  await expect(prompt(newId())).rejects.toMatchObject({ code: 'wrong_state' })
  await one.left
  expect(await events()).toEqual([{ type: 'keeper.left', body: { why: 'no bubblewrap', failed: true } }])
})

test('keeper() leaves with a failure when its agent dies before it did anything', async () => {
  const { one, agents, events } = await make()
  await settled()
  agents.heard.gone('exec format error')
  await one.left
  expect((await events()).at(-1)).toEqual({ type: 'keeper.left', body: { why: 'exec format error', failed: true } })
})

test.each([
  ['agent dies', ({ agents }: Awaited<ReturnType<typeof make>>) => agents.heard.gone('it fell over')],
  ['cell is ended by its watchdog', ({ cells }: Awaited<ReturnType<typeof make>>) => cells.end('it fell over')],
])('keeper() ends the turn as crashed when its %s', async (_, crash) => {
  const made = await make()
  await made.prompt(newId())
  const answered = made.agents.heard.ask(plan, null, new AbortController().signal)
  await settled()
  crash(made)
  await made.one.left
  expect(await answered).toMatchObject({ decision: 'withdrawn' })
  expect(await made.ended()).toEqual([['crashed', 'it fell over']])
  expect((await made.events()).at(-1)).toEqual({ type: 'keeper.left', body: { why: 'it fell over', failed: false } })
  expect([made.cells.standing, made.agents.living]).toEqual([0, 0])
})

test('keeper() just leaves when its agent dies between turns', async () => {
  const { one, prompt, work, agents, types, events } = await make()
  await prompt(newId())
  await work()
  agents.heard.gone('it fell over')
  await one.left
  expect((await types()).filter((type) => type === 'turn.ended')).toHaveLength(1)
  expect((await events()).at(-1)).toMatchObject({ type: 'keeper.left', body: { failed: false } })
})

test('keeper() holds tools back while it is paused, and lets them run after', async () => {
  const { one, prompt, agents } = await make()
  await prompt(newId())
  await one.handle({ do: 'pause' })
  let verdict: unknown
  void agents.heard.mayRun('Bash', {}, 'call', new AbortController().signal).then((given) => (verdict = given))
  await settled()
  expect(verdict).toBeUndefined()
  expect(await one.handle({ do: 'ping' })).toMatchObject({ state: 'paused' })
  await one.handle({ do: 'resume' })
  await settled()
  expect(verdict).toMatchObject({ allow: true })
})

test('keeper() runs no tool that a pause held back when the turn is interrupted, and stays paused', async () => {
  const { one, prompt, agents } = await make()
  await prompt(newId())
  await one.handle({ do: 'pause' })
  const verdict = agents.heard.mayRun('Bash', {}, 'call', new AbortController().signal)
  await one.handle({ do: 'interrupt' })
  expect(await verdict).toMatchObject({ allow: false })
  expect(await one.handle({ do: 'ping' })).toMatchObject({ state: 'paused' })
})

test('keeper() runs no tool any more once it leaves', async () => {
  const { one, prompt, agents } = await make()
  await prompt(newId())
  await one.handle({ do: 'pause' })
  const verdict = agents.heard.mayRun('Bash', {}, 'call', new AbortController().signal)
  await one.handle({ do: 'leave', why: 'Stopped by owner' })
  expect(await verdict).toMatchObject({ allow: false })
})

test('keeper() leaves though the agent does not answer the interrupt', async () => {
  const { one, prompt, ended } = await make({ agents: { interrupt: never } })
  await prompt(newId())
  const leaving = one.handle({ do: 'leave', why: 'Stopped by owner' })
  await vi.advanceTimersByTimeAsync(1000)
  await leaving
  expect(await ended()).toEqual([['interrupted', 'Stopped by owner']])
})

test('keeper() ends an agent that answers nothing any more while it is at work, and says so', async () => {
  const { prompt, types, ended, one } = await make({ agents: { answers: never } })
  await vi.advanceTimersByTimeAsync(20_000)
  expect(await types()).toEqual(['keeper.started'])
  await prompt(newId())
  await vi.advanceTimersByTimeAsync(60_000)
  await one.left
  expect(await ended()).toEqual([['crashed', 'The agent answered nothing any more: it hangs, or a signal stopped it']])
})

test('keeper() says what ended the cell of an agent that was killed, and what that ran into', async () => {
  for (const [trouble, why] of [
    [{ ending: 'The cell was ended: its disk is full', met: null }, 'The cell was ended: its disk is full'],
    [{ ending: null, met: 'it had used up 4 processes' }, 'exit code 137: it had used up 4 processes'],
    [{ ending: null, met: null }, 'exit code 137'],
  ] as const) {
    const { prompt, ended, agents, one } = await make({ cells: { trouble } })
    await prompt(newId())
    agents.heard.state('running')
    agents.heard.gone('exit code 137')
    await one.left
    expect(await ended()).toEqual([['crashed', why]])
  }
})

test('keeper() tells an agent that is still being started which model it is to use', async () => {
  const standing = Promise.withResolvers<void>()
  const { one, agents } = await make({ agents: { starting: () => standing.promise } })
  const told = one.handle({ do: 'model', model: 'another' })
  await settled()
  standing.resolve()
  await told
  expect(agents.models).toEqual(['another'])
})

test.each([
  ['done', { ok: true, why: null }, null, 'done'],
  ['an error', { ok: false, why: 'it broke' }, null, 'error'],
  ['the budget', { ok: false, why: 'API Error: 403' }, { source: 'gate', n: 3, refused: 'budget' }, 'budget'],
  ['an error though a call was refused', { ok: false, why: 'x' }, { source: 'gate', n: 3, refused: 'rules' }, 'error'],
] as const)('keeper() says that a turn ended by %s', async (_, result, settlement, reason) => {
  const { prompt, agents, ended, outbox } = await make({ settle: async () => settlement })
  await prompt(newId())
  agents.heard.result({ ...result, prompts: [] })
  agents.heard.state('idle')
  expect(await ended()).toEqual([[reason, result.why]])
  const last = (await outbox.read(0, 100)).at(-1)
  expect(last?.after).toEqual(settlement === null ? undefined : { source: 'gate', n: 3 })
})

test('keeper() says that a turn ended in error when the agent gave no result', async () => {
  const { prompt, agents, ended } = await make()
  await prompt(newId())
  agents.heard.state('idle')
  expect(await ended()).toEqual([['error', 'The agent ended its turn without a result']])
})

test('keeper() refuses a command that is none', async () => {
  const { one } = await make()
  await expect(one.handle({ do: 'dance' })).rejects.toThrow()
})

type Step =
  | { readonly kind: 'prompt'; readonly which: number; readonly mode: 'steer' | 'queue' }
  | { readonly kind: 'answer' | 'ask' | 'abort'; readonly which: number }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'interrupt' | 'pause' | 'resume' | 'running' | 'idle' | 'result' | 'text' | 'tasks' | 'gone' | 'leave' }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('prompt' as const),
      which: fc.nat(4),
      mode: fc.constantFrom('steer', 'queue'),
    }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('answer' as const, 'ask', 'abort'), which: fc.nat(3) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 1000, 5000, 60_000) }) },
  {
    weight: 10,
    arbitrary: fc.record({
      kind: fc.constantFrom('interrupt' as const, 'pause', 'resume', 'running', 'idle', 'result', 'text', 'tasks'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('gone' as const, 'leave') }) },
)

test('keeper() keeps its promises in every interleaving of commands and agent messages', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { maxLength: 60 }), fc.nat(7), async (steps, slow) => {
      const made = await make({
        start: { policy: { timeout_ms: 5000 } },
        // The gate takes its time now and then.
        settle: () => new Promise((resolve) => setTimeout(resolve, slow, null)),
      })
      const ids = Array.from({ length: 5 }, newId)
      const asking: AbortController[] = []
      const commands: Promise<unknown>[] = []
      await settled()
      for (const step of steps) {
        const { heard } = made.agents
        switch (step.kind) {
          case 'prompt': {
            const id = ids[step.which]!
            commands.push(made.prompt(id, step.mode).catch(() => {}))
            break
          }
          case 'ask': {
            const end = new AbortController()
            asking.push(end)
            commands.push(heard.ask(plan, null, end.signal))
            break
          }
          case 'abort':
            asking[step.which]?.abort()
            break
          case 'answer': {
            const opened = (await made.events()).filter((event) => event.type === 'request.opened')
            const one = opened[step.which]
            if (one !== undefined) commands.push(made.answer(one.body.id).catch(() => {}))
            break
          }
          case 'wait':
            await vi.advanceTimersByTimeAsync(step.ms)
            break
          case 'running':
          case 'idle':
            heard.state(step.kind)
            break
          case 'result':
            heard.result({ ok: true, why: null, prompts: made.agents.prompts.map(({ id }) => id) })
            break
          case 'text':
            heard.event({ type: 'text', body: { block: 'b', text: 'words' } })
            break
          case 'tasks':
            heard.tasks(1)
            break
          case 'gone':
            heard.gone('it fell over')
            break
          case 'interrupt':
          case 'pause':
          case 'resume':
            commands.push(made.one.handle({ do: step.kind }).catch(() => {}))
            break
          case 'leave':
            commands.push(made.one.handle({ do: 'leave', why: 'Stopped by owner' }))
            break
        }
      }
      commands.push(made.one.handle({ do: 'leave', why: 'The end' }))
      await vi.advanceTimersByTimeAsync(60_000)
      // Nobody waits for ever.
      await Promise.all(commands)
      made.agents.heard.event({ type: 'text', body: { block: 'b', text: 'too late' } })
      check(await made.events())
      const told = (await made.events()).flatMap((event) => (event.type === 'prompt' ? [event.body.id] : []))
      expect(made.agents.prompts.map(({ id }) => id)).toEqual(told)
      expect([made.agents.living, made.cells.standing]).toEqual([0, 0])
    }),
    { numRuns: runs(300) },
  )
}, 60_000)

/** What must hold of every log that a keeper writes. */
function check(events: readonly NewEvent[]): void {
  let standing: Standing = atBirth
  const prompts = new Set<string>()
  const open = new Set<string>()
  for (const [index, event] of events.entries()) {
    if (event.type === 'turn.started') expect(standing.turn).toBe(false)
    if (event.type === 'turn.ended') expect(standing.turn).toBe(true)
    if (event.type === 'prompt') {
      expect(prompts).not.toContain(event.body.id)
      prompts.add(event.body.id)
    }
    if (event.type === 'request.opened') open.add(event.body.id)
    if (event.type === 'request.answered') expect(open.delete(event.body.id)).toBe(true)
    if (event.type === 'keeper.left') expect(index).toBe(events.length - 1)
    standing = after(standing, event).standing
  }
  // What a keeper leaves open can be answered after it.
  expect(standing).toMatchObject({ turn: false, requests: open.size, keeper: false })
  expect(events.at(-1)?.type).toBe('keeper.left')
}

test.each([
  ['begins its turn anew where it is to be taken up', true],
  ['only lets it know where a person is to go on', false],
])('keeper() hands a prompt once more that the agent has no memory of, before any other, and %s', async (_, takeUp) => {
  const [seen, unseen, next] = [newId(), newId(), newId()]
  const unfinished = [seen, unseen].map((id) => ({ id, text: 'Hello', images: [] }))
  const { prompt, agents, events, work } = await make({
    start: { agent: { unfinished, take_up: takeUp, resume: true } },
    agents: { unseen: [unseen] },
  })
  await prompt(next)
  expect(agents.starts[0]).toMatchObject({ unfinished: [seen, unseen], takeUp })
  expect(agents.prompts.map(({ id }) => id)).toEqual(takeUp ? [unseen, next] : [next])
  expect(agents.reminders.map(({ id }) => id)).toEqual(takeUp ? [] : [unseen])
  await work([unseen, next])
  const begun = ['turn.started', takeUp ? 'resume' : 'prompt']
  expect((await events()).map(({ type, body }) => [type, 'id' in body ? body.id : 'cause' in body ? body.cause : null])).toEqual([
    ['keeper.started', null],
    ['prompt.again', unseen],
    ...(takeUp ? [begun, ['prompt', next]] : [['prompt', next], begun]),
    ['turn.ended', null],
  ])
  expect(await prompt(unseen)).toEqual({ had: true })
})

test('keeper() calls the turn that an agent takes up by itself a resumed one, and only that', async () => {
  const id = newId()
  const { agents, events, work } = await make({
    start: { agent: { unfinished: [{ id, text: 'Hello', images: [] }], take_up: true, resume: true } },
  })
  await settled()
  expect(agents.starts[0]).toMatchObject({ unfinished: [id], takeUp: true })
  for (const prompts of [[id], []]) {
    agents.heard.state('running')
    await settled()
    await work(prompts)
  }
  const turns = (await events()).flatMap((event) => (event.type === 'turn.started' ? [event.body] : []))
  expect(turns).toEqual([
    { cause: 'resume', prompt: id },
    { cause: 'task', prompt: null },
  ])
})

test('keeper() names the prompts that came too late for a turn, unless a person cut it short', async () => {
  const { prompt, agents, events, one } = await make()
  const [first, late] = [newId(), newId()]
  await prompt(first)
  await prompt(late)
  const end = async (prompts: readonly PromptId[]) => {
    agents.heard.result({ ok: true, why: null, prompts })
    agents.heard.state('idle')
    await settled()
  }
  agents.heard.state('running')
  await end([first])
  agents.heard.state('running')
  await settled()
  await prompt(newId())
  await one.handle({ do: 'interrupt' })
  await end([late])
  const ends = (await events()).flatMap((event) => (event.type === 'turn.ended' ? [event.body.left] : []))
  expect(ends).toEqual([[late], undefined])
})

test('keeper() tells what its cell does not see, and what came since', async () => {
  const fresh = [['.env'], []]
  const veil = {
    cover: async () => [{ path: '/home/owner/project/id_rsa', by: '/covers/file' }],
    keepTracked: async () => ['id_rsa'],
    uncovered: async () => fresh.shift() ?? [],
    watches: false,
  }
  const { prompt, work, cells, events } = await make({ veil })
  for (let turn = 0; turn < 2; turn++) {
    const id = newPromptId(randomBytes)
    await prompt(id)
    await work([id])
  }
  expect(cells.specs[0]?.covers).toEqual(await veil.cover())
  const notices = (await events()).flatMap((event) => (event.type === 'notice' ? [event.body] : []))
  expect(notices.map(({ code, message }) => [code, message])).toEqual([
    ['files_hidden', 'The repository filter hides id_rsa'],
    ['files_tracked', expect.stringContaining("hides: id_rsa. The repository's history holds them too")],
    ['files_unwatched', expect.stringContaining('too large')],
    ['files_exposed', expect.stringContaining('.env')],
  ])
})

test('keeper() tells once that its workspace cannot be looked through any more', async () => {
  const veil = {
    ...{ cover: async () => [], keepTracked: async () => [], watches: true },
    async uncovered() {
      veil.watches = false
      return []
    },
  }
  const { prompt, work, events } = await make({ veil })
  for (let turn = 0; turn < 2; turn++) {
    const id = newPromptId(randomBytes)
    await prompt(id)
    await work([id])
  }
  const notices = (await events()).flatMap((event) => (event.type === 'notice' ? [event.body] : []))
  expect(notices.map(({ code, message }) => [code, message])).toEqual([
    ['files_unwatched', expect.stringContaining('cannot be looked through any more')],
  ])
})

test('keeper() does not start an agent where a limit that is required is not in force', async () => {
  const limits = [{ name: 'cpu', value: '1', enforcement: 'not enforced', how: 'no control group' }] as const
  const { events, cells } = await make({ start: { policy: { require_limits: ['cpu'] } }, cells: { limits } })
  const left = (await events()).find((event) => event.type === 'keeper.left')
  expect(left?.body).toMatchObject({ failed: true, why: expect.stringContaining('cpu (no control group)') as string })
  expect(cells.standing).toBe(0)
})

test('keeper() ends a turn whose agent goes in circles, says so, and begins the next one anew', async () => {
  const breakers = { repeats: 3, errors: null, turns: null }
  const { prompt, work, ended, agents } = await make({
    start: { policy: { authority: { ...start.policy.authority, policy: { ...defaultPolicy, breakers } } } },
  })
  const look = (call: string, output = 'nothing') => {
    agents.heard.event({ type: 'tool.started', body: { call, tool: 'Bash', input: { command: 'ls' }, truncated: false } })
    agents.heard.event({ type: 'tool.finished', body: { call, tool: 'Bash', output, truncated: false, failed: false } })
  }
  const first = newId()
  await prompt(first)
  agents.heard.state('running')
  for (const call of ['a', 'b']) look(call)
  await settled()
  expect(agents.interrupts).toBe(0)
  look('c')
  await settled()
  expect(agents.interrupts).toBe(1)
  await work([first])
  const next = newId()
  await prompt(next)
  agents.heard.state('running')
  for (const call of ['d', 'e']) look(call)
  await work([next])
  expect(await ended()).toEqual([
    ['breaker', 'The agent has called "Bash" 3 times in a row in the same way with the same result'],
    ['done', null],
  ])
})
