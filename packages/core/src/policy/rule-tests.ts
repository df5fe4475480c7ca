import type { Rule } from '@anchorhold/protocol/policy'
import { canonicalJson } from './digest.ts'
import { fitsPort, hostName, type Meaning, netPaths, type ShellCommand, toolName } from './meaning.ts'
import {
  catchesWords,
  compileCommandPattern,
  compileGlob,
  coversWords,
  type CommandPattern,
  type Fit,
  type Glob,
} from './patterns.ts'

/** What a rule says, made ready to be compared. */
export type RuleTest = {
  readonly command: CommandPattern | null
  readonly globs: Readonly<Record<string, Glob>>
  readonly fields: readonly (readonly [name: string, glob: Glob])[]
}

export function testOf(rule: Rule): RuleTest {
  const { match } = rule
  const globs: Record<string, Glob> = {}
  for (const name of ['tool', 'path', 'program', 'provider', 'model'] as const) {
    const source = (match as Readonly<Record<string, unknown>>)[name]
    if (typeof source === 'string') globs[name] = compileGlob(isInAnyCase(rule) ? source.toLowerCase() : source)
  }
  const fields = (rule.on === 'tool' ? rule.match.input : rule.on === 'host' ? rule.match.params : undefined) ?? {}
  return {
    command: rule.on === 'tool' && rule.match.command !== undefined ? compileCommandPattern(rule.match.command) : null,
    globs,
    fields: Object.entries(fields).map(([name, source]) => [name, compileGlob(source)] as const),
  }
}

const isInAnyCase = (rule: Rule): boolean => rule.on === 'net' && rule.match.any_case === true

/** Whether the rule speaks of the action. An allowance must fit for certain; what is stricter also counts where it may. */
export function fitOf(rule: Rule, test: RuleTest, meaning: Meaning, command: ShellCommand | null = null): Fit {
  const { action } = meaning
  const { globs } = test
  switch (action.kind) {
    case 'tool': {
      if (rule.on !== 'tool') return 'no'
      const named = globs.tool === undefined || globs.tool.literal !== null || globs.tool.fits(toolName(action.tool))
      return all(rule, [
        named ? 'yes' : 'no',
        globs.path === undefined ? 'yes' : fitPath(globs.path, meaning),
        fitFields(test, action.input),
        test.command === null ? 'yes' : fitCommand(rule, test.command, command),
      ])
    }
    case 'net': {
      if (rule.on !== 'net') return 'no'
      const { host, method } = rule.match
      const methods = method === undefined ? null : [method].flat().map((one) => one.toUpperCase())
      return all(rule, [
        fitHost(host, action.host),
        fitsPort(rule, action.port) ? 'yes' : 'no',
        methods === null
          ? 'yes'
          : action.method === null
            ? 'maybe'
            : methods.includes(action.method.toUpperCase())
              ? 'yes'
              : 'no',
        globs.path === undefined ? 'yes' : fitNetPath(rule, globs.path, action),
      ])
    }
    case 'host':
      if (rule.on !== 'host') return 'no'
      return all(rule, [globs.program!.fits(action.program) ? 'yes' : 'no', fitFields(test, action.params)])
    case 'spend': {
      if (rule.on !== 'spend') return 'no'
      const { above_nanos: above } = rule.match
      return all(rule, [
        globs.provider === undefined
          ? 'yes'
          : action.provider === undefined
            ? 'maybe'
            : globs.provider.fits(action.provider)
              ? 'yes'
              : 'no',
        globs.model === undefined || globs.model.fits(action.model) ? 'yes' : 'no',
        above === undefined || action.needed_nanos > above ? 'yes' : 'no',
      ])
    }
  }
}

function all({ effect }: Rule, fits: readonly Fit[]): Fit {
  if (fits.includes('no')) return 'no'
  if (!fits.includes('maybe')) return 'yes'
  return effect === 'allow' ? 'no' : 'maybe'
}

function fitCommand(rule: Rule, pattern: CommandPattern, command: ShellCommand | null): Fit {
  if (command === null) return 'no'
  if (rule.effect !== 'allow') return catchesWords(pattern, command.words)
  return command.plain && coversWords(pattern, command.words) ? 'yes' : 'no'
}

function fitPath(glob: Glob, { paths, searches }: Meaning): Fit {
  if (paths.some((path) => glob.fits(path))) return 'yes'
  const inside = (path: string) => (path.endsWith('/') ? path : `${path}/`)
  // All that lies in the folder is what the rule speaks of.
  if (searches.length > 0 && glob.open && paths.some((path) => path !== '' && glob.fits(inside(path)))) return 'yes'
  const isRooted = /^(\/|~(\/|$))/.test(glob.prefix)
  // A search below a folder may come upon whatever the rule names in there.
  const isBelow = (path: string) =>
    path === '' ? !isRooted : glob.prefix.startsWith(inside(path)) || path.startsWith(glob.prefix)
  return searches.some(isBelow) ? 'maybe' : 'no'
}

function fitFields({ fields }: RuleTest, values: Readonly<Record<string, unknown>>): Fit {
  return fields.every(([name, glob]) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    return value !== undefined && glob.fits(typeof value === 'string' ? value : canonicalJson(value))
  })
    ? 'yes'
    : 'no'
}

function fitHost(pattern: string, actual: string): Fit {
  const wanted = hostName(pattern)
  const host = hostName(actual)
  return wanted === '*' || host === wanted || (wanted.startsWith('.') && `.${host}`.endsWith(wanted)) ? 'yes' : 'no'
}

/** An allowance must fit however the server reads the path; what is stricter, in any way. */
function fitNetPath(rule: Rule, glob: Glob, action: { readonly path: string | null }): Fit {
  if (action.path === null) return 'maybe'
  const speaksOfQuery = rule.on === 'net' && rule.match.path?.includes('?') === true
  const written = (text: string) => (isInAnyCase(rule) ? text.toLowerCase() : text)
  const fits = netPaths(action).map(({ path, whole }) => glob.fits(written(speaksOfQuery ? whole : path)))
  return (rule.effect === 'allow' ? fits.every(Boolean) : fits.some(Boolean)) ? 'yes' : 'no'
}
