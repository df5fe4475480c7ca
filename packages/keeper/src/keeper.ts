import { authority, type Verdict } from '@anchorhold/core/authority'
import { breakerWatch, type BreakerWatch } from '@anchorhold/core/breakers'
import { openBlocks } from '@anchorhold/core/open-blocks'
import { toolMeaning } from '@anchorhold/core/policy/tool-meaning'
import { Failure, type FailureCode } from '@anchorhold/protocol/failures'
import type { LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import { newRequestId, type PromptId, type RandomBytes } from '@anchorhold/protocol/ids'
import { KeeperCommand, type KeeperStart, type OutboxRecord, type Settlement } from '@anchorhold/protocol/link'
import type { LimitInForce, LimitName } from '@anchorhold/protocol/rungs'
import type { TurnCause, TurnEnd } from '@anchorhold/protocol/sessions'
import { createHash } from 'node:crypto'
import type { Clock } from '@anchorhold/link/clock'
import type { Outbox } from '@anchorhold/link/outbox'
import { cellEnvironment } from './agents/claude/environment.ts'
import { besideNet, netEnvironment } from './agents/net-route.ts'
import type { Agent, AgentDriver, AgentListener, AgentPrompt, AgentResult } from './agents/agent.ts'
import type { Cell, CellDriver } from './cells/cell.ts'
import type { Toolchain } from './cells/toolchains.ts'
import { cellSpec } from './cell-spec.ts'
import type { PinFiles } from './pins.ts'
import { beginHistory } from './snapshot.ts'
import type { Veil } from './repo-filter/veil.ts'
import { shells as makeShells } from './shells/shells.ts'
import { askWorkspace } from './workspace/ask-workspace.ts'
import { trustEnvironment, trustFolder } from './trust.ts'

/** One live session: its cell, its agent, and what becomes of prompts and requests. */
export interface Keeper {
  handle(command: unknown): Promise<unknown>
  /** What the agent has said and not finished. */
  saying(): readonly LiveFrame[]
  /** Resolves when the keeper has left: agent and cell are gone, and the outbox says why. */
  readonly left: Promise<void>
  /** Ends everything and leaves, as the command `leave` does. */
  leave(why: string): Promise<void>
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
  readonly clock: Clock
  readonly random: RandomBytes
  /** Ends this process: what it met must not be gone on from. */
  readonly die: (error: unknown) => void
}

type Waiting = AgentPrompt & { readonly mode: 'steer' | 'queue'; readonly cause: TurnCause; readonly again?: true }
type Turn = {
  readonly startedAt: number
  readonly prompt: PromptId | null
  /** Why it is not to go on; `parked` when it only waits for an answer. */
  cut: string | null
  parked: boolean
  /** It was cut because its agent goes in circles. */
  tripped: boolean
  readonly circles: BreakerWatch
  onTime: () => void
}

/** How long an interrupted agent may take to say that it is idle before it is ended. */
const interruptGraceMs = 5000
/** How long a leaving keeper waits for the agent to write down how its turn ended. */
const farewellMs = 1000

export function keeper(options: KeeperOptions): Keeper {
  const { start, cells, agents, toolchains, veil, outbox, live, stored, settle, pinFiles, clock, random, die } = options
  const { session } = start
  let agent: Agent | null = null
  let cell: Cell | null = null
  let turn: Turn | null = null
  let result: AgentResult | null = null
  let agentState: 'running' | 'idle' = 'idle'
  let tasks = 0
  let turns = 0
  let leaving = false
  /** Nothing is told after `keeper.left`. */
  let over = false
  let paused: PromiseWithResolvers<'resumed' | 'cut'> | null = null
  const offers = toolchains.filter((offer) => start.toolchains.includes(offer.name))
  const path = offers.flatMap((offer) => offer.path)
  /** Stops the idle timer. */
  let stayUp = () => {}
  /** Prompts this keeper has taken, so that one is never handed on twice. */
  const taken = new Set<PromptId>()
  const queue: Waiting[] = []
  /** Handed to the agent, and not yet part of a result. */
  const unconfirmed = new Set<PromptId>()
  const said = openBlocks()
  const left = Promise.withResolvers<void>()
  const starting = new AbortController()
  /** Whoever wants to go into the cell waits until it stands. */
  const stands = Promise.withResolvers<Cell>()
  stands.promise.catch(() => {})

  /** A disk that cannot be written ends the keeper: what it does from here on could not be told. */
  const write = (event: NewEvent, after?: OutboxRecord['after']): void => {
    try {
      outbox.append(session, event, after)
      said.stored(event)
      stored?.(event)
    } catch (error) {
      die(error)
    }
  }
  const flush = async (): Promise<void> => {
    try {
      await outbox.flush()
    } catch (error) {
      die(error)
      await new Promise<never>(() => {})
    }
  }
  const journal = (...entry: Parameters<typeof write>): Promise<void> => {
    write(...entry)
    return flush()
  }

  // What the agent says, prompts, ends of turns and leaving are taken one after the other, in the order they came.
  let last: Promise<unknown> = Promise.resolve()
  function inOrder<T>(work: () => Promise<T>): Promise<T> {
    const next = last.then(work)
    last = next.catch(() => {})
    return next
  }
  /** What happens behind a command's back has nobody to fail to: a keeper that met a bug must not go on as if it had not. */
  const behind = (work: () => Promise<unknown>): void => void inOrder(work).catch(die)

  const check = authority({
    terms: start.authority,
    name: 'keeper',
    whenLeft: 'take back',
    // What nobody waits for goes out with the next group.
    write: (event) => void journal(event),
    flush,
    inOrder,
    mayAsk: () => !over && !leaving,
    now: clock.now,
    newRequest: () => newRequestId(random),
    sha256: (text) => createHash('sha256').update(text).digest('hex'),
  })

  const shells = makeShells({
    clock,
    random,
    onClosed(shell, why) {
      void journal({ type: 'terminal.closed', body: { shell, why: why.slice(0, 500) } })
      restIfIdle()
    },
  })

  function restIfIdle(): void {
    stayUp()
    if (leaving || agent === null || turn !== null || queue.length > 0 || tasks > 0 || agentState === 'running') return
    if (shells.count > 0) return
    stayUp = clock.after(turns === 0 ? start.unused_ms : start.idle_ms, () => leaveBehind('idle'))
  }

  async function beginTurn(cause: TurnCause, prompt: PromptId | null): Promise<void> {
    result = null
    const limitMs = start.timeout_ms
    const tooLong = () => void interrupt(`It took longer than ${limitMs} ms`).catch(die)
    turn = {
      startedAt: clock.elapsed(),
      prompt,
      cut: null,
      parked: false,
      tripped: false,
      circles: breakerWatch(check.terms.policy.breakers),
      onTime: limitMs === null ? () => {} : clock.after(limitMs, tooLong),
    }
    turns++
    await journal({ type: 'turn.started', body: { cause, prompt } })
  }

  async function endTurn(crashed: string | null = null): Promise<void> {
    const ending = turn
    if (ending === null) return
    ending.onTime()
    if (ending.prompt !== null) unconfirmed.delete(ending.prompt)
    // What waits for a background task is still wanted.
    if (tasks === 0) await check.takeBackAll('The turn ended before anybody answered')
    await closeBlocks()
    const settlement = await settle()
    const { reason, why } = verdict(ending, crashed, result, settlement)
    turn = null
    // What the agent had not read when it was done. What a person cut short is over as a whole.
    const left = ending.cut === null && crashed === null ? [...unconfirmed] : []
    const body = {
      reason,
      why,
      duration_ms: Math.round(clock.elapsed() - ending.startedAt),
      ...(left.length > 0 ? { left } : {}),
      ...(tasks > 0 && !leaving ? { tasks } : {}),
    }
    await journal({ type: 'turn.ended', body }, settlement === null ? undefined : { source: settlement.source, n: settlement.n })
    const seen = veil.uncovered()
    if (seen.length > 0) {
      const message = `The repository filter will hide from the next start of the cell on, and not before: ${listOf(seen)}`
      await journal({ type: 'notice', body: { level: 'warning', code: 'files_exposed', message } })
    }
    if (!leaving) await handOn()
  }

  /** What was shown and is cut off by the end of the turn stays as far as it went. */
  async function closeBlocks(): Promise<void> {
    for (const frame of said.frames()) {
      const { type, block, text, parent } = frame
      await journal({ type: type === 'text.delta' ? 'text' : 'thinking', body: { block, text, parent, partial: true } })
    }
  }

  /** Gives the agent what waits for it, as far as the prompts' modes allow. */
  async function handOn(): Promise<void> {
    while (agent !== null && queue.length > 0 && !leaving) {
      // While a turn runs, what steers it goes before what waits for its end.
      const index = turn === null ? 0 : queue.findIndex(({ mode }) => mode === 'steer')
      const [next] = index === -1 ? [] : queue.splice(index, 1)
      if (next === undefined) break
      const { id, text, images } = next
      await journal(
        next.again ? { type: 'prompt.again', body: { id } } : { type: 'prompt', body: { id, text, images: images.length } },
      )
      if (turn === null) await beginTurn(next.cause, next.id)
      unconfirmed.add(next.id)
      agent.send(next)
    }
    restIfIdle()
  }

  async function interrupt(why: string): Promise<void> {
    if (turn === null || agent === null) return
    turn.cut ??= why
    const cut = turn
    // Before anything that lets the agent go on: it is to stop where it is.
    const stopped = atMost(interruptGraceMs, agent.interrupt()).catch(() => {})
    await check.takeBackAll(why)
    // A paused tool would hold the turn open: it is refused, and the pause goes on.
    if (paused !== null) {
      paused.resolve('cut')
      paused = Promise.withResolvers()
    }
    // Whatever it says later would be taken for the next turn's: such an agent is let go, and another one goes on in its place.
    clock.after(interruptGraceMs, () => turn === cut && leaveBehind('The agent did not stop when it was asked to'))
    await stopped
  }

  /** Waits while the session is paused. A sentence where nothing may run any more. */
  async function heldBack(): Promise<string | null> {
    const how = await paused?.promise
    if (leaving) return 'The session is being stopped'
    return how === 'cut' ? 'The turn was interrupted' : null
  }

  const mayRun: AgentListener['mayRun'] = async (tool, input, call, signal) => {
    const before = await heldBack()
    if (before !== null) return { allow: false, why: before }
    const meaning = toolMeaning({ kind: 'tool', tool, input }, { workspace: cell?.place(start.workspace) ?? start.workspace })
    const pins = async () => (cell === null ? [] : pinFiles(cell, { ...start, path }, meaning))
    const verdict: Verdict = await check.judge({ meaning, call, pins }, signal)
    // It may have been paused while a person was asked.
    const after = verdict.allow ? await heldBack() : null
    return after === null ? verdict : { allow: false, why: after }
  }

  const heard: AgentListener = {
    event: (event) =>
      behind(async () => {
        // Not waited for: what comes in while the disk is busy goes out with the next group.
        if (over) return
        void journal(event)
        const why = turn?.circles.saw(event) ?? null
        if (why === null || turn === null || turn.cut !== null) return
        turn.tripped = true
        void interrupt(why).catch(die)
      }),
    live(frame) {
      said.live(frame)
      live(frame)
    },
    ask: (action, call, signal) => check.ask({ action, call }, signal),
    state(state) {
      agentState = state
      if (state === 'running') {
        restIfIdle()
        // A turn that no prompt began: a background task came back, or a steering prompt arrived after the end.
        behind(async () => {
          if (turn !== null || leaving || agentState !== 'running') return
          const [prompt] = unconfirmed
          if (prompt !== undefined) return beginTurn('prompt', prompt)
          if (start.take_up && turns === 0) return beginTurn('resume', start.unfinished.at(-1)?.id ?? null)
          return beginTurn('task', null)
        })
      } else {
        behind(async () => {
          if (agentState === 'idle') await endTurn()
          restIfIdle()
        })
      }
    },
    tasks(count) {
      tasks = count
      restIfIdle()
    },
    result: (ended) =>
      behind(async () => {
        result = ended
        for (const id of ended.prompts) unconfirmed.delete(id)
      }),
    mayRun,
    gone: (why) => leaveBehind(why, { crashed: true }),
  }

  async function startUp(): Promise<void> {
    const covers = veil.cover()
    const mounts = [...agents.mounts(start.files), ...offers.flatMap((offer) => offer.mounts)]
    cell = await cells.start(cellSpec(start, { mounts, covers }), starting.signal)
    requireLimits(cell.limits, start.require_limits)
    if (start.snapshot) await beginHistory(cell, cell.place(start.workspace), cell.place(`${start.folder}/home`))
    void cell.ended.then((why) => leaveBehind(why, { crashed: true }))
    starting.signal.throwIfAborted()
    stands.resolve(cell)
    agent = await agents.start({
      cell,
      files: start.files,
      workspace: start.workspace,
      home: `${start.folder}/home`,
      windows: start.windows,
      model: start.model,
      conversation: start.conversation,
      resume: start.resume,
      forgetAfter: start.forget_after,
      unfinished: start.unfinished.map(({ id }) => id),
      takeUp: start.take_up,
      tools: start.tools,
      systemPrompt: start.system_prompt,
      plan: start.plan,
      workspaceSettings: start.workspace_settings,
      modelRoute: start.model_route,
      network: start.network,
      trust: start.network === 'proxy_only' ? trustFolder(start.folder) : null,
      path,
      env: toolEnv(),
      heard,
    })
    await journal({
      type: 'keeper.started',
      body: {
        rung: start.rung,
        agent: agents.name,
        agent_version: start.agent_version,
        limits: [...cell.limits],
        resumed: start.resume,
      },
    })
    if (covers.length > 0) {
      const message = `The repository filter hides ${listOf(covers.map(({ path }) => path.slice(start.workspace.length + 1)))}`
      await journal({ type: 'notice', body: { level: 'info', code: 'files_hidden', message } })
    }
    for (const { id } of start.unfinished) taken.add(id)
    const unseen = start.unfinished.filter(({ id }) => agent?.unseen.includes(id))
    if (start.take_up)
      queue.unshift(...unseen.map((prompt) => ({ ...prompt, mode: 'steer', cause: 'resume', again: true }) as const))
    else
      for (const prompt of unseen) {
        await journal({ type: 'prompt.again', body: { id: prompt.id } })
        agent.remind(prompt)
      }
  }

  const refuse = () => new Failure('wrong_state', `Session "${session}" is being left by its keeper`)

  async function leave(why: string, { crashed = false, failed = false, parked = false, code }: Leaving = {}): Promise<void> {
    if (leaving) return left.promise
    leaving = true
    // Whoever leaves takes nothing back: what was asked can be answered, and the next keeper tells the agent.
    check.leaveAll()
    stayUp()
    starting.abort()
    stands.reject(refuse())
    shells.closeAll('The cell was ended')
    paused?.resolve('cut')
    if (turn !== null && !crashed) {
      turn.cut ??= why
      turn.parked = parked
      // The agent writes down how its turn ended, which the next keeper's resume reads.
      if (agent !== null) await atMost(farewellMs, agent.interrupt()).catch(() => {})
    }
    const end = async () => {
      await agent?.[Symbol.asyncDispose]()
      await cell?.[Symbol.asyncDispose]()
    }
    await end()
    await inOrder(async () => {
      // Once more: what was still being started stands by now.
      await end()
      // So does a turn that was just beginning.
      if (turn !== null && !crashed) turn.cut ??= why
      await endTurn(crashed ? why : null)
      // An agent that took up its turn while it was being stopped has spoken without one.
      await closeBlocks()
      over = true
      // What dies before it did anything would die again: the session has failed, and is not tried over and over.
      await journal({
        type: 'keeper.left',
        body: { why, failed: failed || (crashed && turns === 0), ...(code === undefined ? {} : { code }) },
      })
    })
    left.resolve()
  }
  const leaveBehind = (...how: Parameters<typeof leave>): void => void leave(...how).catch(die)

  behind(async () => {
    try {
      await startUp()
      await handOn()
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      const hint = error instanceof Failure && error.hint !== undefined ? ` (${error.hint})` : ''
      leaveBehind(`${why}${hint}`, { failed: true, ...(error instanceof Failure ? { code: error.code } : {}) })
    }
  })

  const toolEnv = () => Object.assign({}, ...offers.map((offer) => offer.env), start.env) as Record<string, string>
  /** A shell finds what the agent's programs find, but no way of its own to the model. */
  async function openShell({ cols, rows, actor, door }: Extract<KeeperCommand, { do: 'shell.open' }>): Promise<string> {
    const there = await stands.promise
    const trust = start.network === 'proxy_only' ? trustEnvironment(there.place(trustFolder(start.folder))) : {}
    const env = {
      ...cellEnvironment({
        home: there.place(`${start.folder}/home`),
        path,
        env: { ...(start.network === 'proxy_only' ? netEnvironment : {}), ...trust, ...toolEnv() },
      }),
      ...{ TERM: 'xterm-256color', COLORTERM: 'truecolor' },
    }
    const node = there.place(start.files.node)
    const shell = shells.open({ cols, rows }, (args) => {
      const command = [node, ...args] as const
      const routed =
        start.network === 'proxy_only'
          ? besideNet([node, there.place(start.files.forwarder)], there.place(start.windows), command)
          : command
      return there.spawn(routed, { env, cwd: there.place(start.workspace) })
    })
    await journal({ type: 'terminal.opened', body: { shell, actor, door } })
    stayUp()
    return shell
  }

  async function handle(raw: unknown): Promise<unknown> {
    const command = KeeperCommand.parse(raw)
    if (leaving && command.do !== 'ping' && command.do !== 'leave') throw refuse()
    switch (command.do) {
      case 'ping':
        return {
          state: leaving
            ? 'leaving'
            : paused !== null
              ? 'paused'
              : check.waiting > 0
                ? 'waiting'
                : turn !== null
                  ? 'working'
                  : 'idle',
          limits: cell?.limits ?? [],
          idle_ms: start.idle_ms,
        }
      case 'prompt': {
        if (taken.has(command.id)) return { had: true }
        taken.add(command.id)
        queue.push(command)
        await inOrder(handOn)
        // It began to leave in between: the next keeper is to have this prompt.
        if (leaving && queue.some(({ id }) => id === command.id)) throw refuse()
        return { had: false }
      }
      case 'interrupt':
        await interrupt('Asked to stop')
        return null
      case 'pause':
        paused ??= Promise.withResolvers()
        return null
      case 'resume':
        paused?.resolve('resumed')
        paused = null
        return null
      case 'answer':
        return check.answer(command)
      case 'policy':
        check.setPolicy(command.policy)
        return null
      case 'park':
        await leave(command.why, { parked: true })
        return null
      case 'model':
        // In order: an agent that is still being started was told of the old one.
        await inOrder(async () => agent !== null && atMost(interruptGraceMs, agent.setModel(command.model)))
        return null
      case 'workspace':
        try {
          return await askWorkspace(await stands.promise, start, command.asked)
        } finally {
          restIfIdle()
        }
      case 'commands':
        await stands.promise
        // In order: until then there is no agent to ask.
        await inOrder(async () => {})
        return agent === null ? [] : atMost(interruptGraceMs, agent.commands())
      case 'shell.open':
        return { shell: await openShell(command) }
      case 'shell.write':
        return shells.write(command.shell, Buffer.from(command.base64, 'base64'))
      case 'shell.size':
        return shells.resize(command.shell, command)
      case 'shell.read':
        return shells.read(command.shell, command.after)
      case 'shell.close':
        return shells.close(command.shell, command.why)
      case 'leave':
        await leave(command.why)
        return null
    }
  }
  /** An agent need not answer at all: it is not waited for longer than this. */
  async function atMost<T>(ms: number, answer: Promise<T>): Promise<T> {
    const late = Promise.withResolvers<never>()
    const inTime = clock.after(ms, () => late.reject(new Failure('keeper_unavailable', 'The agent does not answer')))
    return Promise.race([answer, late.promise]).finally(inTime)
  }

  return { handle, saying: said.frames, left: left.promise, leave: (why) => leave(why) }
}

/** Why a keeper goes, beyond what is said of it. */
type Leaving = {
  readonly crashed?: boolean
  readonly failed?: boolean
  /** What it asked stays open, and its turn waits for the answer. */
  readonly parked?: boolean
  readonly code?: FailureCode
}

/** Throws unless each of these is really in force. */
function requireLimits(limits: readonly LimitInForce[], required: readonly LimitName[]): void {
  const lacking = limits.filter(({ name, enforcement }) => enforcement === 'not enforced' && required.includes(name))
  if (lacking.length === 0) return
  const words = lacking.map(({ name, how }) => `${name} (${how})`).join(', ')
  throw new Failure('cell_unavailable', `Limits that the policy requires are not enforced here: ${words}`, {
    hint: 'Choose another rung (anchorhold doctor shows what each can limit), or take them out of require_limits',
  })
}

/** As many names as a person would read. */
function listOf(paths: readonly string[]): string {
  const rest = paths.length - namesShown
  return `${paths.slice(0, namesShown).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}
const namesShown = 20

function verdict(
  turn: Turn,
  crashed: string | null,
  result: AgentResult | null,
  settlement: Settlement | null,
): { readonly reason: TurnEnd; readonly why: string | null } {
  if (crashed !== null) return { reason: 'crashed', why: crashed }
  if (turn.cut !== null) return { reason: turn.parked ? 'waiting' : turn.tripped ? 'breaker' : 'interrupted', why: turn.cut }
  if (result === null) return { reason: 'error', why: 'The agent ended its turn without a result' }
  if (result.ok) return { reason: 'done', why: null }
  // The gate's word counts here, not what the agent makes of its answer.
  if (settlement?.refused === 'asked') return { reason: 'waiting', why: result.why }
  if (settlement?.refused === 'budget') return { reason: 'budget', why: result.why }
  return { reason: 'error', why: result.why }
}
