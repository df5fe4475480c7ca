import { dashedInner, gitInner } from './git.ts'
import { both, guesses, type Inner, nothing, runs, script, type Stdin, unknown, variablesInner } from './inner.ts'
import { optionScripts, valueOf } from './options.ts'
import { baseName, type ShellWord } from '../patterns.ts'
import { isRunner, runnerInner } from './runners.ts'
import { fileInner, otherShells, shellInner, shells, stdinInner } from './shells.ts'
import { isWrapper, wrapperInner } from './wrappers.ts'

/** Whether a rule for the program alone would be one for everything. */
export const runsAnything = (program: string): boolean =>
  isWrapper(program) || shells.has(program) || otherShells.has(program) || isRunner(program) || runAnythingBesides.has(program)

const runAnythingBesides: ReadonlySet<string> = new Set(
  'eval source . find fd fdfind watch parallel su runuser script sg newgrp at batch crontab trap alias setarch uname26 i386 x86_64 aarch64 systemd-inhibit systemd-cat capsh'.split(
    ' ',
  ),
)

/** What a command runs besides itself, as far as its words tell. */
export function innerOf(words: readonly ShellWord[], stdin: Stdin): Inner {
  const [first, ...args] = words
  // An unknown program is unknown already.
  if (first === undefined || first === null) return nothing
  const program = baseName(first)
  if (shells.has(program)) return shellInner(program, args, stdin)
  if (otherShells.has(program)) return args.length === 1 && args[0] === '--version' ? nothing : unknown
  if (isWrapper(program)) return wrapperInner(program, args, stdin)
  switch (program) {
    case 'eval':
      return args.every((word) => word !== null) ? script(args.join(' ')) : unknown
    case 'export':
    case 'declare':
    case 'typeset':
    case 'readonly':
    case 'local':
      return variablesInner(args)
    case '.':
    case 'source':
      return fileInner(args[0], stdin)
    case 'trap':
      return args[0]?.startsWith('-') === true && args[0] !== '--' ? nothing : script(args[args[0] === '--' ? 1 : 0])
    case 'alias':
      // Whatever is called later may mean something else by then.
      return args.reduce<Inner>(
        (inner, word) => both(inner, script(word === null ? null : valueOf(word))),
        args.length === 0 ? nothing : unknown,
      )
    case 'find':
      return execInner(args, /^-(exec|execdir|ok|okdir)$/, '{}')
    case 'fd':
    case 'fdfind':
      return both(joinedExec(args), execInner(args, /^(-x|-X|--exec|--exec-batch)$/, null))
    case 'watch':
    case 'parallel':
    case 'setarch':
    case 'uname26':
    case 'i386':
    case 'x86_64':
    case 'aarch64':
    case 'systemd-inhibit':
    case 'systemd-cat':
    case 'capsh':
      return both(unknown, guesses(args))
    case 'su':
    case 'runuser':
    case 'script':
      return userInner(program, args, stdin)
    case 'sg':
      return args.length < 2 ? stdinInner(stdin) : script(/^(-c|--command)$/.test(args[1] ?? '') ? args[2] : args[1])
    case 'newgrp':
      return stdinInner(stdin)
    case 'at':
    case 'batch':
    case 'crontab':
      return laterInner(args, stdin)
    case 'git':
      return gitInner(args)
    case 'mapfile':
    case 'readarray':
      return optionScripts(args, /^-C$/)
    case 'complete':
    case 'compgen':
    case 'bind':
      return optionScripts(args, /^-[CFx]$/)
    case 'hash':
    case 'enable':
      return args.some((word) => word === null || /^-[a-z]*[pf]/.test(word)) ? unknown : nothing
    default:
      // The loader runs what it is given.
      if (/^ld(-linux|-musl|\.so)/.test(program)) return both(unknown, guesses(args))
      return both(
        dashedInner(program, args),
        runnerInner(program, args, () => stdinInner(stdin)),
      )
  }
}

/** `fd --exec=rm`, `fd -xrm`: the command begins in the option's own word. */
const joinedExec = (args: readonly ShellWord[]): Inner =>
  args.some((word) => word !== null && /^(-[xX].|--exec(-batch)?=)/s.test(word)) ? both(unknown, guesses(args)) : nothing

/** `find … -exec rm {} \;`: each command between the option and its end, which is a `;`, or a `+` right behind `plusAfter`. */
function execInner(args: readonly ShellWord[], option: RegExp, plusAfter: string | null): Inner {
  let inner = nothing
  for (let at = 0; at < args.length; at++) {
    const word = args[at]
    // An unknown word may be the option itself.
    if (word === null || word === undefined) {
      inner = both(inner, { ...nothing, commands: [{ words: [null], plain: true, guess: true }] })
      continue
    }
    if (!option.test(word)) continue
    const rest = args.slice(at + 1)
    const endsAt = (one: ShellWord, at: number) =>
      one === ';' || (one === '+' && plusAfter !== null && (rest[at - 1] === plusAfter || rest[at - 1] === null))
    const stop = rest.findIndex(endsAt)
    const words = (stop === -1 ? rest : rest.slice(0, stop)).map((one) => (one === null || one.includes('{') ? null : one))
    inner = both(inner, runs(words))
    at += words.length
  }
  return inner
}

/** `su -c TEXT USER`, `runuser -u USER -- COMMAND`, `script -qc TEXT FILE`: with another shell, what it is given cannot be read. */
function userInner(program: string, args: readonly ShellWord[], stdin: Stdin): Inner {
  const isAsked = args.some((word) => word === null || /^(-[a-zA-Z]*c|--(session-)?c|-V$|--version$|-h$|--help$)/.test(word))
  // Without a command it starts a shell; of another user's the operands are that shell's.
  const shell = isAsked || (program === 'runuser' && args.includes('-u')) ? nothing : stdinInner(stdin)
  let inner = both(shell, program === 'su' ? nothing : guesses(args))
  for (const [index, word] of args.entries()) {
    if (word === null) inner = both(inner, { ...nothing, commands: [{ words: [null], plain: true, guess: true }] })
    else if (/^--(session-)?c[a-z]*=/.test(word)) inner = both(inner, script(valueOf(word)))
    else if (/^(-[a-zA-Z]*c|--(session-)?c[a-z]*)$/.test(word)) inner = both(inner, script(args[index + 1]))
    else if (/^-[a-zA-Z]*?c./s.test(word)) inner = both(inner, script(word.replace(/^-[a-zA-Z]*?c/, '')))
    else if (program !== 'script' && /^(-s|--shell(=.*)?)$/.test(word)) inner = both(inner, unknown)
  }
  return inner
}

/** `at`, `batch` and `crontab` run later what they read; with some options they only look, or take away. */
function laterInner(args: readonly ShellWord[], stdin: Stdin): Inner {
  if (args.some((word) => word !== null && /^-[lrdceV]$/.test(word))) return nothing
  return args.some((word) => word === null || word === '-f') ? unknown : stdinInner(stdin)
}
