import type { Event } from '@anchorhold/protocol/events'
import type { FailureCode } from '@anchorhold/protocol/failures'
import type { PromptId, SessionId } from '@anchorhold/protocol/ids'
import { createInterface } from 'node:readline/promises'
import type { Context } from '../context.ts'
import { type Daemon, findDaemon } from '../daemon.ts'
import { type ExitCode, exitOfFailure, exitOfState, exitOfTurn } from '../exit-codes.ts'
import { eventPrinter } from '../show-events.ts'
import { watchSession } from '../stream.ts'

export type FollowOptions = {
  readonly daemon: Daemon
  readonly session: SessionId
  readonly after: number
  /** Stop when the turn that took up this prompt has ended; null to go on until interrupted. */
  readonly until: PromptId | null
  readonly json: boolean
}

/** Shows what happens in a session, as lines for a person or as one event a line for a program. */
export async function follow(context: Context, { daemon, session, after, until, json }: FollowOptions): Promise<ExitCode> {
  const end = new AbortController()
  const print = eventPrinter(context.terminal, `${daemon.url.replace('//127.0.0.1:', '//localhost:')}/inbox`)
  const ask = !json && process.stdin.isTTY === true && context.terminal.interactive && until !== null
  let asked = 0
  /** What is asked right here, and how to stop asking it. */
  const asking = new Map<string, AbortController>()
  const stopAsking = (id: string) => {
    const here = asking.get(id)
    if (here === undefined) return
    asking.delete(id)
    here.abort()
    // What was asked stands on a line of its own.
    process.stdout.write('\n')
  }
  const onInterrupt = () => {
    // Once ends the turn, twice ends only the watching.
    if (until === null || ++asked > 1) end.abort()
    else void daemon.api.interrupt({ params: { id: session } }).catch(() => end.abort())
  }
  process.on('SIGINT', onInterrupt)
  let delivered = until === null
  let cause: FailureCode | undefined
  let code: ExitCode = until === null ? 0 : 1
  try {
    let first: Daemon | null = daemon
    const find = async () => {
      const found = first ?? (await findDaemon(context.where()))
      first = null
      return found
    }
    for await (const seen of watchSession(session, after, find, end.signal)) {
      // Somebody else was quicker: what is typed from now on answers nothing.
      if ('event' in seen && seen.event.type === 'request.answered') stopAsking(seen.event.body.id)
      if (!json) print(seen)
      if (!('event' in seen)) continue
      const { event } = seen
      if (json) process.stdout.write(`${JSON.stringify(event)}\n`)
      if (until === null) continue
      if (event.type === 'prompt' && event.body.id === until) delivered = true
      if (event.type === 'request.opened' && ask) {
        const { id } = event.body
        const answered = new AbortController()
        asking.set(id, answered)
        const signal = AbortSignal.any([end.signal, answered.signal])
        void answerHere(context, daemon, event, { signal, onTyped: () => void asking.delete(id) })
      }
      // What a crash did shows in the state that follows: the turn may be taken up again.
      if (event.type === 'turn.ended' && event.body.reason !== 'crashed' && delivered) {
        code = exitOfTurn[event.body.reason]
        break
      }
      if (event.type === 'keeper.left') cause = event.body.code
      if (event.type !== 'session.state' || event.body.goes_on) continue
      const over = exitOfState[event.body.to]
      if (over !== undefined) {
        const why = event.body.code ?? cause
        code = event.body.to === 'failed' && why !== undefined ? exitOfFailure(why) : over
        break
      }
    }
  } finally {
    process.off('SIGINT', onInterrupt)
    end.abort()
    context.terminal.still()
  }
  return code
}

/** On a terminal the person who runs the turn can answer right there; somebody else may be quicker elsewhere. */
async function answerHere(
  { terminal }: Context,
  { api }: Daemon,
  event: Event & { type: 'request.opened' },
  { signal, onTyped }: { readonly signal: AbortSignal; readonly onTyped: () => void },
): Promise<void> {
  const { id, action } = event.body
  const reader = createInterface({ input: process.stdin, output: process.stdout })
  try {
    if (action.kind !== 'question') {
      const word = (await reader.question('  Allow? [y/N or a reason] ', { signal })).trim()
      const allow = /^y(es)?$/i.test(word)
      onTyped()
      await api.answerRequest({
        params: { id },
        body: allow
          ? { decision: 'allow' }
          : { decision: 'deny', ...(word === '' || /^no?$/i.test(word) ? {} : { reason: word }) },
      })
      return
    }
    const answers: Record<string, string> = {}
    for (const { question, options } of action.questions) {
      const word = (
        await reader.question(`  ${options.length > 0 ? `1-${options.length}, or in your own words` : 'Answer'}: `, { signal })
      ).trim()
      answers[question] = options[Number(word) - 1]?.label ?? word
    }
    onTyped()
    await api.answerRequest({ params: { id }, body: { decision: 'allow', answers } })
  } catch (error) {
    if (signal.aborted) return
    terminal.error(error instanceof Error ? error.message : String(error))
  } finally {
    reader.close()
  }
}
