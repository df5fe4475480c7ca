import { meaningText } from './policy/digest.ts'
import type { EventBody, NewEvent } from '@anchorhold/protocol/events'
import type { Breakers } from '@anchorhold/protocol/policy'

/** Watches one turn for an agent that goes in circles. */
export type BreakerWatch = {
  /** What happened; the sentence with which the turn is to be ended, or null. */
  saw(event: NewEvent): string | null
}

/** What one agent does, the main one or a sub-agent. */
type Thread = {
  readonly open: Map<string, string>
  last: string | null
  repeats: number
  errors: number
  rounds: number
}

/** An agent has few sub-agents and few calls at once; what is not an agent must not fill the process that watches it. */
const threadsMax = 200
const openMax = 1000

/** Each agent of a turn is counted apart, so that two sub-agents which do the same are not taken for one that repeats itself. */
export function breakerWatch({ repeats, errors, turns }: Breakers): BreakerWatch {
  const threads = new Map<string | null, Thread>()
  function threadOf(parent: string | null): Thread {
    const known = threads.get(parent)
    if (known !== undefined) return known
    const made: Thread = { open: new Map(), last: null, repeats: 0, errors: 0, rounds: 0 }
    if (threads.size < threadsMax) threads.set(parent, made)
    return made
  }
  const who = (parent: string | null) => (parent === null ? 'The agent' : 'A sub-agent')

  function started({ call, tool, input, parent = null }: EventBody<'tool.started'>): string | null {
    const thread = threadOf(parent)
    // Calls that are made together are one round.
    if (thread.open.size === 0) thread.rounds++
    if (thread.open.size < openMax) thread.open.set(call, callText(tool, input))
    if (turns === null || thread.rounds <= turns) return null
    return `${who(parent)} has gone through ${turns} rounds of model and tools in this turn, and may not begin another`
  }

  function finished({ call, tool, output, failed, parent = null }: EventBody<'tool.finished'>): string | null {
    const thread = threadOf(parent)
    const asked = thread.open.get(call) ?? tool
    thread.open.delete(call)
    const both = `${asked}\n${failed} ${output}`
    thread.repeats = both === thread.last ? thread.repeats + 1 : 1
    thread.last = both
    thread.errors = failed ? thread.errors + 1 : 0
    if (repeats !== null && thread.repeats >= repeats)
      return `${who(parent)} has called "${tool}" ${thread.repeats} times in a row in the same way with the same result`
    if (errors !== null && thread.errors >= errors) return `${who(parent)} had ${thread.errors} failed tool calls in a row`
    return null
  }

  return {
    saw(event) {
      if (event.type === 'tool.started') return started(event.body)
      if (event.type === 'tool.finished') return finished(event.body)
      return null
    },
  }
}

/** What a call means: how an agent describes it makes no other call of it. */
function callText(tool: string, input: unknown): string {
  const isObject = typeof input === 'object' && input !== null && !Array.isArray(input)
  if (!isObject) return `${tool} ${JSON.stringify(input)}`
  try {
    return meaningText({ kind: 'tool', tool, input: input as Record<string, unknown> })
  } catch {
    // Nested deeper than it can be put in order: as it is, then.
    return `${tool} ${JSON.stringify(input)}`
  }
}
