import { both, guesses, type Inner, nothing, runs, script, unknown } from './inner.ts'
import { isLong, optionScripts, valueOf } from './options.ts'
import type { ShellWord } from '../patterns.ts'

/** Git's commands are programs too: `git-push`. */
export function dashedInner(program: string, args: readonly ShellWord[]): Inner {
  const [, ...words] = /^(git)-(.+)$/.exec(program) ?? []
  return words.length === 0 ? nothing : { ...nothing, commands: [{ words: [...words, ...args], plain: true, guess: true }] }
}

/** Git runs other programs by name, and gives its own commands other names where it is told to. */
export function gitInner(args: readonly ShellWord[]): Inner {
  const { command, rest, renamed } = subcommandOf(args)
  let inner: Inner = renamed ? unknown : nothing
  if (command === 'bisect' && rest[0] === 'run') inner = both(inner, runs(rest.slice(1)))
  if (command === 'submodule' && rest.includes('foreach')) {
    const what = rest.slice(rest.indexOf('foreach') + 1).filter((word) => word !== '--recursive' && word !== '--quiet')
    inner = both(inner, what.length === 1 ? script(what[0]) : runs(what))
  }
  // Written there, it is a command from then on.
  if (command === 'config' && rest.some((word) => word === null || /^alias\./i.test(word))) inner = both(inner, unknown)
  if (command === 'config') inner = both(inner, guesses(rest))
  // Settings of the new repository, and hooks that are put into it.
  if (command === 'clone' && rest.some((word, at) => setsClone(word, rest[at + 1]))) inner = both(inner, unknown)
  if ((command === 'clone' || command === 'init') && rest.some((word) => isLong(word, ['--template'])))
    inner = both(inner, unknown)
  if (command === 'filter-branch') inner = both(inner, optionScripts(rest, /^--[a-z]+-filter$/))
  const option = typeof command === 'string' && Object.hasOwn(runningOptions, command) ? runningOptions[command] : undefined
  if (option === undefined) return inner
  const [short, ...long] = option
  return both(inner, optionScripts(rest, short, long))
}

/** Git's own command, what stands behind it, and whether an option in front of it may give it another meaning. */
export function subcommandOf(args: readonly ShellWord[]): {
  readonly command: ShellWord | undefined
  readonly rest: readonly ShellWord[]
  readonly renamed: boolean
} {
  let at = 0
  let renamed = false
  for (; at < args.length; at++) {
    const word = args[at]
    if (word === null || word === undefined) break
    if (word === '-c' || word === '--config-env' || word.startsWith('--config-env=')) {
      const value = word === '-c' || word === '--config-env' ? args[++at] : word.slice('--config-env='.length)
      // Aliases, and settings that name a program to run. Of settings that are not known, it is not known.
      if (value === null || value === undefined || !harmlessSetting.test(value)) renamed = true
    } else if (/^(-C|--git-dir|--work-tree|--namespace|--exec-path|--super-prefix)$/.test(word)) {
      if (word === '--exec-path') renamed = true
      at++
    } else if (word.startsWith('--exec-path=')) renamed = true
    else if (!word.startsWith('-')) break
  }
  const [command, ...rest] = args.slice(at)
  return { command, rest, renamed }
}

function setsClone(word: ShellWord, next: ShellWord | undefined): boolean {
  if (word === null) return false
  const isConfig = isLong(word, ['--config'])
  const joined = isConfig ? valueOf(word) : /^-c(.+)$/s.exec(word)?.[1]
  const value = word === '-c' || (isConfig && !word.includes('=')) ? next : joined
  return value === null || (value !== undefined && !harmlessSetting.test(value))
}

const harmlessSetting =
  /^(?![\w.-]*(hook|command|cmd|program|helper|editor|pager))(user|author|committer|color|column|http|advice|commit|push|pull|fetch|rebase|status|log|branch|tag|safe|gc|pack|index|i18n|rerere|transfer|feature|init\.defaultbranch)\b/i
/** Options of git's commands whose value a shell runs. */
const runningOptions: Readonly<Record<string, readonly [short: RegExp, ...long: readonly string[]]>> = {
  grep: [/^-O$/, '--open-files-in-pager'],
  rebase: [/^-x$/, '--exec'],
  difftool: [/^-x$/, '--extcmd'],
  ...Object.fromEntries(
    ['fetch', 'pull', 'clone', 'ls-remote', 'fetch-pack', 'push', 'send-pack', 'archive'].map(
      (name) => [name, [name === 'clone' ? /^-u$/ : /^$/, '--upload-pack', '--receive-pack', '--exec']] as const,
    ),
  ),
}
