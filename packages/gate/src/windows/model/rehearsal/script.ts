import { z } from 'zod'
import type { Move, Reply } from './brain.ts'

/** One thing in a scripted answer. */
const ScriptMove = z.union([
  z.strictObject({ text: z.string(), pace_ms: z.int().min(0).max(60_000).optional() }),
  z.strictObject({ thinking: z.string() }),
  z.strictObject({ tool_use: z.string(), input: z.unknown() }),
  z.strictObject({ delay_ms: z.int().min(0).max(600_000) }),
  z.strictObject({ cut: z.literal(true) }),
])
/** One answer: a move, several of them, an error, or an answer that is given several times. */
const ScriptAnswer = z.union([
  ScriptMove,
  z.array(ScriptMove).min(1),
  z.strictObject({ error: z.int().min(400).max(599), message: z.string().optional() }),
  z.strictObject({ repeat: z.int().min(1).max(10_000), step: z.union([ScriptMove, z.array(ScriptMove).min(1)]) }),
])
const Script = z.array(ScriptAnswer).min(1)
export type Script = z.infer<typeof Script>

/** The script that a prompt carries as `SCRIPT64:<base64 of its JSON>:END`, or null. */
export function scriptIn(text: string): Script | { readonly broken: string } | null {
  const found = /SCRIPT64:([A-Za-z0-9+/=_-]+):END/.exec(text)
  if (found === null) return null
  try {
    return Script.parse(JSON.parse(Buffer.from(found[1]!, 'base64').toString('utf8')))
  } catch (error) {
    return { broken: error instanceof Error ? error.message.slice(0, 500) : 'unknown' }
  }
}

/** The answer that comes after so many. Past its end a script says that it is over. */
export function scriptedReply(script: Script | { readonly broken: string }, replies: number): Reply {
  if ('broken' in script)
    return { kind: 'error', status: 400, message: `The script in the prompt cannot be read: ${script.broken}` }
  let left = replies
  for (const answer of script) {
    const times = 'repeat' in answer ? answer.repeat : 1
    if (left >= times) {
      left -= times
      continue
    }
    if ('error' in answer)
      return { kind: 'error', status: answer.error, message: answer.message ?? 'The script asked for this error' }
    const one = 'repeat' in answer ? answer.step : answer
    return { kind: 'moves', moves: (Array.isArray(one) ? one : [one]).map(moveOf) }
  }
  return { kind: 'moves', moves: [{ do: 'text', text: 'The script has ended.', paceMs: 0 }] }
}

function moveOf(move: z.infer<typeof ScriptMove>): Move {
  if ('text' in move) return { do: 'text', text: move.text, paceMs: move.pace_ms ?? 0 }
  if ('thinking' in move) return { do: 'thinking', text: move.thinking }
  if ('tool_use' in move) return { do: 'call', tool: move.tool_use, input: move.input ?? {} }
  if ('delay_ms' in move) return { do: 'wait', ms: move.delay_ms }
  return { do: 'cut' }
}
