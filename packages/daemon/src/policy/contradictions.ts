import { coversAll, matchKey } from '@anchorhold/core/policy/covers'
import { isStricter } from '@anchorhold/core/policy/decide'
import { blockedTool, type PolicySettings } from '@anchorhold/core/policy/effective'
import { compileGlob } from '@anchorhold/core/policy/patterns'
import { ruleWords } from '@anchorhold/core/policy/rule-words'
import { meantTool } from '@anchorhold/core/agents/tools'
import type { PolicyProblem, Rule } from '@anchorhold/protocol/policy'
import type { PolicyFile } from './policy-schema.ts'

type Position = { readonly line: number; readonly column: number }
type Tell = (level: PolicyProblem['level'], position: Position, message: string) => void
export type PlacedRule = {
  readonly rule: Rule
  readonly position: Position
  /** One of those that a preset stands for, which nobody has written out. */
  readonly ofPreset: boolean
}

/** Pairs of rules that are compared; a file of thousands is not held up for the sake of a warning. */
const pairsMax = 200_000

/** Two rules of one file on the same with different effects cannot both be meant, and the file is not taken; what another line makes
 *  void is no error, but hardly what was meant. */
export function tellContradictions(
  content: PolicyFile,
  rules: readonly PlacedRule[],
  position: (path: readonly (string | number)[]) => Position,
  tell: Tell,
): void {
  const first = new Map<string, PlacedRule>()
  const told = new Set<PlacedRule>()
  for (const one of rules) {
    // Where a place is in the own network is said by an allowance, also of a place that is asked for.
    if (one.rule.on === 'net' && one.rule.own_network === true) continue
    const key = matchKey(one.rule)
    const other = first.get(key)
    if (other === undefined) first.set(key, one)
    else if (other.rule.effect !== one.rule.effect) {
      told.add(one).add(other)
      const isError = !one.ofPreset && !other.ofPreset
      tell(
        isError ? 'error' : 'warning',
        one.position,
        `"${ruleWords(one.rule)}" contradicts line ${other.position.line}, which has "${ruleWords(other.rule)}": ${isError ? 'keep one of them' : 'the strictest counts'}`,
      )
    }
  }
  const denies = [
    ...(content.blocked_tools ?? []).map((tool, index) => ({
      rule: blockedTool(tool),
      position: position(['blocked_tools', index]),
    })),
    ...rules.filter(({ rule }) => rule.effect === 'deny'),
  ].map((one) => ({ ...one, covers: coversAll(one.rule) }))
  const allowed = content.allowed_tools ?? []
  const lists = allowed.map((tool) => compileGlob(tool))
  let pairs = 0
  for (const one of rules) {
    const { rule, position } = one
    if (rule.effect !== 'allow' || told.has(one) || (pairs += denies.length) > pairsMax) continue
    const over = denies.find(({ covers }) => covers(rule))
    if (over !== undefined)
      tell('warning', position, `"${ruleWords(rule)}" is void: line ${over.position.line} has "${ruleWords(over.rule)}"`)
    else if (rule.on === 'tool' && rule.match.tool !== undefined && !rule.match.tool.includes('*') && lists.length > 0)
      if (!lists.some(({ fits }) => fits(rule.match.tool!)))
        tell('warning', position, `"${ruleWords(rule)}" is void: allowed_tools does not name "${rule.match.tool}"`)
  }
  for (const key of ['allowed_tools', 'blocked_tools', 'approval_required_tools'] as const)
    for (const [index, tool] of (content[key] ?? []).entries()) tellMeant(tool, position([key, index]))
  for (const { rule, position: at } of rules)
    if (rule.on === 'tool' && rule.match.tool !== undefined) tellMeant(rule.match.tool, at)
  tellLists('tools', content.allowed_tools, content.blocked_tools)
  tellLists('models', content.allowed_models, content.blocked_models)
  if (content.require_max_cost === true && (content.default_max_cost_usd ?? content.default_max_cost_micros) !== undefined)
    tell('warning', position(['require_max_cost']), 'A default budget is void where sessions that name none are refused')

  function tellMeant(tool: string, at: Position): void {
    const meant = meantTool(tool)
    if (meant !== null) tell('warning', at, `No tool is called "${tool}": write "${meant}" if that is meant`)
  }
  function tellLists(what: 'tools' | 'models', allowed: readonly string[] = [], blocked: readonly string[] = []): void {
    const globs = blocked.map((glob) => ({ glob, fits: compileGlob(glob).fits }))
    for (const [index, one] of allowed.entries()) {
      const over = globs.find(({ fits }) => fits(one))
      if (over !== undefined)
        tell('warning', position([`allowed_${what}`, index]), `"${one}" is void: blocked_${what} has "${over.glob}"`)
    }
  }
}

/** What a named policy allows or asks for in vain, because the policy of the house is stricter on the same. The other way round is
 *  what named policies are for. */
export function againstHouse(house: PolicySettings, named: PolicySettings): readonly PolicyProblem[] {
  const stricter = new Map<string, { readonly rule: Rule; readonly line: number }>()
  for (const one of house.rules) {
    const before = stricter.get(matchKey(one.rule))
    if (before === undefined || isStricter(one.rule.effect, before.rule.effect)) stricter.set(matchKey(one.rule), one)
  }
  return named.rules.flatMap(({ rule, line }) => {
    const over = stricter.get(matchKey(rule))
    if (over === undefined || !isStricter(over.rule.effect, rule.effect)) return []
    const message = `"${ruleWords(rule)}" is void: line ${over.line} of ${house.file} has "${ruleWords(over.rule)}"`
    return [{ file: named.file, line, column: 1, level: 'warning' as const, message }]
  })
}
