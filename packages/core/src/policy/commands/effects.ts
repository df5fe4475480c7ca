import { baseName, type ShellWord } from '../patterns.ts'

/** Builtins that take a name or a number in a text and evaluate what stands in its brackets. */
const evaluating: ReadonlySet<string> = new Set([
  'let',
  'declare',
  'typeset',
  'local',
  'export',
  'readonly',
  'printf',
  'read',
  'unset',
  'test',
  '[',
  'mapfile',
  'readarray',
  'wait',
  'getopts',
])
export const evaluates = ([program]: readonly ShellWord[]): boolean => typeof program === 'string' && evaluating.has(program)

/** Whether a command does by an option what one would not think of: it writes a file, or sets a variable that may change how commands
 *  run. Those in capitals do, and of what is unknown it is unknown. */
export function doesMore([program, ...args]: readonly ShellWord[]): boolean {
  switch (program) {
    case 'git':
      return args.some((word) => word?.startsWith('--ou') === true)
    case 'printf':
      return args.some((word, at) => word?.startsWith('-v') === true && !isOrdinary(word.slice(2) || args[at + 1]))
    case 'read':
    case 'mapfile':
    case 'readarray':
    case 'getopts':
      return args.some((word) => word === null || (/^[A-Za-z_]\w*$/.test(word) && !isOrdinary(word)))
    default:
      return false
  }
}
const isOrdinary = (name: ShellWord | undefined): boolean => typeof name === 'string' && /^[a-z_][a-z0-9_]*$/.test(name)

/** Whether a command changes how those after it run, or runs what those before it print. Where a shell is leaves it out: the agent's
 *  stays in its folder from one call to the next. */
export function affectsOthers([program, ...args]: readonly ShellWord[]): boolean {
  if (program === null || program === undefined) return true
  return (
    changesShell.has(program) || (interpreters.test(baseName(program)) && args.every((word) => word?.startsWith('-') ?? true))
  )
}
const changesShell: ReadonlySet<string> = new Set(
  '. source eval exec export declare typeset local readonly set unset shopt alias unalias enable hash trap umask ulimit read mapfile readarray getopts let bind complete command builtin'.split(
    ' ',
  ),
)
/** Whether a command does nothing: what its words do was done before it ran. */
export const isIdle = ([program]: readonly ShellWord[]): boolean => program === 'true' || program === 'false' || program === ':'

/** Programs whose first operand is what they run. */
export const interpreters =
  /^(node|deno|bun|tsx|ts-node|python[\d.]*|pypy[\d.]*|ruby|perl|php|lua|Rscript|java|npx|bunx|pnpx|uvx|pipx)$/
