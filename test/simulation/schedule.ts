import { firstHash, hashedLine, hashTailChars, nextHash } from '@anchorhold/core/chain'
import { createHash } from 'node:crypto'
import { after, atBirth, type Standing } from '@anchorhold/core/session-states'
import { periodOf } from '@anchorhold/core/ledger'
import { setBudget } from '@anchorhold/daemon/app/ledger'
import { answerRequest } from '@anchorhold/daemon/app/requests'
import { change, interrupt, pause, resume, start, stop } from '@anchorhold/daemon/app/lifecycle'
import { dropPrompt } from '@anchorhold/daemon/app/drop'
import { prompt } from '@anchorhold/daemon/app/prompt'
import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import type { Store } from '@anchorhold/daemon/store/store'
import type { AnswerRequest } from '@anchorhold/protocol/api/requests'
import type { Event } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { PromptId, SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { seeded } from '../seeded.ts'
import { house, type House, owner } from './house.ts'
import { machine as makeMachine } from './machine.ts'

/** What a schedule is made of. */
const deeds = [
  ...([
    'prompt',
    'prompt',
    'prompt',
    'queue',
    'queue',
    'interrupt',
    'drop',
    'unqueue',
    'stop',
    'start',
    'pause',
    'resume',
  ] as const),
  ...([
    'answer',
    'answer',
    'budget',
    'group budget',
    'hours',
    'kill daemon',
    'kill daemon',
    'kill keeper',
    'kill keeper',
    'kill gate',
  ] as const),
  ...(['kill gate', 'kill all', 'power cut', 'gate disk', 'keeper disk', 'clock'] as const),
]
type Deed = (typeof deeds)[number]

/** What kind of story a schedule tells: how many deeds, how close together. */
type Plot = { readonly deeds: readonly Deed[]; readonly from: number; readonly to: number; readonly spacingMs: number }

/** Everything that happens to a session in its life. */
export const lives: Plot = { deeds, from: 3, to: 13, spacingMs: 600 }
/** A few prompts, and everything dies around them while they are on their way. */
export const races: Plot = {
  deeds: ['prompt', 'queue', 'prompt', 'kill daemon', 'kill keeper', 'kill gate', 'kill all', 'interrupt', 'stop', 'start'],
  from: 3,
  to: 8,
  spacingMs: 60,
}

/** An agent that wants more than it may, people who answer, and everything dies around them. */
export const asks: Plot = {
  deeds: [
    ...(['prompt', 'prompt', 'queue', 'answer', 'answer', 'answer', 'answer', 'answer', 'answer', 'interrupt', 'stop'] as const),
    ...(['start', 'pause', 'resume', 'kill daemon', 'kill keeper', 'kill gate', 'kill all', 'power cut', 'keeper disk'] as const),
  ],
  from: 6,
  to: 16,
  spacingMs: 300,
}

const stepsMax = 40_000
/** People answer sooner than requests are parked or closed. */
const soonMs = 5 * 60 * 1000
const hourMs = 3_600_000
const budgetMicros = 40

/** A test of so many schedules, of which `npm test` takes a tenth; `SCHEDULES` and `SCHEDULE_SEED` choose others. */
export function testSchedules(plot: Plot, usual: number, what: string): void {
  const count = Number(process.env.SCHEDULES ?? (process.env.SIMULATION === 'full' ? usual : Math.ceil(usual / 10)))
  const first = Number(process.env.SCHEDULE_SEED ?? 1)
  test(`nothing is lost or doubled in ${count} ${what}`, { timeout: 900_000 }, async () => {
    const store = sqliteStore(':memory:')
    for (let seed = first; seed < first + count; seed++) {
      try {
        await runSchedule(seed, plot, store)
      } catch (error) {
        throw new Error(`Run it alone: SCHEDULES=1 SCHEDULE_SEED=${seed}`, { cause: error })
      }
    }
    store.close()
  })
}

/** Runs one schedule from its seed to rest, and holds all that must be true of it. */
async function runSchedule(seed: number, plot: Plot, store: Store): Promise<void> {
  const random = seeded(seed)
  const machine = makeMachine(random)
  // Of the session, its group, the group's day and tick now one is the strictest and now another.
  const groupMicros = {
    life: 20 + Math.floor(random() * 100),
    day: 10 + Math.floor(random() * 60),
    tick: 6 + Math.floor(random() * 40),
  }
  const one = house({
    machine,
    store,
    gateFrom: 1_000_000 + 1000 * seed,
    budgetNanos: budgetMicros * 1000,
    groupCaps: { life: groupMicros.life * 1000, day: groupMicros.day * 1000, tick: groupMicros.tick * 1000 },
  })
  const acknowledged: PromptId[] = []
  const done: Deed[] = []
  /** What was done when, for whoever has to find out why it went wrong. */
  const story: string[] = []
  const watcher = watch(one, store)
  let capMicros = budgetMicros
  let bugs: unknown[] = []

  /** Does something to the house; what nobody answers, or what is refused, has not happened. */
  function act(deed: Deed): void {
    done.push(deed)
    story.push(`${Math.round(machine.elapsed)} ${deed}${one.parts === null ? ' (no daemon)' : ''}`)
    const { parts, session } = one
    const asked = async (work: (parts: NonNullable<House['parts']>) => unknown) => {
      if (parts === null) return
      try {
        await work(parts)
      } catch (error) {
        if (!(error instanceof Failure)) bugs.push(error)
      }
    }
    switch (deed) {
      case 'prompt':
      case 'queue':
        return void asked((to) => {
          const mode = deed === 'queue' ? 'queue' : 'steer'
          acknowledged.push(prompt(to, owner, session, { text: `Do ${story.length}`, mode }).id)
        })
      case 'interrupt':
        return void asked((to) => interrupt(to, owner, session, { dropQueued: false }))
      case 'drop':
        return void asked((to) => interrupt(to, owner, session, { dropQueued: true }))
      case 'unqueue':
        return void asked(async (to) => {
          const newest = store.prompts.queued(session).at(-1)
          if (newest !== undefined) await dropPrompt(to, owner, session, newest.id)
        })
      case 'stop':
        return void asked((to) => stop(to, owner, session))
      case 'start':
        return void asked((to) => start(to, owner, session))
      case 'pause':
        return void asked((to) => pause(to, owner, session))
      case 'resume':
        return void asked((to) => resume(to, owner, session))
      case 'answer':
        return void asked((to) => answerAll(to))
      case 'budget':
        // Now and then somebody takes money back.
        capMicros = random() < 0.4 ? Math.max(1, capMicros - 25) : capMicros + 20
        return void asked((to) => change(to, owner, session, { budget_micros: capMicros }))
      case 'group budget': {
        const per = (['life', 'day', 'tick'] as const)[Math.floor(random() * 3)]!
        groupMicros[per] += 15
        return void asked((to) => setBudget(to, owner, { node: one.group, per, budget_micros: groupMicros[per] }))
      }
      case 'hours':
        return machine.jump(Math.round(random() * 3 * hourMs))
      case 'kill daemon':
        return kill(one.daemon())
      case 'kill keeper':
        return one.keepers().forEach(kill)
      case 'kill gate':
        return kill(one.gate?.process ?? null)
      case 'kill all':
        return [one.daemon(), one.gate?.process ?? null, ...one.keepers()].forEach(kill)
      case 'power cut':
        return machine.powerCut()
      case 'gate disk':
        return one.failDisk('gate')
      case 'keeper disk':
        return one.failDisk('keeper')
      case 'clock':
        return machine.jump(Math.round((random() - 0.5) * 1e9))
    }
  }
  const kill = (process: ReturnType<House['daemon']>) => {
    if (process !== null) machine.kill(process)
  }
  const anyAnswer = (): AnswerRequest => {
    const kind = random()
    if (kind < 0.2) return { decision: 'later' }
    if (kind < 0.5) return { decision: 'deny', reason: 'no' }
    return { decision: 'allow', ...(kind < 0.6 ? { scope: 'session' } : {}) }
  }
  async function answerAll(parts: NonNullable<House['parts']>): Promise<void> {
    for (const { id } of store.requests.list({ openOnly: true, session: one.session, seenBy: null }))
      await answerRequest(parts, owner, id, anyAnswer()).catch((error: unknown) => {
        if (!(error instanceof Failure)) throw error
      })
  }

  let steps = 0
  const held: Held = { sumNanos: 0, differs: null }
  /** Until nothing happens any more within that time. */
  async function rest(withinMs = soonMs): Promise<void> {
    while (await machine.step(withinMs)) {
      holdAlways(one, held)
      holdBudget(one, store, held, machine.elapsed)
      watcher.look()
      if (bugs.length > 0) throw bugs[0]
      if (++steps > stepsMax) throw new Error('It does not come to rest')
    }
  }
  let end = 0
  /** There is always somebody who starts the daemon again. */
  const tendDaemon = () => {
    if (one.daemon() === null) one.startDaemon()
    if (machine.elapsed < end) machine.later(random() * 2 * plot.spacingMs, tendDaemon)
  }
  try {
    await runAll()
  } catch (error) {
    const log = store.events
      .after(one.session, 0, 1000)
      .map(({ seq, at, type, body }) => `${seq} ${at - 1.7e12} ${type} ${JSON.stringify(body).slice(0, 150)}`)
    throw new Error([`Schedule ${seed}`, ...story, ...one.logged, ...log].join('\n  '), { cause: error })
  } finally {
    watcher.end()
  }
  store.sessions.purge(one.session)

  async function runAll(): Promise<void> {
    const count = plot.from + Math.floor(random() * (plot.to - plot.from))
    end = count * plot.spacingMs + 2000
    tendDaemon()
    for (let i = 0; i < count; i++) {
      const deed = plot.deeds[Math.floor(random() * plot.deeds.length)]!
      machine.later(random() * count * plot.spacingMs, () => act(deed))
    }
    await rest()

    // Whoever comes back finds it as it is, and goes on with it.
    tendDaemon()
    await rest()
    const goOn = async () => {
      const { state } = store.sessions.get(one.session)!
      if (state === 'stopped') act('start')
      if (state === 'paused') act('resume')
      await rest()
      for (let i = 0; i < 20 && store.requests.list({ openOnly: true, session: one.session, seenBy: null }).length > 0; i++) {
        act('answer')
        await rest()
      }
    }
    await goOn()
    act('prompt')
    await rest()
    await goOn()
    // What nobody answered is parked, and closed in the end; what was put off is answered.
    await rest(Infinity)
    holdAtRest({
      one,
      store,
      acknowledged,
      watched: watcher.events,
      said: watcher.said,
      deeds: done,
    })
  }
}

type Held = {
  /** What was spent and set aside the last time. */
  sumNanos: number
  /** Since when the gate goes by another budget than the log, under the same daemon. */
  differs: { readonly parts: House['parts']; readonly gate: House['gate']; readonly since: number } | null
}
const tellMs = 2000

/** The gate goes by the budget that the log has, as soon as it can have heard of it. */
function holdBudget(one: House, store: Store, held: Held, elapsed: number): void {
  const { parts, gate, session } = one
  const lease = gate?.leaseOf(session)
  const budget = store.sessions.get(session)?.budgetNanos
  if (parts === null || lease === undefined || lease.capNanos === budget) return void (held.differs = null)
  if (held.differs?.parts !== parts || held.differs.gate !== gate) held.differs = { parts, gate, since: elapsed }
  if (elapsed - held.differs.since > tellMs)
    throw new Error(`The gate goes by a budget of ${lease.capNanos}, and the log by ${budget}`)
}

/** Spent and set aside never go beyond the cap, at any moment and at any node. */
function holdAlways(one: House, held: Held): void {
  const node = one.gate?.nodeOf(one.group)
  for (const sum of Object.values(node?.sums ?? {})) {
    if (sum.spentNanos + sum.reservedNanos > sum.capNanos!) throw new Error(`The group is above its cap: ${JSON.stringify(node)}`)
    if (sum.reservedNanos < 0) throw new Error(`Less than nothing is set aside for the group: ${JSON.stringify(node)}`)
  }
  const lease = one.gate?.leaseOf(one.session)
  if (lease === undefined || lease.capNanos === null) return
  const sumNanos = lease.spentNanos + lease.reservedNanos
  // What was spent before the cap was lowered cannot be taken back.
  if (sumNanos > Math.max(lease.capNanos, held.sumNanos)) throw new Error(`Above the cap: ${JSON.stringify(lease)}`)
  held.sumNanos = sumNanos
  if (lease.reservedNanos < 0) throw new Error(`Less than nothing is set aside: ${JSON.stringify(lease)}`)
}

type AtRest = {
  readonly one: House
  readonly store: Store
  readonly acknowledged: readonly PromptId[]
  readonly watched: readonly Event[]
  readonly said: ReadonlyMap<string, string>
  readonly deeds: readonly Deed[]
}

/** Each event's hash follows from the one before, up to the head. */
function holdsTogether(store: Store, session: SessionId): void {
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
  const { seq: last, hash } = store.chains.head(session)!
  let previous = firstHash(sha256, session)
  for (let seq = 0; seq < last;) {
    for (const page of store.chains.lines(session, seq, last)) {
      const end = page.line.length - hashTailChars
      previous = nextHash(sha256, previous, page.line.slice(0, end))
      expect(page.line).toBe(hashedLine(page.line.slice(0, end), previous))
      seq = page.seq
    }
  }
  expect(previous).toBe(hash)
}

function holdAtRest({ one, store, acknowledged, watched, said, deeds: all }: AtRest): void {
  const { session } = one
  const log = store.events.after(session, 0, 100_000)
  const row = store.sessions.get(session)!
  const of = <T extends Event['type']>(type: T) =>
    log.filter((event): event is Extract<Event, { type: T }> => event.type === type)
  // Numbers have no gap, and whoever watched has seen the same.
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
  holdsTogether(store, session)
  expect(watched.map(({ seq, type }) => `${seq} ${type}`)).toEqual(log.map(({ seq, type }) => `${seq} ${type}`))
  // The state is what the events make of it.
  let standing: Standing = atBirth
  for (const event of log) standing = after(standing, event).standing
  expect(row.standing).toEqual(standing)
  expect(row.state).toBe(standing.state)
  // One turn at a time, and none is left open.
  let turn = false
  for (const { type, seq } of log) {
    if (type === 'turn.started') {
      expect({ seq, turn }).toEqual({ seq, turn: false })
      turn = true
    }
    if (type === 'turn.ended' || type === 'keeper.lost' || type === 'keeper.left') turn = false
  }
  expect(turn).toBe(false)
  expect(one.keepers()).toEqual([])
  // Every prompt that was acknowledged was taken up once, or dropped by somebody who said so.
  const prompts = of('prompt').map(({ body }) => body.id)
  const dropped = of('prompt.dropped').map(({ body }) => body.id)
  expect(new Set(prompts).size).toBe(prompts.length)
  expect(prompts.filter((id) => dropped.includes(id))).toEqual([])
  expect(new Set(dropped).size).toBe(dropped.length)
  // Beside those that people sent there are those that tell of answers.
  const news = of('prompt.queued').flatMap(({ body }) => (body.text.startsWith('While you were away') ? [body.id] : []))
  expect(new Set([...prompts, ...dropped])).toEqual(new Set([...acknowledged, ...news]))
  // In the order they came, but for those that steer, which may overtake those that queue.
  for (const mode of ['steer', 'queue']) {
    const queued = of('prompt.queued').flatMap(({ body }) => (body.mode === mode ? [body.id] : []))
    expect(prompts.filter((id) => queued.includes(id))).toEqual(queued.filter((id) => prompts.includes(id)))
  }
  // What was handed on has reached an agent, unless a person ended the turn before.
  for (const { seq, body } of of('prompt')) {
    const isOver = log.some((event) => event.seq > seq && event.type === 'turn.ended' && isPersons(event.body.why))
    if (!isOver) expect({ id: body.id, received: one.received.has(body.id) }).toEqual({ id: body.id, received: true })
  }
  for (const [id, times] of one.received) expect({ id, times }).toEqual({ id, times: 1 })
  holdRequests(one, log)
  // Every call is booked once, and the sum is what they cost.
  const usage = of('usage').map(({ body }) => body)
  expect(new Set(usage.map(({ call }) => call)).size).toBe(usage.length)
  expect(row.costNanos).toBe(usage.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0))
  const booked = new Set(usage.map(({ call }) => call))
  for (const call of one.safeCalls) expect({ call, booked: booked.has(call) }).toEqual({ call, booked: true })
  expect(one.gate?.leaseOf(session)?.reservedNanos ?? 0).toBe(0)
  // The nodes above hold the same sum, and no day or tick of them more than it may.
  const began = usage.map(({ began_at }) => began_at!)
  expect(usage.flatMap(({ nodes = [] }) => nodes)).toEqual(usage.flatMap(() => ['owner', one.group]))
  expect(store.ledger.spent(one.group, true, 0, hourMs).life).toBe(row.costNanos)
  for (const at of began) {
    const inDay = usage.filter(({ began_at }) => periodOf('day', began_at!, hourMs) === periodOf('day', at, hourMs))
    expect(store.ledger.spent(one.group, true, at, hourMs).day).toBe(inDay.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0))
  }
  const group = one.gate?.nodeOf(one.group)
  if (group !== undefined) {
    expect(group.sums.life).toMatchObject({ spentNanos: row.costNanos, reservedNanos: 0 })
    for (const span of ['day', 'tick'] as const) expect(group.sums[span].reservedNanos).toBe(0)
  }
  const times = (...which: readonly Deed[]) => all.filter((deed) => which.includes(deed)).length
  // A keeper that is ended is started again; only a session whose keepers never stand has failed.
  if (times('kill keeper', 'kill all', 'power cut', 'keeper disk') < 3)
    expect(of('session.state').filter(({ body }) => body.to === 'failed')).toEqual([])
  // A gate that dies is there again before an agent gives up.
  if (times('kill gate') < 2 && times('kill all', 'power cut', 'gate disk', 'kill daemon') === 0)
    expect(of('turn.ended').filter(({ body }) => body.reason === 'error')).toEqual([])
  // What a turn has cost is known when it ends.
  if (times('clock', 'kill gate', 'kill all', 'power cut', 'gate disk') === 0)
    for (const ended of of('turn.ended'))
      // One that began at once may have made calls by then.
      if (ended.body.reason === 'done' && !of('turn.started').some(({ at }) => at >= ended.at && at < ended.at + 20))
        expect(of('usage').filter(({ seq, at }) => seq > ended.seq && at < ended.at)).toEqual([])
  // What was shown is stored, unless the power went: it is not synced.
  if (times('power cut') > 0) return
  const stored = new Map(of('text').map(({ body }) => [body.block, body.text]))
  for (const [block, text] of said) expect({ block, text: stored.get(block)?.slice(0, text.length) }).toEqual({ block, text })
}

const isPersons = (why: string | null) => why === 'Asked to stop' || why?.startsWith('Stopped by') === true

/** Nothing happens that was not let, nothing is let twice, and whoever asked hears what became of it. */
function holdRequests({ performed }: House, log: readonly Event[]): void {
  const of = <T extends Event['type']>(type: T) =>
    log.filter((event): event is Extract<Event, { type: T }> => event.type === type)
  const opened = new Map(of('request.opened').map(({ body }) => [body.id, body]))
  const answers = new Map(of('request.answered').map(({ body }) => [body.id, body.answer]))
  expect(opened.size).toBe(of('request.opened').length)
  expect(answers.size).toBe(of('request.answered').length)
  expect(new Set(answers.keys())).toEqual(new Set(opened.keys()))
  const told = of('request.told').map(({ body }) => body.id)
  expect(new Set(told).size).toBe(told.length)
  for (const [id, { decision }] of answers)
    if (decision !== 'withdrawn') expect({ id, decision, told: told.includes(id) }).toEqual({ id, decision, told: true })
  const used = of('grant.used').map(({ body }) => body)
  for (const { request, digest } of used) {
    const { decision, scope } = answers.get(request)!
    expect(decision).toBe('allow')
    if (scope === 'session') continue
    expect(opened.get(request)!.digest).toBe(digest)
    expect(used.filter((one) => one.request === request)).toHaveLength(1)
  }
  const letBy = new Set([...used.map(({ call }) => call), ...of('decision').map(({ body }) => body.call)])
  for (const { kind, what } of performed) if (kind === 'tool') expect({ what, let: letBy.has(what) }).toEqual({ what, let: true })
  const net = (host: string) =>
    used.filter(({ request }) => {
      const { action } = opened.get(request)!
      return action.kind === 'net' && action.host === host
    }).length
  for (const host of new Set(performed.flatMap(({ kind, what }) => (kind === 'net' ? [what] : []))))
    expect(performed.filter(({ kind, what }) => kind === 'net' && what === host).length).toBeLessThanOrEqual(net(host))
}

/** Somebody who watches from the beginning and comes back whenever a daemon is there. */
function watch(one: House, store: Store) {
  const events: Event[] = []
  const said = new Map<string, string>()
  let current: { readonly parts: House['parts']; readonly end: AbortController } | null = null
  async function follow(parts: NonNullable<House['parts']>, { signal }: AbortController): Promise<void> {
    const read = (from: number, limit: number) => store.events.after(one.session, from, limit)
    for await (const seen of parts.hub.watch({ session: one.session, after: events.at(-1)?.seq ?? 0, read, signal })) {
      if (signal.aborted) return
      if ('event' in seen) events.push(seen.event)
      else if (seen.live.type === 'text.delta') {
        const before = said.get(seen.live.block) ?? ''
        expect(seen.live.offset).toBeLessThanOrEqual(before.length)
        said.set(seen.live.block, before.slice(0, seen.live.offset) + seen.live.text)
      }
    }
  }
  return {
    events,
    said,
    /** Follows the daemon that is there now. */
    look() {
      if (current?.parts === one.parts) return
      current?.end.abort()
      current = one.parts === null ? null : { parts: one.parts, end: new AbortController() }
      if (current !== null) void follow(current.parts!, current.end)
    },
    end: () => current?.end.abort(),
  }
}
