import { leavesWork } from '@anchorhold/core/session-states'
import { type FailureCode, isFailure } from '@anchorhold/protocol/failures'
import type { PromptId, SessionId } from '@anchorhold/protocol/ids'
import { setTimeout as wait } from 'node:timers/promises'
import { answerHere } from '../answer-here.ts'
import { isAway } from '../away.ts'
import type { Context } from '../context.ts'
import { type Daemon, findDaemon } from '../daemon.ts'
import { type ExitCode, exitOfEnd, exitOfFailure, exitOfState, exitOfTurn } from '../exit-codes.ts'
import { type Interrupts, keepInterrupts } from '../interrupts.ts'
import { eventPrinter } from '../show-events.ts'
import { watchSession } from '../stream.ts'

export type FollowOptions = {
  readonly daemon: Daemon
  readonly session: SessionId
  readonly after: number
  /** Stop when the turn that took up this prompt has ended; null to go on until interrupted, or archived. */
  readonly until: PromptId | null
  /** The last event of a session that is archived, after which nothing comes. */
  readonly last?: number | undefined
  /** Those that came while the prompt was on its way are kept in it. */
  readonly interrupts?: Interrupts | undefined
  /** Told before anything else: whoever reads it can interrupt this. */
  readonly first?: string | undefined
  readonly json: boolean
}

/** Shows what happens in a session, as lines for a person or as one event a line for a program. */
export async function follow(context: Context, options: FollowOptions): Promise<ExitCode> {
  const { daemon, session, after, until, last, first: told, json } = options
  const end = new AbortController()
  const print = eventPrinter(context.terminal, `${daemon.url.replace('//127.0.0.1:', '//localhost:')}/inbox`)
  const ask = !json && process.stdin.isTTY === true && context.terminal.interactive && until !== null
  /** The one that was found last. */
  let current = daemon
  let delivered = until === null
  /** Its turn is the agent's next. */
  let owed = false
  let asked = 0
  const onInterrupt = () => {
    // Once ends the turn, twice ends only the watching.
    if (until === null || ++asked > 1) return end.abort()
    void stopTurn(until).catch((error: unknown) => {
      if (end.signal.aborted) return
      context.terminal.error(`Not interrupted: ${error instanceof Error ? error.message : String(error)}`)
      context.terminal.error(`  Ctrl-C stops watching; the agent goes on until: anchorhold interrupt ${session}`)
    })
  }
  /** Ends the turn that takes up this prompt, or sees to it that none does. A daemon that is being started again is waited for. */
  async function stopTurn(prompt: PromptId): Promise<void> {
    for (;;) {
      try {
        if (!delivered && (await isTakenBack(current, session, prompt))) return
        await current.api.interrupt({ params: { id: session } })
        return
      } catch (error) {
        if (!isAway(error) || end.signal.aborted) throw error
        await wait(awayMs)
        current = (await findDaemon(context.where())) ?? current
      }
    }
  }
  using interrupts = options.interrupts ?? keepInterrupts()
  interrupts.hear(onInterrupt)
  if (told !== undefined) context.terminal.error(told)
  using here = answerHere({
    terminal: context.terminal,
    answer: async (id, body) => current.api.answerRequest({ params: { id }, body }),
    input: process.stdin,
    output: process.stdout,
    onInterrupt,
  })
  let cause: FailureCode | undefined
  let code: ExitCode = until === null ? 0 : 1
  try {
    let first: Daemon | null = daemon
    const find = async () => {
      const found = first ?? (await findDaemon(context.where()))
      first = null
      current = found ?? current
      return found
    }
    for await (const seen of watchSession(session, after, find, end.signal)) {
      if ('event' in seen && seen.event.type === 'request.answered') here.settled(seen.event.body.id)
      if (!json) print(seen)
      if (!('event' in seen)) continue
      const { event } = seen
      if (json) process.stdout.write(`${JSON.stringify(event)}\n`)
      if (until === null) {
        if (last === undefined ? event.type === 'session.state' && event.body.to === 'archived' : event.seq >= last) break
        continue
      }
      if (event.type === 'prompt' && event.body.id === until) delivered = true
      if (event.type === 'prompt.dropped' && event.body.id === until) {
        code = exitOfTurn.interrupted
        break
      }
      if (event.type === 'request.opened' && ask) here.ask(event.body)
      if (event.type === 'turn.started') owed = false
      if (event.type === 'turn.ended' && delivered) {
        const ended = exitOfEnd(event.body, until)
        if (ended !== null) {
          code = ended
          break
        }
        owed = leavesWork(event.body)
      }
      if (event.type === 'keeper.left') {
        cause = event.body.code
        // Nobody takes it up any more before somebody goes on with the session.
        if (owed && !event.body.failed) {
          code = exitOfTurn.crashed
          break
        }
      }
      if (event.type !== 'session.state' || event.body.goes_on) continue
      const over = exitOfState[event.body.to]
      if (over !== undefined) {
        const why = event.body.code ?? cause
        code = event.body.to === 'failed' && why !== undefined ? exitOfFailure(why) : over
        break
      }
    }
  } finally {
    end.abort()
    context.terminal.still()
  }
  return code
}

/** How long a daemon that is away is left alone. */
const awayMs = 200

/** Whether the agent will never get this prompt; false where it has it. */
async function isTakenBack({ api }: Daemon, session: SessionId, prompt: PromptId): Promise<boolean> {
  try {
    await api.dropPrompt({ params: { id: session, prompt } })
    return true
  } catch (error) {
    if (isFailure(error) && error.code === 'conflict') return false
    throw error
  }
}
