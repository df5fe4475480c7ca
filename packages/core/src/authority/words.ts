import { type Action, actionBounds } from '@anchorhold/protocol/actions'
import type { CompiledPolicy } from '../policy/decide.ts'
import type { Meaning } from '../policy/meaning.ts'
import { suggestRule } from '../policy/suggest.ts'
import { printableLine } from '../printable.ts'
import type { Heard } from './asking.ts'

/** What the agent reads. */
export function refusalWords({ decision, reason, actor }: Heard): string {
  const because = reason === undefined || reason === '' ? '' : `: ${reason}`
  switch (decision) {
    case 'deny':
      return `${actor} denied it${because}`
    case 'expired':
      return 'Nobody answered in time, so it is not allowed'
    default:
      return `It ended without an answer${because}`
  }
}

/** Why somebody is asked, and the rule that their answer could become. */
export function inWords(compiled: CompiledPolicy, meaning: Meaning, by: string, command: string | undefined) {
  const suggested = suggestRule(compiled, meaning)
  const suggestion = suggested.rule === null ? { rule_refused: suggested.inTheWay.slice(0, 2000) } : { rule: suggested.rule }
  return { suggestion, why: (command === undefined ? by : `${by} (of ${command})`).slice(0, 1200) }
}

/** Words of the agent's own, told as such: they stay on one line and within their quotes. */
export const saidBy = (said: string): string =>
  `. The agent says: “${printableLine(said).replaceAll(/[“”]/g, '"').slice(0, 700)}”`

/** What cannot be shown to a person whole is refused, not asked. */
export function tooLarge(action: Action): string | null {
  const shown = action.kind === 'tool' ? action.input : action.kind === 'host' ? action.params : {}
  const fields = action.kind === 'host' ? Object.keys(shown).length : 0
  if (JSON.stringify(shown).length <= actionBounds.inputChars && fields <= actionBounds.params) return null
  return 'This would have to be asked for, and it is too large to be shown to a person whole'
}
