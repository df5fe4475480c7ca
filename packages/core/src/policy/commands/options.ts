import { both, type Inner, nothing, script } from './inner.ts'
import type { ShellWord } from '../patterns.ts'

export const nameOf = (option: string): string => option.replace(/=.*/s, '')
export const valueOf = (assignment: string): string | undefined => {
  const at = assignment.indexOf('=')
  return at === -1 ? undefined : assignment.slice(at + 1)
}

/** What follows such an option, or is joined to it, a shell runs. */
export function optionScripts(args: readonly ShellWord[], option: RegExp): Inner {
  let inner = nothing
  for (const [index, word] of args.entries()) {
    if (word === null) continue
    if (option.test(word)) inner = both(inner, script(args[index + 1]))
    else if (word.startsWith('--') && option.test(nameOf(word))) inner = both(inner, script(valueOf(word)))
    else if (/^-[^-]./s.test(word) && option.test(word.slice(0, 2))) inner = both(inner, script(word.slice(2)))
    // The last of several letters.
    else if (/^-[A-Za-z]+$/.test(word) && option.test(`-${word.at(-1)}`)) inner = both(inner, script(args[index + 1]))
  }
  return inner
}
