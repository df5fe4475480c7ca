import { runs } from '@anchorhold/protocol/test-runs'
import type { Effect, Rule } from '@anchorhold/protocol/policy'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compilePolicy, decide, isStricter } from './decide.ts'
import { plainMeaning, type Meaning } from './meaning.ts'
import { bash, policyOf } from './test-policy.ts'

const effect = fc.constantFrom<Effect>('allow', 'ask', 'deny')
const word = fc.constantFrom('git', 'push', 'status', 'ls', '-f', 'a', 'b')
const patternWord = fc.oneof(word, fc.constantFrom('*', 'pu*', '*s', 'g*t'))
const commandRule = fc
  .record({ words: fc.array(patternWord, { minLength: 1, maxLength: 3 }), effect })
  .map(({ words, effect }): Rule => ({ on: 'tool', match: { tool: 'Bash', command: words.join(' ') }, effect }))
const toolRule = effect.map((effect): Rule => ({ on: 'tool', match: { tool: 'B*' }, effect }))
const netRule = fc
  .record({
    host: fc.constantFrom('a.org', '.org', '*', 'b.a.org'),
    method: fc.option(fc.constantFrom('GET', 'POST'), { nil: undefined }),
    effect,
  })
  .map(({ host, method, effect }): Rule => ({ on: 'net', match: { host, ...(method === undefined ? {} : { method }) }, effect }))
const rule = fc.oneof({ weight: 6, arbitrary: commandRule }, toolRule, netRule)
const rules = fc.array(rule, { maxLength: 8 })
const autonomy = fc.constantFrom('full', 'supervised', 'restricted', 'read_only')
const simple = fc
  .array(fc.oneof({ weight: 8, arbitrary: word }, fc.constant('$x')), { minLength: 1, maxLength: 4 })
  .map((words) => words.join(' '))
const command = fc.oneof(
  simple,
  fc.tuple(simple, fc.constantFrom(' && ', '; ', ' | ', '\n', ' || ', ' & '), simple).map((parts) => parts.join('')),
  simple.map((one) => `(${one})`),
  simple.map((one) => `echo "$(${one})"`),
)
const net = fc
  .record({ host: fc.constantFrom('a.org', 'b.a.org', 'c.net'), method: fc.constantFrom('GET', 'POST', null) })
  .map(({ host, method }): Meaning => plainMeaning({ kind: 'net', host, port: 443, method, path: method === null ? null : '/' }))
const meaning = fc.oneof({ weight: 4, arbitrary: command.map(bash) }, net)

test('decide() allows nothing that a naive reading of the rules does not', () => {
  fc.assert(
    fc.property(rules, meaning, (rules, meaning) => {
      const { effect } = decide(compilePolicy(policyOf(rules)), meaning)
      if (effect === 'allow') expect(naivelyAllowed(rules, meaning)).toBe(true)
    }),
    { numRuns: runs(3000) },
  )
})

/** Word for word, by regular expressions, without indexes: every part has an allowance and nothing against it. */
function naivelyAllowed(rules: readonly Rule[], { action, commands }: Meaning): boolean {
  const glob = (source: string) =>
    new RegExp(`^${source.replaceAll(/[.+?^$()|[\]{}]/g, String.raw`\$&`).replaceAll('*', '.*')}$`, 's')
  const speaks = (rule: Rule, words: readonly (string | null)[]): boolean => {
    if (action.kind === 'net') {
      if (rule.on !== 'net') return false
      const { host, method } = rule.match
      const named = host === '*' || host === action.host || (host.startsWith('.') && `.${action.host}`.endsWith(host))
      return named && (method === undefined || method === action.method)
    }
    if (rule.on !== 'tool' || action.kind !== 'tool' || !glob(rule.match.tool ?? '*').test(action.tool)) return false
    if (rule.match.command === undefined) return true
    const pattern = rule.match.command.split(' ')
    const open = pattern.at(-1) === '*'
    const fixed = open ? pattern.slice(0, -1) : pattern
    return (
      (open ? words.length >= fixed.length : words.length === fixed.length) &&
      fixed.every((one, index) => words[index] !== null && glob(one).test(words[index]!))
    )
  }
  return (commands ?? [{ words: [], plain: true }]).every(({ words }) => {
    const effects = rules.filter((rule) => speaks(rule, words)).map((rule) => rule.effect)
    return effects.length > 0 && effects.every((one) => one === 'allow')
  })
}

test('decide() is never milder for a compound than for its strictest part', () => {
  fc.assert(
    fc.property(
      rules,
      autonomy,
      simple,
      simple,
      fc.constantFrom(' && ', '; ', ' | ', '\n', ' || ', ' |& ', ' & '),
      (rules, autonomy, a, b, joint) => {
        const compiled = compilePolicy(policyOf(rules, { autonomy }))
        const whole = decide(compiled, bash(a + joint + b)).effect
        for (const part of [a, b]) expect(isStricter(decide(compiled, bash(part)).effect, whole)).toBe(false)
      },
    ),
    { numRuns: runs(2000) },
  )
})

test('decide() is never milder after a rule that asks or denies was added, nor stricter after an allowance', () => {
  fc.assert(
    fc.property(rules, rule, fc.nat(8), autonomy, meaning, (rules, added, at, autonomy, meaning) => {
      const before = decide(compilePolicy(policyOf(rules, { autonomy })), meaning).effect
      const after = decide(compilePolicy(policyOf(rules.toSpliced(at, 0, added), { autonomy })), meaning).effect
      if (added.effect === 'allow') expect(isStricter(after, before)).toBe(false)
      else expect(isStricter(before, after)).toBe(false)
    }),
    { numRuns: runs(3000) },
  )
})

test('decide() does not depend on the order of the rules', () => {
  fc.assert(
    fc.property(
      rules.chain((rules) => fc.tuple(fc.constant(rules), fc.shuffledSubarray(rules, { minLength: rules.length }))),
      autonomy,
      meaning,
      ([rules, shuffled], autonomy, meaning) => {
        expect(decide(compilePolicy(policyOf(shuffled, { autonomy })), meaning).effect).toBe(
          decide(compilePolicy(policyOf(rules, { autonomy })), meaning).effect,
        )
      },
    ),
    { numRuns: runs(2000) },
  )
})

test('decide() finds by its indexes what looking at every rule would find', () => {
  fc.assert(
    fc.property(rules, meaning, (rules, meaning) => {
      const alone = rules.map((one) => decide(compilePolicy(policyOf([one], { autonomy: 'full' })), meaning).effect)
      const together = decide(compilePolicy(policyOf(rules, { autonomy: 'full' })), meaning).effect
      if (meaning.action.kind === 'tool') for (const one of alone) expect(isStricter(one, together)).toBe(false)
    }),
    { numRuns: runs(2000) },
  )
})
