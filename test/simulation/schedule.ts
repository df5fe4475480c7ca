import { setBudget } from '@anchorhold/daemon/app/money/ledger'
import { answerRequest } from '@anchorhold/daemon/app/requests/requests'
import { change, interrupt, pause, resume, start, stop } from '@anchorhold/daemon/app/sessions/lifecycle'
import { dropPrompt } from '@anchorhold/daemon/app/prompts/drop'
import { prompt } from '@anchorhold/daemon/app/prompts/prompt'
import { sqliteStore } from '@anchorhold/daemon/store/sqlite/sqlite-store'
import type { Store } from '@anchorhold/daemon/store/store'
import type { AnswerRequest } from '@anchorhold/protocol/api/requests'
import { Failure } from '@anchorhold/protocol/failures'
import type { PromptId } from '@anchorhold/protocol/ids'
import { runs } from '@anchorhold/protocol/test-runs'
import { test } from 'vitest'
import { seeded } from '../seeded.ts'
import { type Held, holdAlways, holdAtRest, holdBudget } from './held.ts'
import { house, type House, owner } from './house.ts'
import { machine as makeMachine } from './machine.ts'
import { watch } from './watcher.ts'

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
  ...(['kill gate', 'kill all', 'power cut', 'gate disk', 'keeper disk', 'unreadable', 'clock'] as const),
]
export type Deed = (typeof deeds)[number]

/** What kind of story a schedule tells: how many deeds, how close together. */
type Plot = { readonly deeds: readonly Deed[]; readonly from: number; readonly to: number; readonly spacingMs: number }

/** Everything that happens to a session in its life. */
export const lives: Plot = { deeds, from: 3, to: 13, spacingMs: 600 }
/** A few prompts, and everything dies around them while they are on their way. */
export const races: Plot = {
  deeds: [
    ...(['prompt', 'queue', 'prompt', 'interrupt', 'stop', 'start'] as const),
    ...(['kill daemon', 'kill keeper', 'kill gate', 'kill all', 'unreadable'] as const),
  ],
  from: 3,
  to: 8,
  spacingMs: 60,
}

/** An agent that wants more than it may, people who answer, and everything dies around them. */
export const asks: Plot = {
  deeds: [
    ...(['prompt', 'prompt', 'queue', 'answer', 'answer', 'answer', 'answer', 'answer', 'answer', 'interrupt', 'stop'] as const),
    ...(['start', 'pause', 'resume', 'kill daemon', 'kill keeper', 'kill gate', 'kill all', 'power cut', 'keeper disk'] as const),
    ...(['unreadable'] as const),
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

/** How many there are of what a thorough run has so many of; `SCHEDULES` and `SCHEDULE_SEED` choose others. */
export const countOf = (thorough: number): number => Number(process.env.SCHEDULES ?? runs(thorough))
export const firstSeed = Number(process.env.SCHEDULE_SEED ?? 1)

/** A test of so many schedules. */
export function testSchedules(plot: Plot, usual: number, what: string): void {
  const count = countOf(usual)
  const first = firstSeed
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
      case 'unreadable':
        // Now for as long as it is tried again, and now for longer.
        return one.failRemains(random() < 0.5 ? 3000 : 60_000)
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
  const held: Held = { sumNanos: 0, differs: null, budgetSeenAt: -Infinity }
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

    // Whoever comes back finds it as it is, on a disk that was mended, and goes on with it.
    one.failRemains(0)
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
