import { Failure } from '@anchorhold/protocol/failures'
import type { Rule } from '@anchorhold/protocol/policy'
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isSeq, parseDocument } from 'yaml'
import { readPolicy } from './read-policy.ts'

/** Adds a rule at the end of a policy file's own, and leaves all else as it stands, comments included. The file is whole at any
 *  moment: the new one takes the place of the old at once. */
export function appendRule(path: string, rule: Rule): void {
  const text = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const name = basename(path)
  const before = readPolicy(name, text)
  if (before.settings === null) {
    const [first] = before.problems
    throw new Failure(
      'conflict',
      `Cannot add a rule to "${path}": line ${first?.line ?? 1}: ${first?.message ?? 'it cannot be used'}`,
      {
        hint: 'Mend the file first: anchorhold policy check',
      },
    )
  }
  const after = withRule(text, rule)
  const { settings, problems } = readPolicy(name, after)
  // What is written must be what was meant, whatever the file looked like.
  if (settings === null || settings.rules.length !== before.settings.rules.length + 1 || !same(settings.rules.at(-1)?.rule, rule))
    throw new Failure('conflict', `Cannot add a rule to "${path}": ${problems[0]?.message ?? 'its rules are not a plain list'}`, {
      hint: 'Add it by hand, below "rules:"',
    })
  replaceFile(existsSync(path) ? realpathSync(path) : path, after)
}

/** The text with the rule in it. */
function withRule(text: string, rule: Rule): string {
  const doc = parseDocument(text)
  const written = doc.createNode(asWritten(rule))
  const rules: unknown = doc.getIn(['rules'], true)
  if (isSeq(rules)) {
    // `rules: []` would otherwise go on in one line.
    if (rules.items.length === 0) rules.flow = false
    rules.add(written)
  } else doc.setIn(['rules'], doc.createNode([written]))
  return doc.toString({ lineWidth: 0 })
}

/** A rule in the words of a file: its sums are dollars there. */
export function asWritten(rule: Rule): Readonly<Record<string, unknown>> {
  if (rule.on !== 'spend' || rule.match.above_nanos === undefined) return rule
  const { above_nanos: above, ...match } = rule.match
  return { ...rule, match: { ...match, above: `$${(above / 1_000_000_000).toFixed(6)}` } }
}

const same = (a: Rule | undefined, b: Rule): boolean => JSON.stringify(sorted(a)) === JSON.stringify(sorted(b))
const sorted = (value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.entries(value)
        .map(([key, one]) => [key, sorted(one)] as const)
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
    : value

/** On the disk before it takes the old one's place. */
export function replaceFile(path: string, text: string): void {
  const mode = existsSync(path) ? statSync(path).mode & 0o777 : 0o600
  const beside = join(dirname(path), `.${basename(path)}.${process.pid}.new`)
  try {
    const file = openSync(beside, 'w', mode)
    try {
      writeFileSync(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(beside, path)
  } catch (error) {
    rmSync(beside, { force: true })
    throw error
  }
}
