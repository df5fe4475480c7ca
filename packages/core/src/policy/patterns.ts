/** How far a rule fits: `maybe` where only the run would tell. */
export type Fit = 'no' | 'maybe' | 'yes'

/** A word of a command. Null stands for what is only known when it runs: any number of words. */
export type ShellWord = string | null

export type Glob = {
  /** The one text that it fits, where there is no `*` in it. */
  readonly literal: string | null
  /** The text before its first `*`. */
  readonly prefix: string
  /** It ends in `*`: what it fits may go on in any way. */
  readonly open: boolean
  readonly fits: (text: string) => boolean
}

/** Cuts a glob at its stars; a backslash takes the next character as it is. */
export function compileGlob(source: string): Glob {
  const pieces = ['']
  for (let i = 0; i < source.length; i++) {
    const character = source[i]!
    if (character === '*') pieces.push('')
    else if (character === '\\' && i + 1 < source.length) pieces[pieces.length - 1] += source[++i]!
    else pieces[pieces.length - 1] += character
  }
  const [prefix = '', ...rest] = pieces
  const suffix = rest.pop()
  if (suffix === undefined) return { literal: prefix, prefix, open: false, fits: (text) => text === prefix }
  return {
    literal: null,
    prefix,
    open: suffix === '',
    fits(text) {
      // Taking each piece at its first place is enough, so no text makes this slow.
      if (text.length < prefix.length + suffix.length || !text.startsWith(prefix) || !text.endsWith(suffix)) return false
      let at = prefix.length
      for (const piece of rest) {
        const found = text.indexOf(piece, at)
        if (found === -1) return false
        at = found + piece.length
      }
      return at <= text.length - suffix.length
    },
  }
}

/** The glob that fits this text and no other. */
export const literalGlob = (text: string): string => text.replaceAll(/[\\*]/g, String.raw`\$&`)

export type CommandPattern = {
  readonly words: readonly Glob[]
  /** It ends in `*`: whatever follows, if anything, is part of it. */
  readonly open: boolean
}

/** Takes apart what a rule says of a command: blanks separate words, quotes keep blanks and stars as they are. */
export function compileCommandPattern(source: string): CommandPattern {
  const words = patternWords(source)
  const open = words.at(-1) === '*'
  return { words: (open ? words.slice(0, -1) : words).map(compileGlob), open }
}

function patternWords(source: string): string[] {
  const words: string[] = []
  let word: string | null = null
  let quote: string | null = null
  for (let i = 0; i < source.length; i++) {
    const character = source[i]!
    if (quote !== null) {
      if (character === quote) quote = null
      else word = (word ?? '') + literalGlob(character)
    } else if (character === "'" || character === '"') {
      quote = character
      word ??= ''
    } else if (character === '\\' && i + 1 < source.length) word = (word ?? '') + literalGlob(source[++i]!)
    else if (/\s/.test(character)) {
      if (word !== null) words.push(word)
      word = null
    } else word = (word ?? '') + character
  }
  if (word !== null) words.push(word)
  return words
}

/** A word as a rule on commands would have it, fitting itself alone. */
export const patternWord = (word: string): string =>
  /^[\w./:=@%+,~^-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`

/** Whether an allowance for the pattern covers these words, for certain. */
export function coversWords({ words, open }: CommandPattern, command: readonly ShellWord[]): boolean {
  if (command.length < words.length || (command.length > words.length && !open)) return false
  return words.every((glob, index) => {
    const word = command[index]
    // What is unknown may turn out to be several words, and so shift all that follow.
    return word !== null && word !== undefined && glob.fits(word)
  })
}

/** Whether something stricter than an allowance must look at these words: a program is also known by the end of its path, options
 *  in front of a subcommand are looked past, and what is unknown may turn out to be anything. */
export function catchesWords(pattern: CommandPattern, command: readonly ShellWord[]): Fit {
  const [program, ...args] = command
  if (program === undefined) return pattern.words.length === 0 ? 'yes' : 'no'
  const [first] = pattern.words
  if (first === undefined) return 'yes'
  if (program === null) return couldBe(pattern, 0, command, 0) ? 'maybe' : 'no'
  if (!first.fits(program) && !first.fits(baseName(program))) return 'no'
  const straight = fitWords(pattern, 1, args)
  if (straight === 'yes') return straight
  if (reaches(pattern, args, false)) return 'yes'
  return straight === 'maybe' || reaches(pattern, args, true) ? 'maybe' : 'no'
}

/** Whether what follows the program gets to the end of the pattern, past options in front of any of its words. Whether an option takes a
 *  value is not known, so both readings count. `isOpen` says that what is unknown may be any number of words. */
function reaches({ words, open }: CommandPattern, args: readonly ShellWord[], isOpen: boolean): boolean {
  const last = words.length
  let reached = new Set([1])
  for (const [at, word] of args.entries()) {
    const next = new Set<number>()
    for (const place of reached) {
      if (place === last) {
        if (open) next.add(last)
      } else if (word === null) {
        if (isOpen) for (let i = place; i <= last; i++) next.add(i)
      } else {
        if (catchesWord(words[place]!, word)) next.add(place + 1)
        if (!words[place]!.prefix.startsWith('-') && isOption(args[at - 1], word)) next.add(place)
      }
    }
    reached = next
  }
  return reached.has(last)
}

/** The same as `fits`, for what is stricter than an allowance: git and the programs of GNU take a long option that is cut short. */
function catchesWord(glob: Glob, word: string): boolean {
  if (glob.fits(word)) return true
  const [, cut, value = ''] = /^(--[^=]+)(=.*)?$/s.exec(word) ?? []
  const [name] = /^--[^=]+/.exec(glob.prefix) ?? []
  return cut !== undefined && name !== undefined && name.startsWith(cut) && glob.fits(name + value)
}

const isOption = (before: ShellWord | undefined, word: ShellWord | undefined): boolean =>
  word?.startsWith('-') === true || before?.startsWith('-') === true

export const baseName = (program: string): string => program.slice(program.lastIndexOf('/') + 1)

function fitWords(pattern: CommandPattern, from: number, args: readonly ShellWord[]): Fit {
  const isKnown = args.every((word) => word !== null)
  const wanted = pattern.words.slice(from)
  if (coversWords({ words: wanted, open: pattern.open }, args)) return 'yes'
  return !isKnown && couldBe({ words: wanted, open: pattern.open }, 0, args, 0) ? 'maybe' : 'no'
}

/** Whether the words can turn out to be what the pattern says, each unknown one standing for any number of words. */
function couldBe(pattern: CommandPattern, from: number, command: readonly ShellWord[], at: number): boolean {
  // One row of a table a word: which places of the pattern can have been reached.
  let reached = new Set([from])
  const last = pattern.words.length
  for (const word of command.slice(at)) {
    const next = new Set<number>()
    for (const place of reached) {
      if (word === null) for (let i = place; i <= last; i++) next.add(i)
      else if (place === last) {
        if (pattern.open) next.add(last)
      } else if (catchesWord(pattern.words[place]!, word) || (place === 0 && pattern.words[0]!.fits(baseName(word))))
        next.add(place + 1)
    }
    reached = next
  }
  return reached.has(last)
}
