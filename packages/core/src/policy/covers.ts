import type { Rule } from '@anchorhold/protocol/policy'
import { hostName } from './meaning.ts'
import { catchesWords, compileCommandPattern, compileGlob } from './patterns.ts'

/** Whether two rules speak of exactly the same, by a text that is the same for both. */
export const matchKey = ({ on, match }: Rule): string =>
  JSON.stringify([on, Object.entries(match).toSorted(([a], [b]) => (a < b ? -1 : 1))])

/** A test whether a rule, when it denies or asks, speaks of all that another one speaks of. Sometimes it does and this does not see it;
 *  never the other way round. */
export function coversAll(wide: Rule): (narrow: Rule) => boolean {
  switch (wide.on) {
    case 'tool': {
      const { tool, path, input, command } = wide.match
      const tests = [glob(tool), glob(path), record(input)] as const
      const pattern = command === undefined ? null : compileCommandPattern(command)
      return ({ on, match }) =>
        on === 'tool' &&
        tests[0](match.tool) &&
        tests[1](match.path) &&
        tests[2](match.input) &&
        (pattern === null || (plainWords(match.command) !== null && catchesWords(pattern, plainWords(match.command)!) === 'yes'))
    }
    case 'net': {
      const { host, port, method, path, any_case } = wide.match
      const methods = method === undefined ? null : new Set([method].flat())
      const fits = glob(any_case === true ? path?.toLowerCase() : path)
      return ({ on, match }) =>
        on === 'net' &&
        hostCovers(host, match.host) &&
        (port === undefined || port === match.port) &&
        (methods === null || (match.method !== undefined && [match.method].flat().every((one) => methods.has(one)))) &&
        // What holds in any case covers what holds in one, and not the other way round.
        (any_case === true
          ? fits(match.path?.toLowerCase())
          : (match.any_case !== true || path === undefined) && fits(match.path))
    }
    case 'host': {
      const program = glob(wide.match.program)
      const params = record(wide.match.params)
      return ({ on, match }) => on === 'host' && program(match.program) && params(match.params)
    }
    case 'spend': {
      const { provider, model, above_nanos: above } = wide.match
      const tests = [glob(provider), glob(model)] as const
      return ({ on, match }) =>
        on === 'spend' &&
        tests[0](match.provider) &&
        tests[1](match.model) &&
        (above === undefined || (match.above_nanos ?? -1) >= above)
    }
  }
}

/** A glob fits the text of another, stars and all, only where it fits all that the other one fits. */
function glob(wide: string | undefined): (narrow: string | undefined) => boolean {
  if (wide === undefined || wide === '*') return () => true
  // An escaped star would be taken for the other's.
  if (wide.includes('\\')) return (narrow) => narrow === wide
  const { fits } = compileGlob(wide)
  return (narrow) => narrow !== undefined && fits(narrow)
}

function record(wide: Readonly<Record<string, string>> | undefined) {
  const tests = Object.entries(wide ?? {}).map(([name, one]) => [name, glob(one)] as const)
  return (narrow: Readonly<Record<string, string>> | undefined): boolean => tests.every(([name, test]) => test(narrow?.[name]))
}

const plainWords = (command: string | undefined): readonly string[] | null =>
  command === undefined || /["'\\]/.test(command) ? null : command.split(/\s+/).filter((word) => word !== '')

function hostCovers(wide: string, narrow: string): boolean {
  const [a, b] = [hostName(wide), hostName(narrow)]
  return a === '*' || a === b || (a.startsWith('.') && (`.${b}` === a || b.endsWith(a)))
}
