import type { z } from 'zod'
import { policySchemas } from './policy-schema.ts'

/** What is wrong with a value, in words for whoever has written it. A schema's own words stand; the parser's are put into ours. */
export function issueWords(issue: z.core.$ZodIssue): string {
  if (!/^(Invalid|Too (small|big)|Unrecognized)/.test(issue.message)) return issue.message
  switch (issue.code) {
    case 'invalid_type':
      return `this must be ${kinds[issue.expected] ?? `of the kind "${issue.expected}"`}`
    case 'invalid_value':
      return `write ${oneOf(issue.values.map(String))}`
    case 'invalid_union':
      return issue.discriminator === 'on'
        ? 'write tool, net, host or spend'
        : 'this is written in none of the ways that it can be'
    case 'too_small': {
      const least = Number(issue.minimum)
      if (issue.origin === 'number' || issue.origin === 'int')
        return `this must be ${issue.inclusive === false ? `more than ${least}` : `${least} or more`}`
      return least === 1 ? 'this must not be empty' : `this must have ${least} ${parts[issue.origin] ?? 'parts'} or more`
    }
    case 'too_big':
      return issue.origin === 'number' || issue.origin === 'int'
        ? `this must be ${Number(issue.maximum)} or less`
        : `this must have ${Number(issue.maximum)} ${parts[issue.origin] ?? 'parts'} or fewer`
    case 'invalid_format':
      return 'this is not written as it must be'
    default:
      return 'this is not what can stand here'
  }
}

const parts: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' }
const kinds: Readonly<Record<string, string>> = {
  number: 'a number',
  int: 'a whole number',
  string: 'text; put it in quotes',
  boolean: 'true or false',
  array: 'a list',
  object: 'a list of keys with their values',
  record: 'a list of keys with their values',
}

const oneOf = (values: readonly string[]): string =>
  values.length < 2 ? values.join('') : `${values.slice(0, -1).join(', ')} or ${values.at(-1)!}`

/** A key that is not known where it stands, and what may have been meant. */
export function unknownKey(path: readonly string[], key: string, { nested }: { readonly nested: boolean }): string {
  if (nested && path.length === 0 && key in policySchemas.file.shape)
    return `"${key}" stands beside "mounts": write it below mounts./claude${key === 'budget' ? '' : '.policy'}, or take "mounts" away`
  const near = path.length === 0 && !nested ? closest(key) : null
  return `Unknown key "${[...path, key].join('.')}"${near === null ? '' : `: did you mean "${near}"?`}`
}

/** The key that somebody may have meant. */
function closest(key: string): string | null {
  const plain = (text: string) => text.toLowerCase().replaceAll(/[^a-z]/g, '')
  const same = Object.keys(policySchemas.file.shape).find(
    (known) => plain(known) === plain(key) || plain(known) === `${plain(key)}s` || `${plain(known)}s` === plain(key),
  )
  return same ?? Object.keys(policySchemas.file.shape).find((known) => distance(plain(known), plain(key)) <= 2) ?? null
}

function distance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return 3
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    row = next
  }
  return row[b.length]!
}
