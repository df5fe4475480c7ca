import { both, guesses, type Inner, mayRun, nothing, unknown } from './inner.ts'
import type { ShellWord } from '../patterns.ts'

/** Programs that start others by name, among their own subcommands and options, in a folder, a container or on a machine of their
 *  own. A rule that allows them is enough; rules that deny or ask look through them at every reading of their words. */
const runners: ReadonlyMap<string, RegExp | null> = new Map<string, RegExp | null>([
  ...['npx', 'bunx', 'pnpx', 'uvx', 'pipx'].map((name) => [name, null] as const),
  ...['hyperfine', 'entr', 'nodemon', 'concurrently', 'dotenv', 'dotenvx', 'env-cmd'].map((name) => [name, null] as const),
  ...['nix-shell', 'steam-run', 'mosh', 'autossh', 'sshpass', 'gdb', 'perf', 'start-stop-daemon', 'daemonize'].map(
    (name) => [name, null] as const,
  ),
  ...[
    'watchexec',
    'reflex',
    'rr',
    'dtach',
    'abduco',
    'nq',
    'sem',
    'run0',
    'machinectl',
    'catchsegv',
    'nc',
    'ncat',
    'gtimeout',
  ].map((name) => [name, null] as const),
  ...['scp', 'sftp', 'rsync', 'tar', 'zip'].map((name) => [name, null] as const),
  ...['docker', 'podman', 'nerdctl', 'kubectl', 'oc'].map((name) => [name, /^(exec|run|debug|create|compose)$/] as const),
  ...['npm', 'pnpm', 'yarn', 'bun'].map((name) => [name, /^(exec|dlx|x)$/] as const),
  ...['uv', 'poetry', 'pipenv', 'pdm', 'rye', 'hatch', 'devbox', 'flatpak', 'toolbox'].map((name) => [name, /^run$/] as const),
  ...['conda', 'mamba', 'micromamba', 'pixi', 'foreman', 'volta', 'rustup'].map((name) => [name, /^run$/] as const),
  ...['lerna', 'nx', 'fnm', 'nvm', 'pyenv', 'rbenv', 'nodenv', 'tox'].map((name) => [name, /^(exec|run)$/] as const),
  ...['bundle', 'direnv', 'mise', 'asdf', 'aws-vault', 'lxc'].map((name) => [name, /^(exec|x)$/] as const),
  ...['op', 'doppler', 'infisical'].map((name) => [name, /^run$/] as const),
  ...['nix', 'guix'].map((name) => [name, /^(run|develop|shell|environment)$/] as const),
])

/** Programs of which nothing but their words could be allowed: a rule for the name alone would be one for everything. */
const open: ReadonlySet<string> = new Set(['ssh', 'autossh', 'mosh', 'sshpass', 'tmux', 'screen', 'nix-shell'])
export const isRunner = (program: string): boolean => open.has(program)

const guessNull: Inner = { ...nothing, commands: [{ words: [null], plain: true, guess: true }] }

/** What such a program starts, where it is one. `stdin` tells what a shell would make of its standard input. */
export function runnerInner(program: string, args: readonly ShellWord[], stdin: () => Inner): Inner {
  if (program === 'ssh') return sshInner(args, stdin)
  if (program === 'tmux' || program === 'screen') return screenInner(args)
  const option = commandOptions.get(program)
  if (option !== undefined) return optionInner(args, option)
  const subcommand = runners.get(program)
  if (subcommand === undefined) return nothing
  if (subcommand !== null && !mayNameOne(args, subcommand)) return nothing
  // Copiers name what they run behind an option, and their other words are files.
  if (/^(scp|sftp|rsync|tar|zip)$/.test(program)) return copierInner(args)
  return args.includes(null) ? both(guesses(args), guessNull) : guesses(args)
}

/** Whether the subcommand is one that starts others; what comes first may be anything where it is not known. */
const mayNameOne = (args: readonly ShellWord[], subcommand: RegExp): boolean =>
  args.find((word) => word?.startsWith('-') !== true) === null || args.some((word) => word !== null && subcommand.test(word))

/** Options of `ssh` with a value of their own. */
const sshTakes = /^-[BbcDEeFIiJLlmOoPpQRSWw]$/

function sshInner(args: readonly ShellWord[], stdin: () => Inner): Inner {
  let at = 0
  let inner = nothing
  for (; at < args.length; at++) {
    const word = args[at]
    if (word === null || word === undefined) return both(both(unknown, inner), guesses(args))
    if (word === '-V' || word === '-N') return inner
    if (word === '--' || !word.startsWith('-')) break
    const value = sshTakes.test(word) ? args[++at] : word.startsWith('-o') || word.startsWith('-F') ? word.slice(2) : undefined
    // A file of settings, and some of the settings themselves, name a program to run here.
    if (word.startsWith('-F') || value === null) inner = both(inner, unknown)
    else if (word.startsWith('-o') && /command|proxy|askpass/i.test(value ?? ''))
      inner = both(inner, { ...nothing, guessed: [(value ?? '').replace(/^\w+[=\s]\s*/, '')] })
  }
  if (args[at] === '--') at++
  const command = args.slice(at + 1)
  if (command.length === 0) return at < args.length ? both(inner, stdin()) : inner
  if (command.includes(null)) return both(both(unknown, inner), guesses(command))
  return both(both(inner, guesses(command)), mayRun(command.join(' ')))
}

/** What is typed into a screen can be anything; only looking at what there is runs nothing. */
function screenInner(args: readonly ShellWord[]): Inner {
  const looks = /^(ls|list-\w+|has|has-session|kill-\w+|info|capture-pane|capturep|-ls|-list|-wipe|-v|-V|--version)$/
  const isLook =
    args.length > 0 && looks.test(args[0] ?? '') && args.every((word) => word !== null && !/#\(|;$|^-(?:F|X)/.test(word))
  return isLook ? nothing : both(unknown, guesses(args))
}

/** Options whose value is a program to run, and words of `make` that are. */
const commandOptions: ReadonlyMap<string, RegExp> = new Map([
  ['sort', /^--co[a-z-]*(?:=|$)/],
  ['rg', /^--pre(?:=|$)/],
  ['socat', /^(?:EXEC|SYSTEM|SHELL):/i],
  ['man', /^(?:--pager(?:=|$)|-P)/],
  ['make', /^(?:--ev[a-z]*(?:=|$)|-E|SHELL[:+?]*=(?=.*\s))/s],
])
function optionInner(args: readonly ShellWord[], option: RegExp): Inner {
  return args.reduce<Inner>((inner, word, at) => {
    const [start] = option.exec(word ?? '') ?? []
    return start === undefined || word === null ? inner : both(inner, mayRun(word.slice(start.length) || args[at + 1]))
  }, nothing)
}

function copierInner(args: readonly ShellWord[]): Inner {
  let inner = nothing
  for (const [index, word] of args.entries()) {
    const named =
      /^(?:--(?:rsh|rsync-path|to-command|use-compress-program|checkpoint-action|rmt-command|rsh-command|unzip-command))(?:=(.*))?$/s.exec(
        word ?? '',
      )
    // Alone, behind other letters, and with its value in the same word.
    const [, joined] = /^-(?:TT|[A-Za-z]*?[eSIFo])(.*)$/s.exec(word ?? '') ?? []
    const value = named === null ? (joined === '' ? args[index + 1] : joined) : (named[1] ?? args[index + 1])
    if (value === null) inner = both(inner, guessNull)
    else if (value !== undefined) inner = both(inner, { ...nothing, guessed: [value.replace(/^(exec|\w*[Cc]ommand)=/, '')] })
  }
  return inner
}
