import type { ShellCommand } from '../meaning.ts'
import type { ShellWord } from '../patterns.ts'

/** What a command runs besides itself. */
export type Inner = {
  readonly commands: readonly ShellCommand[]
  /** Texts that a shell runs. */
  readonly scripts: readonly string[]
  /** Texts that a shell may run: what would deny their commands or ask for them counts. */
  readonly guessed: readonly string[]
  /** It also runs what cannot be told from its words. */
  readonly unknown: boolean
}

/** What a command reads. */
export type Stdin = { readonly kind: 'none' | 'unknown' } | { readonly kind: 'text'; readonly text: string }

export const nothing: Inner = { commands: [], scripts: [], guessed: [], unknown: false }
export const unknown: Inner = { ...nothing, unknown: true }
/** What a rule on commands cannot allow, though there is nothing in it that would deny it. */
export const untold: Inner = { ...nothing, commands: [{ words: [], plain: false }] }
export const runs = (words: readonly ShellWord[]): Inner =>
  words.length === 0 ? nothing : { ...nothing, commands: [{ words, plain: true }] }
export const script = (text: ShellWord | undefined): Inner =>
  text === undefined ? nothing : text === null ? unknown : { ...nothing, scripts: [text] }
export const both = (a: Inner, b: Inner): Inner => ({
  commands: [...a.commands, ...b.commands],
  scripts: [...a.scripts, ...b.scripts],
  guessed: [...a.guessed, ...b.guessed],
  unknown: a.unknown || b.unknown,
})

/** A text that may be run; of one that is not known, it is not known. */
export const mayRun = (text: ShellWord | undefined): Inner =>
  text === undefined
    ? nothing
    : text === null
      ? { ...nothing, commands: [{ words: [null], plain: true, guess: true }] }
      : { ...nothing, guessed: [text] }

/** Variables whose value is a command for some program, or a text in which a shell looks for one. */
const commandVariables =
  /^(\w+_)?(COMMAND|EDITOR|PAGER|ASKPASS|RSH|SSH|WRAPPER|BROWSER|VISUAL)$|^(GIT_EXTERNAL_DIFF|LESSOPEN|LESSCLOSE|PS[0-4]|BASH_ENV|ENV)$/
/** Those that give git other settings, and its commands other names. */
const gitVariables = /^GIT_(CONFIG(_\w+)?|EXEC_PATH)$/

/** What a variable makes programs run. */
export function variableInner(name: string, value: ShellWord): Inner {
  if (gitVariables.test(name)) return value === '/dev/null' || name === 'GIT_CONFIG_NOSYSTEM' ? nothing : unknown
  if (name === 'MAKEFLAGS') return value === null || value.includes('$') ? unknown : nothing
  return commandVariables.test(name) ? mayRun(value === null ? null : value.replace(/^[|!@\s]+-?/, '')) : nothing
}

/** The same of words that are assignments, as `env` and `export` take them. */
export const variablesInner = (words: readonly ShellWord[]): Inner =>
  words.reduce<Inner>((inner, word) => {
    const [, name, value] = /^(\w+)\+?=(.*)$/s.exec(word ?? '') ?? []
    return name === undefined || value === undefined ? inner : both(inner, variableInner(name, value))
  }, nothing)

/** Of more words than this, every reading takes too long. */
const guessedMax = 64

/** Every reading of where a command may begin, and every word that may be a text for a shell. */
export const guesses = (args: readonly ShellWord[]): Inner => (args.length > guessedMax ? unknown : readings(args))

const readings = (args: readonly ShellWord[]): Inner => ({
  ...nothing,
  commands: args.flatMap((word, index) =>
    word === null ? [] : [{ words: args.slice(index), plain: true, guess: true as const }],
  ),
  guessed: args.flatMap((word) =>
    word !== null && /[\s;&|$`(<{]/.test(word)
      ? [...new Set([word.replace(/^-{1,2}[\w-]+=/, ''), word.replace(/^[\w-]+=/, '')])]
      : [],
  ),
})
