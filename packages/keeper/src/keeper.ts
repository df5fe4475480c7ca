import { authority } from '@anchorhold/core/authority/authority'
import { toolMeaning } from '@anchorhold/core/policy/tool-meaning'
import type { Clock } from '@anchorhold/link/clock'
import type { Outbox } from '@anchorhold/link/outbox'
import { watchPulse } from '@anchorhold/link/pulse'
import type { LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import { Failure, type FailureCode } from '@anchorhold/protocol/failures'
import { newRequestId, type RandomBytes } from '@anchorhold/protocol/ids'
import { KeeperCommand } from '@anchorhold/protocol/keeper-commands'
import { type KeeperStart } from '@anchorhold/protocol/keeper-start'
import { type Settlement } from '@anchorhold/protocol/link'
import { slownessOf } from '@anchorhold/protocol/rungs'
import type { CheckedOut } from '@anchorhold/protocol/workspace'
import { createHash } from 'node:crypto'
import { agentStart } from './agent-start.ts'
import { answerWithin } from './agents/answer-within.ts'
import type { Agent, AgentDriver, AgentListener } from './agents/agent.ts'
import { cellSpec } from './cell-spec.ts'
import type { Cell, CellDriver } from './cells/cell.ts'
import type { Toolchain } from './cells/toolchains.ts'
import { journal as makeJournal } from './journal.ts'
import { outfit as makeOutfit, requireToolchains } from './outfit.ts'
import { pause as makePause } from './pause.ts'
import type { PinFiles } from './pins.ts'
import { hiddenNotice, trackedNotice, unwatchedNotice } from './repo-filter/notices.ts'
import type { Veil } from './repo-filter/veil.ts'
import { requireLimits } from './require-limits.ts'
import { beginHistory } from './snapshot.ts'
import { type Cut, turns as makeTurns } from './turns.ts'
import { visitors as makeVisitors } from './visitors.ts'
import { repositoryWatch } from './workspace/repository-watch.ts'

/** One live session: its cell, its agent, and what becomes of prompts and requests. */
export interface Keeper {
  handle(command: unknown): Promise<unknown>
  /** What the agent has said and not finished. */
  saying(): readonly LiveFrame[]
  /** Resolves when the keeper has left: agent and cell are gone, and the outbox says why. */
  readonly left: Promise<void>
  /** Ends everything and leaves because the machine wants it to. No person has ended the turn: it is cut short as by a crash. */
  goDown(why: string): Promise<void>
}

export type KeeperOptions = {
  readonly start: KeeperStart
  readonly cells: CellDriver
  readonly agents: AgentDriver
  readonly toolchains: readonly Toolchain[]
  readonly veil: Veil
  readonly outbox: Outbox
  readonly live: (frame: LiveFrame) => void
  /** Told of every event once it is in the outbox. */
  readonly stored?: (event: NewEvent) => void
  /** Has the gate settle the session's calls; null when the gate does not answer. */
  readonly settle: () => Promise<Settlement | null>
  /** Looks inside the cell at what a tool call would execute. */
  readonly pinFiles: PinFiles
  /** Resolves when what the agent finds in its cell is written; and writes what its programs do, and it can be started without. */
  readonly furnish: { agent(): Promise<void>; programs(): Promise<void> }
  /** Looks inside the cell at what its repository has checked out; null where that cannot be told. */
  readonly checkedOut: (cell: Cell) => Promise<CheckedOut | null>
  /** How often an agent at work is asked whether it still answers; null for never. */
  readonly agentBeatMs: number | null
  readonly clock: Clock
  readonly random: RandomBytes
  /** Ends this process: what it met must not be gone on from. */
  readonly die: (error: unknown) => void
}

/** How long an agent may take to answer what it is asked. */
const answerMsMax = 5000
/** How many answers an agent at work may owe. */
const agentMissedMax = 6
/** How long a leaving keeper waits for the agent to write down how its turn ended. */
const farewellMs = 1000

export function keeper(options: KeeperOptions): Keeper {
  const {
    start,
    cells,
    agents,
    toolchains,
    veil,
    outbox,
    live,
    stored = () => {},
    settle,
    pinFiles,
    furnish,
    checkedOut,
    agentBeatMs,
    clock,
    random,
    die,
  } = options
  const { place, agent: told, policy } = start
  const { session } = place
  let cell: Cell | null = null
  let agent: Agent | null = null
  const slowness = () => slownessOf(cell?.limits ?? [])
  const stands = Promise.withResolvers<Cell>()
  stands.promise.catch(() => {})
  const leaving = new AbortController()
  const left = Promise.withResolvers<void>()

  // What the agent says, prompts, ends of turns and leaving are taken one after the other, in the order they came.
  let last: Promise<unknown> = Promise.resolve()
  function inOrder<T>(work: () => Promise<T>): Promise<T> {
    const next = last.then(work)
    last = next.catch(() => {})
    return next
  }
  /** What happens behind a command's back has nobody to fail to: a keeper that met a bug must not go on as if it had not. */
  const behind = (work: () => Promise<unknown>): void => void inOrder(work).catch(die)

  const outfit = makeOutfit(start, toolchains)
  const journal = makeJournal({ session, outbox, live, stored, die })
  const pause = makePause()
  const repository = repositoryWatch(
    told.checked_out,
    checkedOut,
    (found) => void journal.write({ type: 'workspace.at', body: found }),
  )
  const check = authority({
    terms: policy.authority,
    name: 'keeper',
    // An agent that dies asks for nothing any more, and is heard of as gone right after.
    whenLeft: { takeBack: (work) => void clock.after(0, work) },
    // What nobody waits for goes out with the next group.
    write: (event) => void journal.write(event),
    flush: journal.flush,
    inOrder,
    mayAsk: () => !leaving.signal.aborted,
    now: clock.now,
    newRequest: () => newRequestId(random),
    sha256: (text) => createHash('sha256').update(text).digest('hex'),
  })
  const turns = makeTurns({
    ...{ timeoutMs: policy.timeout_ms, start: told, journal, check, pause, veil, settle, clock, slowness, behind, die },
    onChange: restIfQuiet,
    // Nobody waits for it: the next turn may begin meanwhile.
    onEnded: () => cell !== null && void repository.look(cell),
    onStuck: () => leaveBehind('The agent did not stop when it was asked to'),
    leaving: leaving.signal,
  })
  const visitors = makeVisitors({ start, outfit, stands: stands.promise, journal, clock, random, onChange: restIfQuiet })

  behind(async () => {
    try {
      await startUp()
      await turns.handOn()
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      const hint = error instanceof Failure && error.hint !== undefined ? ` (${error.hint})` : ''
      leaveBehind(`${why}${hint}`, { failed: true, ...(error instanceof Failure ? { code: error.code } : {}) })
    }
  })

  async function startUp(): Promise<void> {
    requireToolchains(policy.toolchains, toolchains)
    const covers = await veil.cover()
    const mounts = [...agents.mounts({ ...place.files, program: told.program }), ...outfit.mounts]
    cell = await cells.start(
      cellSpec(place, {
        ...{ mounts, covers, network: policy.network === 'host' ? 'host' : 'none' },
        ...(policy.caches === null ? {} : { caches: policy.caches }),
      }),
      leaving.signal,
    )
    requireLimits(cell.limits, policy.require_limits)
    await furnish.agent()
    const tracked = await veil.keepTracked(cell, covers, `${place.folder}/home`)
    if (policy.snapshot) await beginHistory(cell, cell.place(place.workspace), cell.place(`${place.folder}/home`))
    void cell.ended.then((why) => leaveBehind(why, { crashed: true }))
    leaving.signal.throwIfAborted()
    // Before the agent can do anything: its programs find all that they need, and against this commit its changes are held. One that
    // neither goes on by itself nor loads what a workspace has for it does nothing before it is given a prompt.
    const actsByItself = told.take_up || told.workspace_settings === 'load'
    const makeReady = async (made: Cell) => {
      await furnish.programs()
      stands.resolve(made)
      await repository.look(made)
    }
    if (actsByItself) await makeReady(cell)
    const started = await agents.start(agentStart(start, { cell, outfit, heard }))
    if (!actsByItself) await makeReady(cell)
    agent = started
    // Whatever stopped it, it takes up nothing any more, and would be at work for ever.
    const pulse = {
      get open() {
        return !leaving.signal.aborted
      },
      do: async () => (turns.running ? started.answers() : undefined),
    }
    const onHung = () => leaveBehind(noAnswer, { crashed: true })
    // One that runs where all is slower has as much more time.
    if (agentBeatMs !== null) watchPulse(pulse, { clock, beatMs: agentBeatMs * slowness(), missedMax: agentMissedMax, onHung })
    await journal.write({
      type: 'keeper.started',
      body: {
        rung: place.rung,
        agent: agents.name,
        agent_version: told.version,
        limits: [...cell.limits],
        resumed: agent.resumed,
      },
    })
    // Those whose turns were all cut short before the agent had written anything down are told anew.
    if (told.turns > told.unfinished.length && !agent.resumed) await journal.write(memoryLost)
    const hidden = covers.map(({ path }) => path.slice(place.workspace.length + 1))
    if (hidden.length > 0) await journal.write(hiddenNotice(hidden))
    if (tracked.length > 0) await journal.write(trackedNotice(tracked))
    if (!veil.watches) await journal.write(unwatchedNotice)
    await turns.takeUp(agent)
  }

  const heard: AgentListener = {
    ...turns.heard,
    stored: () => inOrder(journal.flush),
    live: journal.live,
    ask: (action, call, signal) => check.ask({ action, call }, signal),
    async mayRun(tool, input, call, signal, folder) {
      const before = await heldBack()
      if (before !== null) return { allow: false, why: before }
      const [workspace, home] = [place.workspace, `${place.folder}/home`].map((one) => cell?.place(one) ?? one)
      const meaning = toolMeaning(
        { kind: 'tool', tool, input },
        { workspace: workspace!, home: home!, folder: folder ?? workspace! },
      )
      const pins = async () =>
        cell === null
          ? []
          : pinFiles(
              cell,
              { ...place, snapshots: agents.shellSnapshots, path: outfit.path, shell: folder ?? workspace! },
              meaning,
            )
      const verdict = await check.judge({ meaning, call, pins }, () => signal)
      // It may have been paused while a person was asked.
      const after = verdict.allow ? await heldBack() : null
      return after === null ? verdict : { allow: false, why: after }
    },
    gone: (why) => leaveBehind(endedOf(why), { crashed: true }),
  }
  /** A killed process knows nothing of what killed it. */
  function endedOf(why: string): string {
    const { ending = null, met = null } = cell?.trouble ?? {}
    return ending ?? (met === null ? why : `${why}: ${met}`)
  }
  /** Waits while the session is paused. A sentence where nothing may run any more. */
  async function heldBack(): Promise<string | null> {
    const passed = leaving.signal.aborted ? 'refused' : await pause.passed()
    if (leaving.signal.aborted) return 'The session is being stopped'
    return passed === 'refused' || turns.isCut ? 'The turn was interrupted' : null
  }

  /** Stops the timer by which a keeper that has nothing to do leaves. */
  let stayUp = () => {}
  function restIfQuiet(): void {
    stayUp()
    if (leaving.signal.aborted || agent === null || !turns.quiet || visitors.shells > 0) return
    stayUp = clock.after(turns.count === 0 ? policy.unused_ms : policy.idle_ms, () => leaveBehind('idle'))
  }

  async function leave(why: string, how: Leaving = {}): Promise<void> {
    const { crashed = false, failed = false, parked = false, down = false, unread = 'kept', code } = how
    const cut = { reason: parked ? ('waiting' as const) : ('interrupted' as const), why, unread }
    const isCrash = crashed || down
    if (leaving.signal.aborted) return left.promise
    leaving.abort()
    // Whoever leaves takes nothing back: what was asked can be answered, and the next keeper tells the agent.
    check.leaveAll()
    stayUp()
    stands.reject(refusal())
    visitors.leave()
    pause.refuseHeld()
    if (turns.running && !isCrash) {
      turns.cut(cut)
      // The agent writes down how its turn ended, which the next keeper's resume reads.
      if (agent !== null) await answerWithin(clock, farewellMs, agent.interrupt()).catch(() => {})
    }
    const end = async () => {
      await agent?.[Symbol.asyncDispose]()
      await cell?.[Symbol.asyncDispose]()
    }
    await end()
    await inOrder(async () => {
      // Once more: what was still being started stands by now, and so does a turn that was just beginning.
      await end()
      if (isCrash) await turns.beginOwed()
      else turns.cut(cut)
      await turns.end(isCrash ? why : null)
      // An agent that took up its turn while it was being stopped has spoken without one.
      await journal.closeBlocks()
      // What dies before it did anything would die again: the session has failed, and is not tried over and over.
      const hasFailed = failed || (crashed && turns.count === 0)
      await journal.write({ type: 'keeper.left', body: { why, failed: hasFailed, ...(code === undefined ? {} : { code }) } })
    })
    left.resolve()
  }
  const leaveBehind = (...how: Parameters<typeof leave>): void => void leave(...how).catch(die)
  const refusal = () => new Failure('wrong_state', `Session "${session}" is being left by its keeper`)

  function state(): 'leaving' | 'paused' | 'waiting' | 'working' | 'idle' {
    if (leaving.signal.aborted) return 'leaving'
    if (pause.on) return 'paused'
    if (check.waiting > 0) return 'waiting'
    return turns.running ? 'working' : 'idle'
  }

  async function handle(raw: unknown): Promise<unknown> {
    const command = KeeperCommand.parse(raw)
    if (leaving.signal.aborted && command.do !== 'ping' && command.do !== 'leave') throw refusal()
    switch (command.do) {
      case 'ping':
        return { state: state(), limits: cell?.limits ?? [], idle_ms: policy.idle_ms }
      case 'prompt':
        if (!turns.take(command)) return { had: true }
        // It has something to do from now on, also while that is being written down.
        stayUp()
        await inOrder(turns.handOn)
        // It began to leave in between: the next keeper is to have this prompt.
        if (leaving.signal.aborted && turns.isWaiting(command.id)) throw refusal()
        return { had: false }
      case 'interrupt':
        // What the agent is about to be given is what is to stop.
        if (!turns.running || turns.handing) await inOrder(turns.beginOwed)
        await turns.interrupt({ reason: 'interrupted', why: 'Asked to stop', unread: 'dropped' })
        return null
      case 'drop': {
        const { prompts, why, actor, door } = command
        await turns.drop(prompts, { why, actor, door })
        return null
      }
      case 'pause':
        pause.hold()
        return null
      case 'resume':
        pause.release()
        return null
      case 'answer':
        return check.answer(command)
      case 'policy':
        check.setPolicy(command.policy)
        return null
      case 'model':
        // In order: an agent that is still being started was told of the old one.
        await inOrder(async () => agent !== null && answerWithin(clock, answerMsMax * slowness(), agent.setModel(command.model)))
        return null
      case 'commands':
        await stands.promise
        // In order: until then there is no agent to ask.
        await inOrder(async () => {})
        return agent === null ? [] : answerWithin(clock, answerMsMax * slowness(), agent.commands())
      case 'workspace':
      case 'shell.open':
      case 'shell.write':
      case 'shell.size':
      case 'shell.read':
      case 'shell.close':
        return visitors.handle(command)
      case 'park':
        await leave(command.why, { parked: true })
        return null
      case 'leave':
        await leave(command.why, { unread: command.unread ?? 'dropped' })
        return null
    }
  }

  return { handle, saying: journal.saying, left: left.promise, goDown: (why) => leave(why, { down: true }) }
}

const noAnswer = 'The agent answered nothing any more: it hangs, or a signal stopped it'

/** Why a keeper goes, beyond what is said of it. */
type Leaving = {
  readonly crashed?: boolean
  readonly failed?: boolean
  /** The machine ends it; that says nothing about the session. */
  readonly down?: boolean
  /** What the agent has not read goes to the next one, unless a person ended the turn. */
  readonly unread?: Cut['unread']
  /** What it asked stays open, and its turn waits for the answer. */
  readonly parked?: boolean
  readonly code?: FailureCode
}

const memoryLost: NewEvent = {
  type: 'notice',
  body: {
    level: 'warning',
    code: 'memory_lost',
    message: 'The agent has begun a new conversation: what it had written down of the turns before is gone from its home',
  },
}
