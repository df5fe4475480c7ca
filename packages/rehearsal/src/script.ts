import { z } from 'zod'
import type { Move, Reply } from './conversation.ts'

/** One thing in a scripted answer. */
const ScriptMove = z.union([
  z.strictObject({ text: z.string(), pace_ms: z.int().min(0).max(60_000).optional() }),
  z.strictObject({ thinking: z.string() }),
  z.strictObject({ tool_use: z.string(), input: z.unknown() }),
  z.strictObject({ delay_ms: z.int().min(0).max(600_000) }),
  z.strictObject({ cut: z.literal(true) }),
])
type ScriptMove = z.infer<typeof ScriptMove>
const ScriptError = z.strictObject({ error: z.int().min(400).max(599), message: z.string().optional() })
const Repeated = z.strictObject({ repeat: z.int().min(1).max(10_000), step: z.unknown() })

/** One answer: moves, or an error, and how many times it is given. */
type ScriptAnswer = { readonly times: number } & (
  | { readonly moves: readonly ScriptMove[] }
  | { readonly error: number; readonly message: string | undefined }
)
export type Script = readonly ScriptAnswer[]

const textCharsMax = 1024 * 1024

/** The script that a prompt carries as `SCRIPT64:<base64 of its JSON>:END`, or null. */
export function scriptIn(text: string): Script | { readonly broken: string } | null {
  const found = /SCRIPT64:([A-Za-z0-9+/=_-]+):END/.exec(text.slice(0, textCharsMax))
  if (found === null) return null
  try {
    const list: unknown = JSON.parse(Buffer.from(found[1]!, 'base64').toString('utf8'))
    if (!Array.isArray(list) || list.length === 0) return { broken: 'it is no list of answers' }
    return list.map(answerIn)
  } catch (error) {
    return { broken: error instanceof Error ? error.message.slice(0, 500) : 'unknown' }
  }
}

/** Looked at one by one, so that the first that is wrong ends it: a schema over all of them would list what is wrong with each. */
function answerIn(given: unknown): ScriptAnswer {
  const error = ScriptError.safeParse(given)
  if (error.success) return { times: 1, error: error.data.error, message: error.data.message }
  const repeated = Repeated.safeParse(given)
  const { times, step } = repeated.success ? { times: repeated.data.repeat, step: repeated.data.step } : { times: 1, step: given }
  const moves: readonly unknown[] = Array.isArray(step) ? step : [step]
  if (moves.length === 0) throw new Error('an answer has no move')
  return { times, moves: moves.map((move) => ScriptMove.parse(move)) }
}

/** The answer that comes after so many. Past its end a script says that it is over. */
export function scriptedReply(script: Script | { readonly broken: string }, replies: number): Reply {
  if ('broken' in script)
    return { kind: 'error', status: 400, message: `The script in the prompt cannot be read: ${script.broken}` }
  let left = replies
  for (const answer of script) {
    if (left >= answer.times) {
      left -= answer.times
      continue
    }
    if ('error' in answer)
      return { kind: 'error', status: answer.error, message: answer.message ?? 'The script asked for this error' }
    return { kind: 'moves', moves: answer.moves.map(moveOf) }
  }
  return { kind: 'moves', moves: [{ do: 'text', text: 'The script has ended.', paceMs: 0 }] }
}

function moveOf(move: ScriptMove): Move {
  if ('text' in move) return { do: 'text', text: move.text, paceMs: move.pace_ms ?? 0 }
  if ('thinking' in move) return { do: 'thinking', text: move.thinking }
  if ('tool_use' in move) return { do: 'call', tool: move.tool_use, input: move.input ?? {} }
  if ('delay_ms' in move) return { do: 'wait', ms: move.delay_ms }
  return { do: 'cut' }
}
