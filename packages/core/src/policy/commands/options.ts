import { both, type Inner, nothing, script } from './inner.ts'
import type { ShellWord } from '../patterns.ts'

export const nameOf = (option: string): string => option.replace(/=.*/s, '')
export const valueOf = (assignment: string): string | undefined => {
  const at = assignment.indexOf('=')
  return at === -1 ? undefined : assignment.slice(at + 1)
}

/** Whether a word is a long option, also cut short: git and the programs of GNU take as much of its name as tells it from others. Which
 *  others there are is not known here, so every start of the name counts, from its first letter on. */
export const isLong = (word: ShellWord | undefined, names: readonly string[]): boolean => {
  if (typeof word !== 'string' || !/^--./s.test(word)) return false
  const name = nameOf(word)
  return names.some((one) => one.startsWith(name))
}

/** What follows such an option, or is joined to it, a shell runs. `long`: the same by its long names, cut short or not. */
export function optionScripts(args: readonly ShellWord[], option: RegExp, long: readonly string[] = []): Inner {
  let inner = nothing
  const isOne = (word: string) => option.test(word) || isLong(word, long)
  for (const [index, word] of args.entries()) {
    if (word === null) continue
    if (word.startsWith('--') && word.includes('=')) inner = isOne(nameOf(word)) ? both(inner, script(valueOf(word))) : inner
    else if (isOne(word)) inner = both(inner, script(args[index + 1]))
    else if (/^-[^-]./s.test(word) && option.test(word.slice(0, 2))) inner = both(inner, script(word.slice(2)))
    // The last of several letters.
    else if (/^-[A-Za-z]+$/.test(word) && option.test(`-${word.at(-1)}`)) inner = both(inner, script(args[index + 1]))
  }
  return inner
}
