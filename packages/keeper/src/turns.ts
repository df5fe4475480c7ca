import type { Authority } from '@anchorhold/core/authority/authority'
import { breakerWatch, type BreakerWatch } from '@anchorhold/core/breakers'
import { leavesWork } from '@anchorhold/core/session-states'
import type { Clock } from '@anchorhold/link/clock'
import type { BlockId, EventBody } from '@anchorhold/protocol/events'
import type { PromptId } from '@anchorhold/protocol/ids'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import type { Settlement } from '@anchorhold/protocol/link'
import type { TurnCause, TurnEnd } from '@anchorhold/protocol/sessions'
import { answerWithin } from './agents/answer-within.ts'
import type { Agent, AgentListener, AgentResult } from './agents/agent.ts'
import type { Journal } from './journal.ts'
import type { Pause } from './pause.ts'
import { prompts as makePrompts, type WaitingPrompt } from './prompts.ts'
import { exposedNotice, unseenNotice } from './repo-filter/notices.ts'
import type { Veil } from './repo-filter/veil.ts'

/** The turns of a session, one at a time: what its agent is given, and each from its beginning to an end that is told once its usage is
 *  settled. What is done in order (`handOn`, `end`, `takeUp`) is the caller's to call in order. */
export interface Turns {
  /** How many have begun. */
  readonly count: number
  readonly running: boolean
  /** Whether the running turn is not to go on. */
  readonly isCut: boolean
  /** Nothing runs, and nothing waits to be run. */
  readonly quiet: boolean
  /** Whether a prompt is just being handed on: it waits no more, and the agent does not have it yet. */
  readonly handing: boolean
  /** False for a prompt that was taken before. It is handed on with the next `handOn`. */
  take(prompt: WaitingPrompt): boolean
  isWaiting(prompt: PromptId): boolean
  /** Journals those that the agent was not given, and never will be. */
  drop(prompts: readonly PromptId[], by: Omit<EventBody<'prompt.dropped'>, 'id'>): Promise<void>
  /** There is an agent now. What it has no memory of is handed to it once more. */
  takeUp(agent: Agent): Promise<void>
  /** Gives the agent what waits for it, as far as the prompts' modes allow. */
  handOn(): Promise<void>
  interrupt(cut: Cut): Promise<void>
  /** The running turn will not have come to its own end, whatever the agent says. A later cut does not replace an earlier one. */
  cut(cut: Cut): void
  /** Begins the turn of a prompt that came too late for the one before, where the agent has not come to it by itself. */
  beginOwed(): Promise<void>
  /** Ends the running turn, if there is one. */
  end(crashed: string | null): Promise<void>
  readonly heard: Pick<AgentListener, 'event' | 'state' | 'tasks' | 'result'>
}

export type TurnsOptions = {
  readonly timeoutMs: number | null
  readonly start: Pick<KeeperStart['agent'], 'take_up' | 'unfinished'>
  readonly journal: Journal
  readonly check: Authority
  readonly pause: Pause
  readonly veil: Veil
  readonly settle: () => Promise<Settlement | null>
  readonly clock: Clock
  /** Of the cell that the agent is in. */
  readonly slowness: () => number
  /** Does this after all that was heard before. */
  readonly behind: (work: () => Promise<unknown>) => void
  /** Something began or ended. */
  readonly onChange: () => void
  /** A turn is over, and that is told. */
  readonly onEnded: () => void
  /** The agent did not stop when it was asked to. */
  readonly onStuck: () => void
  readonly die: (error: unknown) => void
  /** Aborted when the keeper leaves. */
  readonly leaving: AbortSignal
}

/** Why a turn is not to go on. What the agent has not read by then is over with a turn that a person ended, and is still wanted otherwise. */
export type Cut = {
  readonly reason: Extract<TurnEnd, 'interrupted' | 'breaker' | 'waiting'>
  readonly why: string
  readonly unread: 'dropped' | 'kept'
}
type Turn = {
  readonly startedAt: number
  readonly prompt: PromptId | null
  /** `again` where a keeper before this one had handed it on already. */
  readonly given: 'once' | 'again'
  cut: Cut | null
  /** Of one that the agent began by itself while the turn before was being cut: it was told to stop this one, too. */
  readonly cutBefore: Cut | null
  /** Resolves when the agent was told to stop, and what it let go is known. */
  stopping: Promise<void>
  /** Whether the agent has said or done anything in it. */
  heard: boolean
  ending: boolean
  readonly circles: BreakerWatch
  readonly inTime: () => void
}

/** How long an interrupted agent may take to say that it is idle. */
const interruptGraceMs = 5000
/** How long an agent that has come to rest may take to go on with what came too late for its turn. */
const owedMs = 30_000

export function turns(options: TurnsOptions): Turns {
  const {
    timeoutMs,
    start,
    journal,
    check,
    pause,
    veil,
    settle,
    clock,
    slowness,
    behind,
    onChange,
    onEnded,
    onStuck,
    die,
    leaving,
  } = options
  let agent: Agent | null = null
  let agentState: 'running' | 'idle' = 'idle'
  /** Background tasks of the agent. */
  let tasks = 0
  let turn: Turn | null = null
  let result: AgentResult | null = null
  let count = 0
  let handing = false
  /** How the turn before was cut, and when that was over: what the agent had begun by then it begins to tell of now. */
  let cutBefore: { readonly how: Cut; readonly at: number } | null = null
  const prompts = makePrompts()

  async function begin(cause: TurnCause, prompt: PromptId | null, given: Turn['given'] = 'once'): Promise<void> {
    const tooLong = (ms: number) =>
      void interrupt({ reason: 'interrupted', why: `It took longer than ${ms / 1000} s`, unread: 'kept' }).catch(die)
    result = null
    turn = {
      startedAt: clock.elapsed(),
      prompt,
      given,
      cut: null,
      cutBefore: cause === 'task' && isJust(cutBefore) ? cutBefore.how : null,
      stopping: Promise.resolve(),
      heard: false,
      ending: false,
      circles: breakerWatch(check.policy.breakers),
      inTime: timeoutMs === null ? () => {} : clock.after(timeoutMs, () => tooLong(timeoutMs)),
    }
    count++
    await journal.write({ type: 'turn.started', body: { cause, prompt } })
  }

  function isJust(ended: typeof cutBefore): ended is NonNullable<typeof cutBefore> {
    return ended !== null && clock.elapsed() - ended.at < interruptGraceMs * slowness()
  }

  /** A turn that no prompt began: a background task came back, a steering prompt arrived after the end, or the agent goes on with what a
   *  crash had cut short. */
  async function beginByItself(): Promise<void> {
    const [prompt] = prompts.unconfirmed()
    if (prompt !== undefined) return begin('prompt', prompt)
    if (start.take_up && count === 0) return begin('resume', start.unfinished.at(-1)?.id ?? null, 'again')
    return begin('task', null)
  }

  async function beginOwed(): Promise<void> {
    const [owed] = prompts.unconfirmed()
    if (turn === null && owed !== undefined) await begin('prompt', owed)
  }

  /** What an agent that rests has not taken up by then it never will: that is an end, too. */
  function endOwedInTime(): void {
    const before = count
    clock.after(owedMs * slowness(), () =>
      behind(async () => {
        if (count !== before || agentState === 'running' || leaving.aborted) return
        for (const id of prompts.unconfirmed().slice(1)) prompts.confirm(id)
        await beginOwed()
        await end(null)
      }),
    )
  }

  const openNow = () => new Set(journal.saying().map(({ block }) => block))

  /** `open` is what the agent was saying when it came to rest. Where it has begun something since, whatever else is open belongs to that. */
  async function end(crashed: string | null, open?: ReadonlySet<BlockId>): Promise<void> {
    const ending = turn
    if (ending === null) return
    ending.ending = true
    ending.inTime()
    // An agent that took up its turn by itself may not have come to a prompt that it was given meanwhile, or once more; nor has one whose
    // turn was parked before it said anything. The next one knows what it has read.
    const isUnread = ending.cut?.reason === 'waiting' && !ending.heard
    const isUnsure = isUnread || (leaving.aborted && (ending.given === 'again' || (start.take_up && count === 1)))
    if (ending.prompt !== null && !isUnsure) prompts.confirm(ending.prompt)
    // What waits for a background task is still wanted.
    if (tasks === 0) await check.takeBackAll('The turn ended before anybody answered')
    await journal.closeBlocks(agentState === 'running' ? open : undefined)
    const settlement = await settle()
    await ending.stopping
    // What a person ended is over, whether the agent had come to it or not.
    if (ending.cut?.unread === 'dropped') for (const id of prompts.unconfirmed()) prompts.confirm(id)
    const how = howItEnded(ending, crashed, result, settlement)
    turn = null
    cutBefore = ending.cut === null ? null : { how: ending.cut, at: clock.elapsed() }
    // What the agent had not read when it was done, or let go.
    const left = crashed === null ? prompts.unfinished() : []
    const body = {
      ...how,
      duration_ms: Math.round(clock.elapsed() - ending.startedAt),
      ...(left.length > 0 ? { left: [...left] } : {}),
      ...(tasks > 0 && !leaving.aborted ? { tasks } : {}),
      ...(result?.context === undefined ? {} : { context: result.context }),
    }
    await journal.write(
      { type: 'turn.ended', body },
      settlement === null ? undefined : { source: settlement.source, n: settlement.n },
    )
    const watched = veil.watches
    const exposed = await veil.uncovered()
    if (exposed.length > 0) await journal.write(exposedNotice(exposed))
    if (watched && !veil.watches) await journal.write(unseenNotice)
    await handOn()
    if (leavesWork(body)) endOwedInTime()
    onEnded()
  }

  async function handOn(): Promise<void> {
    // What steers a turn that was cut would be cut with it.
    while (agent !== null && !leaving.aborted && turn?.cut == null) {
      const next = prompts.next(turn === null ? 'rest' : 'turn')
      if (next === null) break
      const { id, text, images } = next
      handing = true
      await journal.write(
        next.again ? { type: 'prompt.again', body: { id } } : { type: 'prompt', body: { id, text, images: images.length } },
      )
      if (turn === null) await begin(next.cause, id, next.again ? 'again' : 'once')
      prompts.handed(next)
      agent.send(next)
      handing = false
    }
    onChange()
  }

  function cut(how: Cut): void {
    if (turn !== null) turn.cut ??= how
  }

  async function interrupt(how: Cut): Promise<void> {
    if (turn === null || agent === null) return
    cut(how)
    const interrupted = turn
    // Before anything that lets the agent go on: it is to stop where it is.
    const graceMs = interruptGraceMs * slowness()
    const letGo = answerWithin(clock, graceMs, agent.interrupt()).catch(() => [])
    const before = interrupted.stopping
    interrupted.stopping = letGo.then(async (ids) => {
      await before
      const others = ids.filter((id) => id !== interrupted.prompt)
      if (interrupted.cut?.unread === 'kept') prompts.takeBack(others)
      // It had not even begun: no word of its end will come.
      const open = openNow()
      if (others.length < ids.length && agentState === 'idle') behind(async () => turn === interrupted && end(null, open))
    })
    await check.takeBackAll(how.why)
    // A paused tool would hold the turn open.
    pause.refuseHeld()
    // Whatever it says later would be taken for the next turn's: such an agent is let go, and another one goes on in its place.
    clock.after(graceMs, () => turn === interrupted && !interrupted.ending && onStuck())
    await interrupted.stopping
  }

  return {
    get count() {
      return count
    },
    get running() {
      return turn !== null
    },
    get isCut() {
      return turn?.cut != null
    },
    get quiet() {
      return turn === null && prompts.waiting === 0 && tasks === 0 && agentState === 'idle'
    },
    get handing() {
      return handing
    },
    take: prompts.take,
    isWaiting: prompts.isWaiting,
    async drop(ids, by) {
      await Promise.all(ids.filter(prompts.drop).map((id) => journal.write({ type: 'prompt.dropped', body: { id, ...by } })))
      onChange()
    },
    async takeUp(started) {
      agent = started
      prompts.know(start.unfinished.map(({ id }) => id))
      const unseen = start.unfinished.filter(({ id }) => started.unseen.includes(id))
      if (start.take_up)
        return prompts.putFirst(unseen.map((prompt) => ({ ...prompt, mode: 'steer', cause: 'resume', again: true })))
      for (const prompt of unseen) {
        await journal.write({ type: 'prompt.again', body: { id: prompt.id } })
        started.remind(prompt)
      }
    },
    handOn,
    interrupt,
    cut,
    beginOwed,
    end,
    heard: {
      event: (event) =>
        behind(async () => {
          // Not waited for: what comes in while the disk is busy goes out with the next group.
          void journal.write(event)
          if (turn !== null) turn.heard = true
          const circles = turn?.circles.saw(event) ?? null
          if (circles === null || turn === null || turn.cut !== null) return
          void interrupt({ reason: 'breaker', why: circles, unread: 'kept' }).catch(die)
        }),
      state(state) {
        agentState = state
        if (state === 'running') onChange()
        const open = openNow()
        behind(async () => {
          if (state === 'running') {
            if (turn === null && !leaving.aborted && agentState === 'running') await beginByItself()
          } else {
            if (agentState === 'idle') await end(null, open)
            onChange()
          }
        })
      },
      tasks(living) {
        tasks = living
        onChange()
      },
      result: (ended) =>
        behind(async () => {
          result = ended
          for (const id of ended.prompts) prompts.confirm(id)
        }),
    },
  }
}

function howItEnded(
  turn: Turn,
  crashed: string | null,
  result: AgentResult | null,
  settlement: Settlement | null,
): { readonly reason: TurnEnd; readonly why: string | null } {
  if (crashed !== null) return { reason: 'crashed', why: crashed }
  if (turn.cut !== null) return { reason: turn.cut.reason, why: turn.cut.why }
  if (result === null) return { reason: 'error', why: 'The agent ended its turn without a result' }
  if (result.ok) return { reason: 'done', why: null }
  if (turn.cutBefore !== null) return { reason: turn.cutBefore.reason, why: turn.cutBefore.why }
  // The gate's word counts here, not what the agent makes of its answer.
  if (settlement?.refused === 'asked') return { reason: 'waiting', why: result.why }
  if (settlement?.refused === 'budget') return { reason: 'budget', why: result.why }
  return { reason: 'error', why: result.why }
}
