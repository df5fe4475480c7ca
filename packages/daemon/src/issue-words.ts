import type { z } from 'zod'

/** Who has got so much wrong is told the rest when they try again. */
const issuesMax = 20

/** What is wrong with a file, in a line. */
export const issuesInWords = ({ issues }: z.ZodError): string =>
  issues
    .slice(0, issuesMax)
    .map((issue) => (issue.path.length === 0 ? issueWords(issue) : `${issue.path.join('.')}: ${issueWords(issue)}`))
    .join('; ')

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
    case 'unrecognized_keys':
      return `there is no key ${issue.keys.map((key) => `"${key}"`).join(', ')}`
    case 'invalid_format': {
      const id = 'pattern' in issue ? /^\/?\^([a-z]{2,5}_)/.exec(issue.pattern ?? '')?.[1] : undefined
      if (id !== undefined) return `this is no id, which would begin with "${id}"`
      if (issue.format === 'starts_with' && 'prefix' in issue) return `this must begin with "${String(issue.prefix)}"`
      return `this must be ${formats[issue.format] ?? `written as ${issue.pattern ?? issue.format}`}`
    }
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
  object: 'an object: keys with their values',
  record: 'an object: keys with their values',
}

const formats: Readonly<Record<string, string>> = {
  url: 'an address, as http://localhost:8080',
  date: 'a day, as 2026-11-30',
  base64: 'written in base64',
}

const oneOf = (values: readonly string[]): string =>
  values.length < 2 ? values.join('') : `${values.slice(0, -1).join(', ')} or ${values.at(-1)!}`
