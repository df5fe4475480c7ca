import type { Rule } from '@anchorhold/protocol/policy'
import { compilePolicy, matchesCommand, matchesWhole, partsOf } from './decide.ts'
import { defaultPolicy } from './default-policy.ts'
import type { Meaning } from './meaning.ts'
import { literalGlob } from './patterns.ts'
import { ruleWords } from './rule-words.ts'
import { candidateFor } from './suggest.ts'

/** Longer texts are not worth a rule of their own. */
const literalCharsMax = 500

/** The smallest set of allowances under which all of these would have gone through without being asked for. Each is as narrow as
 *  what people would write; none goes that the others do not need. */
export function propose(meanings: readonly Meaning[]): readonly Rule[] {
  const found = new Map<string, { readonly rule: Rule; readonly wantedBy: Meaning[] }>()
  for (const meaning of meanings) {
    for (const rule of rulesFor(meaning)) {
      const known = found.get(ruleWords(rule))
      if (known === undefined) found.set(ruleWords(rule), { rule, wantedBy: [meaning] })
      else known.wantedBy.push(meaning)
    }
  }
  const all = [...found.values()]
  const compiled = compilePolicy({ ...defaultPolicy, autonomy: 'supervised', rules: all.map(({ rule }) => rule) })
  const dropped = new Set<number>()
  /** All rules allow, so an action goes through where each of its parts still has one that speaks of it. */
  const goesThrough = (meaning: Meaning): boolean => {
    const whole = matchesWhole(compiled, meaning)
    return partsOf(meaning).every(
      (part) =>
        part?.guess === true || [...whole, ...matchesCommand(compiled, meaning, part)].some(({ index }) => !dropped.has(index)),
    )
  }
  /** What is allowed by other rules than its own by now. */
  const moved: Meaning[] = []
  for (const [index, { wantedBy }] of all.entries()) {
    dropped.add(index)
    if (wantedBy.every(goesThrough) && moved.every(goesThrough)) moved.push(...wantedBy)
    else dropped.delete(index)
  }
  return all
    .filter((_, index) => !dropped.has(index))
    .map(({ rule }) => rule)
    .toSorted((a, b) => (ruleWords(a) < ruleWords(b) ? -1 : 1))
}

function rulesFor(meaning: Meaning): readonly Rule[] {
  const { action } = meaning
  const parts = partsOf(meaning).filter((part) => part?.guess !== true)
  const found = parts.map((part) => candidateFor(meaning, part))
  if (found.every((rule) => rule !== null)) return found
  if (action.kind !== 'tool') return []
  // A part that no rule on commands can allow: then the call as it was, word for word.
  const { command } = action.input
  const exact = typeof command === 'string' && command !== '' ? literalGlob(command) : null
  const match = exact === null || exact.length > literalCharsMax ? {} : { input: { command: exact } }
  return [{ on: 'tool', match: { tool: literalGlob(action.tool), ...match }, effect: 'allow' }]
}
