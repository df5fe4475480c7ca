import { baseName, type ShellWord } from '@anchorhold/core/policy/patterns'
import { posix } from 'node:path'

/** A file by the name that a shell knows it by. Programs are looked for on the path, scripts are not. */
export type Executed = { readonly name: string; readonly base: string; readonly program: boolean }

/** From so many folders a file is looked for; of more, it is not known which. */
const basesMax = 16

/** What each command would execute, as far as its words tell. */
export function executed(commands: readonly (readonly ShellWord[])[]): Executed[] {
  const found = new Map<string, Executed>()
  // The first is where every change of folder leads. Those of a subshell end with it, and some fail: any may be left out.
  let bases = ['']
  const add = (name: string, program: boolean) => {
    for (const base of program && !name.includes('/') ? bases.slice(0, 1) : bases)
      found.set(`${base}\0${name}\0${program}`, { name, base, program })
  }
  for (const [program, ...rest] of commands) {
    if (program === undefined || program === null) continue
    if (program === 'cd' || program === 'pushd') {
      const to = folderOf(program, rest)
      if (to !== null) bases = [...new Set([...bases.map((base) => within(base, to)), ...bases])].slice(0, basesMax)
      continue
    }
    if (!builtins.has(program)) add(program, true)
    for (const name of filesOf(program, rest)) add(name, false)
    // Without a slash, these look on the path first.
    if (program === '.' || program === 'source') for (const name of filesOf(program, rest)) add(name, true)
  }
  return [...found.values()]
}

/** Where `cd` goes; null where its words do not tell, or it goes back. */
function folderOf(program: string, words: readonly ShellWord[]): string | null {
  const to = words.find((word) => word === null || word === '-' || !word.startsWith('-'))
  if (to === undefined) return program === 'cd' ? '~' : null
  return to === '-' ? null : to
}

function within(base: string, to: string): string {
  if (to.startsWith('/') || to === '~') return to
  return base.startsWith('~') ? `${base}/${to}` : posix.join(base, to).replace(/^\.$|\/$/, '')
}

/** How a program that reads its code from files is told which. */
type Interpreter = {
  readonly names: RegExp
  /** What is an option, where other words than those with a dash are. */
  readonly options?: RegExp
  /** Letters in an option that take a value each. */
  readonly letters?: string
  /** Options with a value of their own that is not run. */
  readonly takes?: RegExp
  /** Options that may have one. */
  readonly mayTake?: RegExp
  /** Options whose value is a file that is run as well. */
  readonly loads?: RegExp
  /** Options whose value is a module's name, with nothing else to be run. */
  readonly modules?: RegExp
  /** Options with which no operand is a script: the code is among the words, which are part of the digest, or is read. */
  readonly inline?: RegExp
  /** What may stand in front of the script. */
  readonly subcommands?: RegExp
  /** What else a name may stand for. */
  readonly endings?: readonly string[]
}

const scripting: readonly Interpreter[] = [
  {
    names: /^(sh|bash|dash|ash|zsh|ksh|mksh|rbash|fish|csh|tcsh)$/,
    options: /^[-+]./,
    letters: 'oO',
    loads: /^--(rcfile|init-file)$/,
    inline: /^[-+]\w*[cs]/,
  },
  { names: /^(source|\.)$/ },
  {
    names: /^(node|nodejs|tsx|ts-node|deno|bun)$/,
    takes: /^-[CP]$/,
    mayTake: /^(--[^=]+|-c)$/,
    loads: /^(-r|--require|--import|--loader|--experimental-loader|--preload|--env-file|--env-file-if-exists)$/,
    inline: /^(-|-e|-p|-pe|--eval|--print)$/,
    subcommands: /^(run|test|bench|serve|watch|inspect)$/,
    endings: ['.js', '.cjs', '.mjs', '.ts', '/index.js', '/index.ts'],
  },
  {
    names: /^(python|pypy)[\d.]*$/,
    takes: /^(-[bBdEiIOPqRsSuvx]*[WX]|--check-hash-based-pycs)$/,
    modules: /^-[bBdEiIOPqRsSuvx]*m/,
    inline: /^(-|-[bBdEiIOPqRsSuvx]*c.*)$/s,
    endings: ['/__main__.py'],
  },
  {
    names: /^ruby[\d.]*$/,
    takes: /^(-[adlnpsSvw\d]*[ICE]|--(encoding|external-encoding|internal-encoding|enable|disable))$/,
    loads: /^-[adlnpsSvw\d]*r$/,
    inline: /^(-|-[adlnpsSvw\d]*e)$/,
    endings: ['.rb'],
  },
  { names: /^perl[\d.]*$/, takes: /^-[acglnpsStTuUwW\d]*I$/, inline: /^(-|-[acglnpsStTuUwW\d]*[eE])$/ },
  { names: /^php[\d.]*$/, takes: /^-[cdtSz]$/, loads: /^-[fF]$/, inline: /^-[rBRE]$/ },
  { names: /^lua(jit|[\d.]*)$/, takes: /^-e$/, loads: /^-l$/, inline: /^-$/, endings: ['.lua'] },
  { names: /^Rscript$/, inline: /^-e$/ },
]

/** The files that an interpreter is given to run. */
function filesOf(program: string, words: readonly ShellWord[]): readonly string[] {
  const kind = scripting.find(({ names }) => names.test(baseName(program)))
  return kind === undefined
    ? []
    : scriptsOf(kind, words).flatMap((name) => [name, ...(kind.endings ?? []).map((end) => name + end)])
}

function scriptsOf(kind: Interpreter, words: readonly ShellWord[]): readonly string[] {
  const { options = /^-./ } = kind
  const found: string[] = []
  let isInline = false
  for (let at = 0; at < words.length; at++) {
    const word = words[at]
    if (word === null || word === undefined) break
    const { name, value } = optionOf(kind, word)
    const next = () => value ?? words[++at] ?? ''
    if (kind.loads?.test(name) === true) found.push(next())
    else if (kind.modules?.test(word) === true) return [...found, ...moduleFiles(word.replace(kind.modules, '') || next())]
    else if (kind.takes?.test(name) === true) next()
    else if (kind.inline?.test(word) === true) isInline = true
    else if (isInline) continue
    else if (word === '--' || word === '-') return [...found, words[at + 1] ?? '']
    else if (options.test(word)) at += lettersIn(word, kind.letters ?? '')
    else {
      found.push(word)
      const isSurely = kind.mayTake?.test(words[at - 1] ?? '') !== true && kind.subcommands?.test(word) !== true
      if (isSurely) break
    }
  }
  return found.filter((name) => name !== '')
}

/** Of the letters that an option begins with, how many are these. */
const lettersIn = (word: string, letters: string): number => {
  const [bundle = ''] = /^[-+]\w*/.exec(word) ?? []
  return bundle.split('').filter((letter) => letters.includes(letter)).length
}

/** An option and the value that is joined to it, as far as it is one that loads a file. */
function optionOf({ loads }: Interpreter, word: string): { readonly name: string; readonly value?: string } {
  const [, name, value] = /^(--[\w-]+)=(.*)$/s.exec(word) ?? /^(-\w)(.+)$/s.exec(word) ?? []
  return name !== undefined && value !== undefined && (name.startsWith('--') || loads?.test(name) === true)
    ? { name, value }
    : { name: word }
}

const moduleFiles = (module: string): readonly string[] => {
  const path = module.replaceAll('.', '/')
  return [`${path}.py`, path]
}

const builtins: ReadonlySet<string> = new Set(
  ': . [ alias bg bind break builtin caller cd command compgen complete continue declare dirs disown echo enable eval exec exit export false fc fg getopts hash help history if jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias unset wait'.split(
    ' ',
  ),
)
