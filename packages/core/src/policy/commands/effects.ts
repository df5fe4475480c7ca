import { baseName, type ShellWord } from '../patterns.ts'
import { isArmed } from './armed.ts'
import { isHarmlessSetting, isOwnVariable } from './variables.ts'

/** Builtins that take a name or a number in a text and evaluate what stands in its brackets. */
const evaluating: ReadonlySet<string> = new Set(
  'let declare typeset local export readonly printf read unset test [ mapfile readarray wait getopts'.split(' '),
)
export const evaluates = (words: readonly ShellWord[]): boolean =>
  typeof words[0] === 'string' && evaluating.has(words[0]) && !tellsAll(words)

/** Whether its words tell all that a command does: it leaves the shell as it was, and no option of it runs another program or writes a
 *  file where one would not think of it. Only such a command can be allowed by what a rule says of commands. */
export function tellsAll(words: readonly ShellWord[]): boolean {
  const [program, ...args] = words
  if (program === undefined || program === null) return false
  if (!builtins.has(program)) return !isArmed(baseName(program), args)
  return keeping.has(program) || keepsWhen[program]?.(args) === true
}

/** Builtins of bash, all of them: what is none is a program. */
export const builtins: ReadonlySet<string> = new Set(
  ': . [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait'.split(
    ' ',
  ),
)
/** Those that change nothing about what later words mean, whatever they are given. Where the shell stands is told by `changesFolder`. */
const keeping: ReadonlySet<string> = new Set(
  ': break cd continue dirs echo exit false kill popd pushd pwd return shift times true type'.split(' '),
)
/** Those that change nothing with some words. */
const keepsWhen: Readonly<Record<string, (args: readonly ShellWord[]) => boolean>> = {
  // By `-v` it sets a variable.
  printf: ([first]) => typeof first === 'string' && (first === '--' || !first.startsWith('-')),
  test: isSafeTest,
  '[': (args) => args.at(-1) === ']' && isSafeTest(args.slice(0, -1)),
  read: readsOwn,
  wait: (args) => args.every((word) => typeof word === 'string' && !word.startsWith('-')),
  command: ([first, ...rest]) => {
    if (typeof first !== 'string') return false
    if (/^-[vV]+$/.test(first)) return true
    const program = first === '-p' ? rest[0] : first
    return typeof program === 'string' && !program.startsWith('-') && (!builtins.has(program) || keeping.has(program))
  },
  export: (args) => args.length > 0 && args.every((word) => isHarmlessSetting(word)),
  set: (args) =>
    args.length > 0 &&
    args.every((word, at) =>
      at > 0 && args[at - 1]?.endsWith('o') === true
        ? word === 'pipefail' || word === 'errexit' || word === 'nounset'
        : /^[-+][eux]+$|^[-+][eux]*o$/.test(word ?? '') && (word?.endsWith('o') !== true || at + 1 < args.length),
    ),
}

/** Tests of a file or a text. Not `-v`, `-o` and `-R`, which read what stands in brackets. */
export const safeUnary = /^-[abcdefghknprstuwxzGLNOS]$/

/** A test of a file, a text or a number, of which no word can turn out to be an operator. */
function isSafeTest(args: readonly ShellWord[]): boolean {
  const from = args.findIndex((word) => word !== '!')
  const words = from === -1 ? [] : args.slice(from)
  const [first, second] = words
  if (words.length < 2) return true
  if (words.length === 2) return typeof first === 'string' && safeUnary.test(first)
  if (words.length === 3 && /^(=|==|!=|<|>|-eq|-ne|-lt|-le|-gt|-ge|-nt|-ot|-ef)$/.test(second ?? '')) return true
  return words.every((word) => word !== null && !/^-[vR]$/.test(word))
}

function readsOwn(args: readonly ShellWord[]): boolean {
  let at = 0
  for (; args[at]?.startsWith('-') === true; at++) {
    if (args[at] === '-d') {
      at++
      if (typeof args[at] !== 'string') return false
    } else if (args[at] !== '-r') return false
  }
  const names = args.slice(at)
  return names.length > 0 && names.every((name) => typeof name === 'string' && isOwnVariable(name))
}

/** Whether what comes after a command, or what it runs, may stand in another folder: a program that is named from where the shell stands
 *  is another one there. */
export function changesFolder([program, ...args]: readonly ShellWord[]): boolean {
  switch (baseName(program ?? '')) {
    case 'cd':
    case 'pushd':
    case 'popd':
    case 'chroot':
      return true
    case 'env':
    case 'sudo':
      return args.some((word) => word === null || /^-[A-Za-z]*[CDRSi]|^--[cls]/.test(word))
    case 'find':
      return args.some((word) => word === null || /^-(exec|ok)dir$/.test(word))
    default:
      return false
  }
}

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
