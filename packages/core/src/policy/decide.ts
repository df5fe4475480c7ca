import { isNetTool } from '@anchorhold/protocol/net-calls'
import type { Effect, Policy, Rule } from '@anchorhold/protocol/policy'
import { hostName, type Meaning, type ShellCommand, toolName } from './meaning.ts'
import { baseName, compileGlob, type Fit, type Glob } from './patterns.ts'
import { commandWords, ruleWords } from './rule-words.ts'
import { fitOf, type RuleTest, testOf } from './rule-tests.ts'

const strictness = { allow: 0, ask: 1, deny: 2 } as const satisfies Record<Effect, number>
export const isStricter = (a: Effect, b: Effect): boolean => strictness[a] > strictness[b]

/** What decided: a rule, a rule that only the run can rule out, the absence of a rule, or one of the policy's settings. */
export type Decider = 'rule' | 'maybe' | 'no rule' | 'autonomy' | 'tools'

export type Decision = {
  readonly effect: Effect
  /** The rule or setting, in words for people. */
  readonly by: string
  readonly decider: Decider
  /** Which rule of the policy, by its place. */
  readonly rule: number | null
  /** Of several commands, the one that decided. */
  readonly command?: string
}

/** A rule that matches, and how surely. */
export type Match = { readonly index: number; readonly effect: Effect; readonly fit: Exclude<Fit, 'no'> }

type Compiled = { readonly index: number; readonly rule: Rule; readonly test: RuleTest }
type ToolRules = {
  /** Rules that speak of the call as a whole. */
  readonly whole: Compiled[]
  readonly byProgram: Map<string, Compiled[]>
  /** Rules on commands whose first word is a pattern. */
  readonly anyProgram: Compiled[]
  /** All on commands that do more than allow, for commands whose program is unknown. */
  readonly strict: Compiled[]
}
type Keyed = { readonly byKey: Map<string, Compiled[]>; readonly any: Compiled[] }

export type CompiledPolicy = {
  readonly policy: Policy
  readonly toolLists: readonly (readonly Glob[])[]
  readonly tools: ReadonlyMap<string, ToolRules>
  readonly anyTool: ToolRules
  readonly net: Keyed
  readonly host: Keyed
  readonly spend: readonly Compiled[]
}

/** Sorts the rules by what they are about, so that a decision looks at few of them however many there are. */
export function compilePolicy(policy: Policy): CompiledPolicy {
  const noRules = (): ToolRules => ({ whole: [], byProgram: new Map(), anyProgram: [], strict: [] })
  const tools = new Map<string, ToolRules>()
  const anyTool = noRules()
  const net: Keyed = { byKey: new Map(), any: [] }
  const host: Keyed = { byKey: new Map(), any: [] }
  const spend: Compiled[] = []
  for (const [index, rule] of policy.rules.entries()) {
    const compiled = { index, rule, test: testOf(rule) }
    switch (rule.on) {
      case 'tool': {
        const literal = rule.match.tool === undefined ? null : compileGlob(rule.match.tool).literal
        let bucket = anyTool
        if (literal !== null) tools.set(toolName(literal), (bucket = tools.get(toolName(literal)) ?? noRules()))
        if (compiled.test.command === null) {
          bucket.whole.push(compiled)
          break
        }
        const program = compiled.test.command.words[0]?.literal ?? null
        if (program === null) bucket.anyProgram.push(compiled)
        else add(bucket.byProgram, program, compiled)
        if (rule.effect !== 'allow') bucket.strict.push(compiled)
        break
      }
      case 'net':
        if (rule.match.host === '*') net.any.push(compiled)
        else add(net.byKey, hostName(rule.match.host), compiled)
        break
      case 'host': {
        const program = compileGlob(rule.match.program).literal
        if (program === null) host.any.push(compiled)
        else add(host.byKey, program, compiled)
        break
      }
      case 'spend':
        spend.push(compiled)
        break
    }
  }
  return {
    policy,
    toolLists: policy.tools.map((list) => list.map((name) => compileGlob(toolName(name)))),
    tools,
    anyTool,
    net,
    host,
    spend,
  }
}

function add(map: Map<string, Compiled[]>, key: string, compiled: Compiled): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [compiled])
  else list.push(compiled)
}

/** The strictest rule that matches decides, whatever the order; of several commands, the strictest decision. */
export function decide(compiled: CompiledPolicy, meaning: Meaning): Decision {
  const { policy } = compiled
  if (meaning.action.kind !== 'tool') return judge(compiled, meaning, null, matchesWhole(compiled, meaning))
  const tool = toolName(meaning.action.tool)
  if (policy.autonomy === 'read_only') return setting('deny', 'autonomy', 'autonomy read_only: no tool runs')
  if (!compiled.toolLists.every((list) => list.some((glob) => glob.fits(tool))))
    return setting('deny', 'tools', `allowed_tools: "${tool}" is not among them`)
  const whole = matchesWhole(compiled, meaning)
  let decision: Decision | null = null
  for (const command of partsOf(meaning)) {
    const one = judge(compiled, meaning, command, [...whole, ...matchesCommand(compiled, meaning, command)])
    if (needsNoRule(command) && one.decider === 'no rule') continue
    if (decision === null || outweighs(one, decision)) decision = one
  }
  // Alone, what needs no rule is judged as the call that it is.
  decision ??= judge(compiled, meaning, null, whole)
  if (policy.autonomy === 'restricted' && decision.effect === 'allow')
    return setting('ask', 'autonomy', 'autonomy restricted: every tool asks')
  return decision
}

const setting = (effect: Effect, decider: Decider, by: string): Decision => ({ effect, decider, by, rule: null })

/** What nothing is needed to allow, beside what else there is. */
export const needsNoRule = (command: ShellCommand | null): boolean => command?.guess === true || command?.idle === true

/** What is judged one by one: each command of a shell, or the call as such. */
export const partsOf = ({ commands }: Meaning): readonly (ShellCommand | null)[] =>
  commands === null || commands.length === 0 ? [null] : commands

const certainty = { rule: 3, maybe: 2, 'no rule': 1, autonomy: 0, tools: 0 } as const satisfies Record<Decider, number>
const outweighs = (a: Decision, b: Decision): boolean =>
  isStricter(a.effect, b.effect) || (a.effect === b.effect && certainty[a.decider] > certainty[b.decider])

function judge(compiled: CompiledPolicy, meaning: Meaning, command: ShellCommand | null, matches: readonly Match[]): Decision {
  const shown = command === null || (meaning.commands?.length ?? 0) < 2 ? {} : { command: commandWords(command.words) }
  const won = winner(matches)
  if (won === null) return { ...noRule(compiled, meaning), ...shown }
  const words = ruleWords(compiled.policy.rules[won.index]!)
  return {
    effect: effectOf(won),
    decider: won.fit === 'yes' ? 'rule' : 'maybe',
    by: won.fit === 'yes' ? `rule: ${words}` : `only its run tells whether this rule speaks of it: ${words}`,
    rule: won.index,
    ...shown,
  }
}

/** What might be denied is asked for. */
const effectOf = ({ effect, fit }: Match): Effect => (fit === 'yes' ? effect : 'ask')

export function winner(matches: readonly Match[]): Match | null {
  let won: Match | null = null
  for (const match of matches) {
    if (
      won === null ||
      isStricter(effectOf(match), effectOf(won)) ||
      (effectOf(match) === effectOf(won) && won.fit === 'maybe' && match.fit === 'yes')
    )
      won = match
  }
  return won
}

function noRule({ policy }: CompiledPolicy, { action }: Meaning): Decision {
  switch (action.kind) {
    case 'tool':
      // Asked for there, and not twice.
      if (isNetTool(action.tool))
        return setting('allow', 'no rule', 'no rule covers it, and where it leads is judged at the window')
      return policy.autonomy === 'full'
        ? setting('allow', 'no rule', 'no rule covers it, and autonomy full lets tools run')
        : setting('ask', 'no rule', `no rule covers it, and autonomy ${policy.autonomy} asks`)
    case 'spend':
      return setting('allow', 'no rule', 'no rule covers it, and the ledger holds it')
    case 'net':
    case 'host':
      return setting('ask', 'no rule', 'no rule covers it')
  }
}

/** Rules on the action as a whole. */
export function matchesWhole(compiled: CompiledPolicy, meaning: Meaning): Match[] {
  const { action } = meaning
  const found: Match[] = []
  const look = (rules: readonly Compiled[] | undefined) => {
    for (const one of rules ?? []) {
      const fit = fitOf(one.rule, one.test, meaning)
      if (fit !== 'no') found.push({ index: one.index, effect: one.rule.effect, fit })
    }
  }
  switch (action.kind) {
    case 'tool':
      look(compiled.tools.get(toolName(action.tool))?.whole)
      look(compiled.anyTool.whole)
      break
    case 'net': {
      const host = hostName(action.host)
      look(compiled.net.byKey.get(host))
      // `.example.org` speaks of example.org and of all below it.
      for (let at: number = 0; at !== -1; at = host.indexOf('.', at + 1))
        look(compiled.net.byKey.get(at === 0 ? `.${host}` : host.slice(at)))
      look(compiled.net.any)
      break
    }
    case 'host':
      look(compiled.host.byKey.get(action.program))
      look(compiled.host.any)
      break
    case 'spend':
      look(compiled.spend)
      break
  }
  return found
}

/** Rules on one command of a shell tool. */
export function matchesCommand(compiled: CompiledPolicy, meaning: Meaning, command: ShellCommand | null): Match[] {
  if (command === null || meaning.action.kind !== 'tool') return []
  const found: Match[] = []
  const look = (rules: readonly Compiled[] | undefined) => {
    for (const one of rules ?? []) {
      if (one.rule.effect === 'allow' && command.guess === true) continue
      const fit = fitOf(one.rule, one.test, meaning, command)
      if (fit !== 'no') found.push({ index: one.index, effect: one.rule.effect, fit })
    }
  }
  const [program] = command.words
  for (const bucket of [compiled.tools.get(toolName(meaning.action.tool)), compiled.anyTool]) {
    if (bucket === undefined) continue
    look(bucket.anyProgram)
    if (program === null) look(bucket.strict)
    else if (program !== undefined) for (const name of new Set([program, baseName(program)])) look(bucket.byProgram.get(name))
  }
  return found
}
