import type { TurnCost } from '@anchorhold/protocol/api/money'
import { eventBodies } from '@anchorhold/protocol/events'
import { microsUp } from '@anchorhold/protocol/money'
import type { Database } from 'better-sqlite3'
import type { Store } from '../store.ts'

const titleChars = 120

/** The few events that turns are counted by. Whoever looks for some of them says so in these words, because only then does their index serve. */
export const ofTurns = `(type = 'prompt' or type = 'turn.started' or type = 'usage')`

/** What each turn has cost: a turn's end is stored behind the usage of its calls, so that lies between its events. */
export function sqliteTurns(db: Database): Store['turns'] {
  const beginnings = db.prepare<[string, number], { seq: number }>(
    `select seq from event where session_id = ? and ${ofTurns} and type = 'turn.started' order by seq desc limit 1 offset ?`,
  )
  const events = db.prepare<[string, number], { seq: number; at: number; type: string; body: string }>(
    `select seq, at, type, body from event where session_id = ? and ${ofTurns} and seq >= ? order by seq`,
  )
  return (session, limit) => {
    // From one turn earlier: the prompt that a turn takes up stands before it.
    const from = beginnings.get(session, limit)?.seq ?? 0
    const titles = new Map<string, string>()
    const turns: (Omit<TurnCost, 'cost_micros'> & { nanos: number })[] = []
    for (const { seq, at, type, body } of events.iterate(session, from)) {
      if (type === 'prompt') {
        const { id, text } = eventBodies.prompt.parse(JSON.parse(body))
        titles.set(id, text.slice(0, titleChars))
        continue
      }
      if (type === 'turn.started') {
        const { prompt } = eventBodies['turn.started'].parse(JSON.parse(body))
        turns.push({ ...{ seq, at, calls: 0, nanos: 0, input: 0, output: 0 }, title: titles.get(prompt ?? '') ?? null })
        continue
      }
      const { cost_nanos, tokens } = eventBodies.usage.parse(JSON.parse(body))
      const turn = turns.at(-1)
      if (turn === undefined) continue
      turn.calls++
      turn.nanos += cost_nanos
      turn.input += tokens.input + tokens.cache_read + tokens.cache_write
      turn.output += tokens.output
    }
    return turns.slice(-limit).map(({ nanos, ...turn }) => ({ ...turn, cost_micros: microsUp(nanos) }))
  }
}
