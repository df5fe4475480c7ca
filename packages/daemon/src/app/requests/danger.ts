import { meaningOf } from '@anchorhold/core/policy/action-text'
import { matchesCommand, matchesWhole, partsOf } from '@anchorhold/core/policy/decide'
import type { Action } from '@anchorhold/protocol/actions'
import type { Request } from '@anchorhold/protocol/requests'
import type { RequestAnswer } from '@anchorhold/protocol/events'
import { type Judges, sessionFor } from '../parts.ts'
import { compiledFor } from '../policy/policy.ts'
import { folderOf } from '../policy/policy-verbs.ts'

/** What allowing a request would do that asks for a fresh proof, in words, or null: what a rule marks so, a rule for all, a command
 *  of the host, and anything where there is no wall. */
export function dangerOf(parts: Judges, { session, action }: Request, scope: RequestAnswer['scope']): string | null {
  if (action.kind === 'question' || action.kind === 'plan') return null
  if (scope === 'rule') return 'make it a rule'
  if (action.kind === 'host') return 'allow a command of the host'
  if (sessionFor(parts, session, null).rung === 'none') return 'allow it where there is no wall'
  return isMarked(parts, session, action) ? 'allow what a rule marks as dangerous' : null
}

function isMarked(parts: Judges, session: Request['session'], action: Action): boolean {
  const compiled = compiledFor(parts, session)
  const { rules } = compiled.policy
  if (!rules.some(({ step_up }) => step_up === true)) return false
  const meaning = meaningOf(action, folderOf(sessionFor(parts, session, null)))
  const matches = [
    ...matchesWhole(compiled, meaning),
    ...partsOf(meaning).flatMap((part) => (part === null ? [] : matchesCommand(compiled, meaning, part))),
  ]
  return matches.some(({ index }) => rules[index]!.step_up === true)
}
