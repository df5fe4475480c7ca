import { both, guesses, type Inner, nothing, script, type Stdin, unknown, untold } from './inner.ts'
import { resolvePath } from '../meaning.ts'
import type { ShellWord } from '../patterns.ts'

export const shells: ReadonlySet<string> = new Set(['sh', 'bash', 'dash', 'ash', 'zsh', 'ksh', 'mksh', 'rbash'])
/** Shells of another language: what they are given cannot be read. */
export const otherShells: ReadonlySet<string> = new Set(['fish', 'csh', 'tcsh', 'pwsh', 'nu', 'xonsh', 'elvish', 'expect'])

/** Shells that read the shapes whose meaning is known as bash does. Others evaluate numbers, expand words or take options of their own. */
const knownShells = /^(sh|bash|dash|ash|rbash)$/
/** Options that change nothing about what a text means. */
const plainOptions = /^(-[ceux]+|--norc|--noprofile|--version|--help|--)$/

export function shellInner(program: string, args: readonly ShellWord[], stdin: Stdin): Inner {
  const inner = textInner(args, stdin)
  return knownShells.test(program) && hasPlainOptions(args) ? inner : both(inner, untold)
}

function hasPlainOptions(args: readonly ShellWord[]): boolean {
  for (let at = 0; at < args.length; at++) {
    const word = args[at] ?? ''
    if (!/^[-+]/.test(word)) return true
    if (/^-[ceux]*o$/.test(word)) {
      if (!/^(pipefail|errexit|nounset)$/.test(args[++at] ?? '')) return false
    } else if (!plainOptions.test(word)) return false
  }
  return true
}

function textInner(args: readonly ShellWord[], stdin: Stdin): Inner {
  let takesScript = false
  let readsInput = false
  for (let at = 0; at < args.length; at++) {
    const word = args[at]
    if (word === null || word === undefined) return unknown
    if (word === '--version' || word === '--help') return nothing
    // Both end the options.
    if (word === '--' || word === '-') return operand(args[at + 1])
    if (shellFlags.test(word)) continue
    if (!/^[-+]/.test(word)) return operand(word)
    // Shells differ in where they look for the value of an `o` that is not the last letter, and so in what follows.
    const [, letters, last] = /^[-+]([^oO\W]*)([oO]?)$/.exec(word) ?? []
    if (letters === undefined) return both(unknown, guesses(args.slice(at + 1)))
    takesScript ||= letters.includes('c')
    readsInput ||= letters.includes('s')
    if (last !== '' && args[++at] === null) return both(unknown, guesses(args.slice(at)))
  }
  return takesScript ? nothing : stdinInner(stdin)

  function operand(word: ShellWord | undefined): Inner {
    if (takesScript) return script(word)
    return word === undefined || readsInput ? stdinInner(stdin) : fileInner(word, stdin)
  }
}
const shellFlags = /^--(norc|noprofile|posix|login|verbose|restricted|noediting|debugger)$/

export const stdinInner = (stdin: Stdin): Inner => (stdin.kind === 'text' ? script(stdin.text) : unknown)

export function fileInner(path: ShellWord | undefined, stdin: Stdin): Inner {
  if (path === undefined) return nothing
  if (path === null) return unknown
  return /^(\/dev\/(stdin|fd\/.*)|\/proc\/.*\/fd\/.*|-)$/s.test(resolvePath(path)) ? stdinInner(stdin) : nothing
}
