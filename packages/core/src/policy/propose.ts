import type { Rule } from '@anchorhold/protocol/policy'
import { compilePolicy, decide } from './decide.ts'
import { defaultPolicy } from './default-policy.ts'
import { partsOf } from './decide.ts'
import type { Meaning } from './meaning.ts'
import { literalGlob } from './patterns.ts'
import { ruleWords } from './rule-words.ts'
import { candidateFor } from './suggest.ts'

/** Longer texts are not worth a rule of their own. */
const literalCharsMax = 500

/** The smallest set of allowances under which all of these would have gone through without being asked for. Each is as narrow as
 *  what people would write; none goes that the others do not need. */
export function propose(meanings: readonly Meaning[]): readonly Rule[] {
  const rules = new Map<string, Rule>()
  for (const meaning of meanings) for (const rule of rulesFor(meaning)) rules.set(ruleWords(rule), rule)
  const allows = (some: readonly Rule[]) => {
    const compiled = compilePolicy({ ...defaultPolicy, autonomy: 'supervised', rules: [...some] })
    return (meaning: Meaning) => decide(compiled, meaning).effect === 'allow'
  }
  const wanted = meanings.filter(allows([...rules.values()]))
  let kept = [...rules.values()]
  for (const rule of rules.values()) {
    const without = kept.filter((one) => one !== rule)
    if (wanted.every(allows(without))) kept = without
  }
  return kept.toSorted((a, b) => (ruleWords(a) < ruleWords(b) ? -1 : 1))
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
