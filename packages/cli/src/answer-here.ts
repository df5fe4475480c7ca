import { chosen } from '@anchorhold/core/request-words'
import type { Client } from '@anchorhold/protocol/client'
import type { Event } from '@anchorhold/protocol/events'
import type { RequestId } from '@anchorhold/protocol/ids'
import { createInterface } from 'node:readline/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { isAway } from './away.ts'
import { requestLines } from './request-words.ts'
import type { Terminal } from './terminal.ts'

type Opened = (Event & { readonly type: 'request.opened' })['body']

/** Requests that the person at this terminal can answer right there; somebody else may be quicker elsewhere. */
export interface AnswerHere extends Disposable {
  /** Asks it as soon as nothing else is being asked. */
  ask(request: Opened): void
  /** Somebody has answered it: what is typed from now on answers nothing. */
  settled(id: string): void
}

export type AnswerHereParts = {
  readonly terminal: Pick<Terminal, 'error' | 'foreign' | 'line' | 'width'>
  readonly answer: (id: RequestId, body: Parameters<Client['answerRequest']>[0]['body']) => Promise<unknown>
  readonly input: NodeJS.ReadableStream
  readonly output: NodeJS.WritableStream
  /** Ctrl-C: as long as something is read, the terminal sends no signal. */
  readonly onInterrupt: () => void
}

const reasonCharsMin = 4
/** How long a daemon that is away is left alone. */
const awayMs = 500
/** How long it may take to read what was typed before. */
const typedMs = 50

/** Invariant: one reader, and one question at a time, so that one line answers one request. */
export function answerHere({ terminal, answer, input, output, onInterrupt }: AnswerHereParts): AnswerHere {
  const waiting: Opened[] = []
  let asking: { readonly id: string; readonly answered: AbortController; typed: boolean } | null = null
  let reader: ReturnType<typeof createInterface> | null = null
  let over = false

  /** Kept open between questions: what is typed while nothing is asked is read then, and answers nothing. */
  async function open(): Promise<ReturnType<typeof createInterface>> {
    if (reader !== null) return reader
    reader = createInterface({ input, output, terminal: true })
      .on('SIGINT', onInterrupt)
      .on('close', () => (over = true))
    // What was typed before the first question waits in the terminal.
    await pause(typedMs)
    return reader
  }

  async function next(hasWaited: boolean): Promise<void> {
    const request = asking === null && !over ? waiting.shift() : undefined
    if (request === undefined) return
    const current = { id: request.id, answered: new AbortController(), typed: false }
    asking = current
    // Other things were said since it came up.
    if (hasWaited) for (const line of requestLines(request.action, terminal.width)) terminal.line(line)
    try {
      const body = await answerOf(request, current.answered.signal)
      current.typed = true
      await answer(request.id, body)
    } catch (error) {
      if (!current.answered.signal.aborted && !over) terminal.error(error instanceof Error ? error.message : String(error))
      // Nobody has heard it: it is asked once more, unless it was settled elsewhere.
      if (isAway(error) && !current.answered.signal.aborted) {
        waiting.unshift(request)
        await pause(awayMs)
      }
    }
    asking = null
    await next(true)
  }

  async function answerOf({ id, action }: Opened, signal: AbortSignal) {
    const question = async (words: string) => {
      const from = await open()
      // Half a line that was meant for something else.
      if (from.line !== '') from.write(null, { ctrl: true, name: 'u' })
      return (await from.question(words, { signal })).trim()
    }
    if (action.kind !== 'question') {
      const canLast = action.kind !== 'plan' && action.kind !== 'spend'
      const ways = `y, ${canLast ? 's for the session, ' : ''}l for later, N, or why not`
      for (;;) {
        const word = await question(`  Allow ${id}? [${ways}] `)
        if (/^y(es)?$/i.test(word)) return { decision: 'allow' as const }
        if (canLast && /^s(ession)?$/i.test(word)) return { decision: 'allow' as const, scope: 'session' as const }
        if (/^l(ater)?$/i.test(word)) return { decision: 'later' as const }
        if (word === '' || /^no?$/i.test(word)) return { decision: 'deny' as const }
        // So little is no reason: it was meant for something else.
        if (word.length >= reasonCharsMin) return { decision: 'deny' as const, reason: word }
      }
    }
    const answers: Record<string, string> = {}
    for (const { question: asked, options } of action.questions) {
      const how = options.length > 0 ? `1-${options.length}, or in your own words` : 'Answer'
      answers[asked] = chosen(options, await question(`  ${how} (${id}): `))
    }
    return { decision: 'allow' as const, answers }
  }

  return {
    ask(request) {
      waiting.push(request)
      void next(false)
    },
    settled(id) {
      const at = waiting.findIndex((one) => one.id === id)
      if (at !== -1) waiting.splice(at, 1)
      if (asking?.id !== id) return
      const isBeingTold = asking.typed
      asking.answered.abort()
      if (isBeingTold) return
      // What was asked stands on a line of its own.
      output.write('\n')
    },
    [Symbol.dispose]() {
      over = true
      asking?.answered.abort()
      reader?.close()
    },
  }
}
