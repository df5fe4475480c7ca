import type { Effect, Rule } from '@anchorhold/protocol/policy'
import { type CompiledPolicy, decide, type Decision, matchesCommand, matchesWhole, partsOf, winner } from './decide.ts'
import type { Meaning } from './meaning.ts'
import { commandWords, ruleWords } from './rule-words.ts'
import { suggestRule } from './suggest.ts'

export type ExplainedMatch = {
  readonly rule: number
  readonly effect: Effect
  /** It counts, though only the run would tell whether it is meant. */
  readonly maybe: boolean
  readonly decides: boolean
}

export type Explanation = {
  readonly decision: Decision
  /** For each command, or for the call as such, the rules that speak of it. */
  readonly parts: readonly { readonly command: string | null; readonly matches: readonly ExplainedMatch[] }[]
  /** What would lead to another decision, in words. */
  readonly change: readonly string[]
  /** The rule that would settle it, where one would. */
  readonly rule: Rule | null
}

/** Why an action is decided as it is, and what would change it. */
export function explain(compiled: CompiledPolicy, meaning: Meaning): Explanation {
  const decision = decide(compiled, meaning)
  const whole = matchesWhole(compiled, meaning)
  const parts = partsOf(meaning)
    .map((part) => {
      const matches = [...whole, ...matchesCommand(compiled, meaning, part)]
      const won = winner(matches)
      return {
        guess: part?.guess === true,
        command: part === null ? null : commandWords(part.words),
        matches: matches.map((one) => ({
          rule: one.index,
          effect: one.effect,
          maybe: one.fit === 'maybe',
          decides: one === won && (decision.rule === one.index || decision.effect === 'allow'),
        })),
      }
    })
    .filter(({ guess, matches }) => !guess || matches.length > 0)
    .map(({ command, matches }) => ({ command, matches }))
  const suggestion = decision.effect === 'ask' ? suggestRule(compiled, meaning) : null
  return { decision, parts, change: changes(compiled, meaning, decision, suggestion), rule: suggestion?.rule ?? null }
}

function changes(
  { policy }: CompiledPolicy,
  { action }: Meaning,
  decision: Decision,
  suggestion: ReturnType<typeof suggestRule> | null,
): string[] {
  switch (decision.decider) {
    case 'autonomy':
      return [`Another autonomy than ${policy.autonomy} for the session`]
    case 'tools':
      return ['Naming the tool in allowed_tools, in every policy that has such a list']
    case 'rule':
      if (decision.effect === 'allow') return ['Any rule that denies it or asks for it: the strictest counts']
      return [
        `Taking away or narrowing this rule, which no allowance outweighs: ${ruleWords(policy.rules[decision.rule!]!)}`,
        ...(decision.effect === 'ask' ? ['A grant: someone answers the request'] : []),
      ]
    case 'maybe':
      return ['Words that are written out instead of computed when it runs', 'A grant: someone answers the request']
    case 'no rule':
      if (decision.effect === 'allow')
        return [
          action.kind === 'tool' ? 'Another autonomy than full, or a rule that asks or denies' : 'A rule that asks or denies',
        ]
      return [
        suggestion?.rule == null
          ? `A rule: none is at hand, because ${suggestion?.rule === null ? suggestion.inTheWay : ''}`
          : `This rule: ${ruleWords(suggestion.rule)}`,
        'A grant: someone answers the request',
        ...(action.kind === 'tool' ? ['Autonomy full for the session'] : []),
      ]
  }
}
