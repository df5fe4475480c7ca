import { both, guesses, type Inner, nothing, runs, script, type Stdin, unknown, variablesInner } from './inner.ts'
import { resolvePath } from './meaning.ts'
import { baseName, type ShellWord } from './patterns.ts'
import { isRunner, runnerInner } from './runners.ts'

/** Programs that run the command in their arguments: options without and with a value, and how many operands come first. */
type Wrapper = { readonly flags?: string; readonly takes?: string; readonly operands?: number; readonly assignments?: true }

const wrappers: ReadonlyMap<string, Wrapper> = new Map(
  Object.entries({
    env: {
      flags: '-i --ignore-environment - -0 --null -v --debug',
      takes: '-u --unset -C --chdir -a --argv0',
      assignments: true,
    },
    command: { flags: '-p' },
    builtin: {},
    exec: { flags: '-c -l', takes: '-a' },
    nohup: {},
    setsid: { flags: '-c --ctty -f --fork -w --wait' },
    nice: { takes: '-n --adjustment' },
    ionice: { flags: '-t --ignore', takes: '-c --class -n --classdata' },
    timeout: { flags: '--preserve-status --foreground -v --verbose -f -p', takes: '-k --kill-after -s --signal', operands: 1 },
    time: { flags: '-p --portability -v --verbose -a --append -q --quiet', takes: '-f --format -o --output' },
    stdbuf: { takes: '-i --input -o --output -e --error' },
    unbuffer: { flags: '-p' },
    sudo: {
      flags: '-A -b -E -H -n -P -S -k -K -s -i --preserve-env --login --shell --non-interactive --stdin --set-home',
      takes: '-u --user -g --group -h --host -p --prompt -C -D --chdir -R --chroot -T -U -r --role -t --type',
      assignments: true,
    },
    doas: { flags: '-n -s -L', takes: '-u -C' },
    chroot: { flags: '--skip-chdir', operands: 1 },
    taskset: { flags: '-a --all-tasks -c --cpu-list', operands: 1 },
    chrt: { flags: '-b -f -i -o -r -d -a -v', takes: '-T -P -D', operands: 1 },
    flock: {
      flags: '-s --shared -x -e --exclusive -n --nb --nonblock -o --close -F --no-fork -u --unlock --verbose',
      takes: '-w --wait --timeout -E --conflict-exit-code',
      operands: 1,
    },
    setpriv: {},
    unshare: {},
    nsenter: {},
    prlimit: {},
    strace: { flags: '-f -ff -q -qq -v -c -C -t -tt -r -T -y -x', takes: '-e -o -s -p -u -E -P -S -O -a' },
    ltrace: { flags: '-f -c -C -S', takes: '-e -o -s -n -u' },
    'xvfb-run': { flags: '-a --auto-servernum', takes: '-s --server-args -n --server-num -e -f -w -p' },
    'dbus-run-session': {},
    'systemd-run': {},
    fakeroot: { flags: '-u --unknown-is-real', takes: '-l --lib -f --faked -s -i -b' },
    firejail: {},
    torsocks: { flags: '-i --isolate -d --debug -q --quiet', takes: '-u --user -p --pass -a --address -P --port' },
    torify: {},
    tsocks: {},
    proxychains: { flags: '-q', takes: '-f' },
    proxychains4: { flags: '-q', takes: '-f' },
    rlwrap: { flags: '-A -a -c -i -n -N -r', takes: '-b -C -D -f -g -H -l -m -p -q -s -S -t -z' },
    eatmydata: {},
    faketime: { flags: '-m', takes: '-f', operands: 1 },
    gosu: { operands: 1 },
    'su-exec': { operands: 1 },
    setuidgid: { operands: 1 },
    envdir: { operands: 1 },
    chpst: {},
    softlimit: {},
    pkexec: { flags: '--disable-internal-agent', takes: '--user -u' },
    numactl: {},
    cgexec: { takes: '-g', flags: '--sticky' },
    linux32: {},
    linux64: {},
    tini: { flags: '-s -v -w -g', takes: '-p -e' },
    'dumb-init': { flags: '-c -v --single-child --verbose' },
    chronic: { flags: '-v -e' },
    ifne: { flags: '-n' },
    'ssh-agent': { flags: '-c -D -d -s', takes: '-a -E -O -P -t' },
    'cross-env': { assignments: true },
    'cross-env-shell': { assignments: true },
    proot: {},
    bwrap: {},
    valgrind: {},
    caffeinate: { flags: '-d -i -m -s -u', takes: '-t -w' },
    busybox: {},
    toybox: {},
    xargs: {
      // The last two have a value only where it is joined to them.
      flags: '-0 --null -r --no-run-if-empty -t --verbose -p --interactive -x --exit -o --open-tty --max-lines --replace',
      takes: '-I -n --max-args -P --max-procs -L -d --delimiter -E -s --max-chars -a --arg-file',
    },
  } satisfies Record<string, Wrapper>),
)

/** Those that are known to take an option's value in its own word: `nice -n5`. */
const joinValues: ReadonlySet<string> = new Set('env nice ionice timeout stdbuf sudo flock chrt time'.split(' '))

/** Those that start a shell where they are given no command. */
const startShells: ReadonlySet<string> = new Set(
  'sudo doas chroot unshare nsenter fakeroot firejail proot linux32 linux64 systemd-run'.split(' '),
)

const shells: ReadonlySet<string> = new Set(['sh', 'bash', 'dash', 'ash', 'zsh', 'ksh', 'mksh', 'rbash'])
/** Shells of another language: what they are given cannot be read. */
const otherShells: ReadonlySet<string> = new Set(['fish', 'csh', 'tcsh', 'pwsh', 'nu', 'xonsh', 'elvish', 'expect'])

/** Whether a rule for the program alone would be one for everything. */
export const runsAnything = (program: string): boolean =>
  wrappers.has(program) || shells.has(program) || otherShells.has(program) || isRunner(program) || runAnythingBesides.has(program)

const runAnythingBesides: ReadonlySet<string> = new Set(
  'eval source . find fd fdfind watch parallel su runuser script sg newgrp at batch crontab trap alias setarch uname26 i386 x86_64 aarch64 systemd-inhibit systemd-cat capsh'.split(
    ' ',
  ),
)

/** Builtins that take a name or a number in a text and evaluate what stands in its brackets. */
const evaluating: ReadonlySet<string> = new Set([
  'let',
  'declare',
  'typeset',
  'local',
  'export',
  'readonly',
  'printf',
  'read',
  'unset',
  'test',
  '[',
  'mapfile',
  'readarray',
  'wait',
  'getopts',
])
export const evaluates = ([program]: readonly ShellWord[]): boolean => typeof program === 'string' && evaluating.has(program)

/** Whether a command does by an option what one would not think of: it writes a file, or sets a variable that may change how commands
 *  run. Those in capitals do, and of what is unknown it is unknown. */
export function doesMore([program, ...args]: readonly ShellWord[]): boolean {
  switch (program) {
    case 'git':
      return args.some((word) => word?.startsWith('--ou') === true)
    case 'printf':
      return args.some((word, at) => word?.startsWith('-v') === true && !isOrdinary(word.slice(2) || args[at + 1]))
    case 'read':
    case 'mapfile':
    case 'readarray':
    case 'getopts':
      return args.some((word) => word === null || (/^[A-Za-z_]\w*$/.test(word) && !isOrdinary(word)))
    default:
      return false
  }
}
const isOrdinary = (name: ShellWord | undefined): boolean => typeof name === 'string' && /^[a-z_][a-z0-9_]*$/.test(name)

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
/** Programs whose first operand is what they run. */
export const interpreters =
  /^(node|deno|bun|tsx|ts-node|python[\d.]*|pypy[\d.]*|ruby|perl|php|lua|Rscript|java|npx|bunx|pnpx|uvx|pipx)$/

/** Whether a command does nothing: what its words do was done before it ran. */
export const isIdle = ([program]: readonly ShellWord[]): boolean => program === 'true' || program === 'false' || program === ':'

/** What a command runs besides itself, as far as its words tell. */
export function innerOf(words: readonly ShellWord[], stdin: Stdin): Inner {
  const [first, ...args] = words
  // An unknown program is unknown already.
  if (first === undefined || first === null) return nothing
  const program = baseName(first)
  if (shells.has(program)) return shellInner(args, stdin)
  if (otherShells.has(program)) return args.length === 1 && args[0] === '--version' ? nothing : unknown
  const wrapper = wrappers.get(program)
  if (wrapper !== undefined) return wrapperInner(program, wrapper, args, stdin)
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

/** Git's commands are programs too: `git-push`. */
function dashedInner(program: string, args: readonly ShellWord[]): Inner {
  const [, ...words] = /^(git)-(.+)$/.exec(program) ?? []
  return words.length === 0 ? nothing : { ...nothing, commands: [{ words: [...words, ...args], plain: true, guess: true }] }
}

const nameOf = (option: string): string => option.replace(/=.*/s, '')
const valueOf = (assignment: string): string | undefined => {
  const at = assignment.indexOf('=')
  return at === -1 ? undefined : assignment.slice(at + 1)
}

function wrapperInner(
  program: string,
  { flags = '', takes = '', operands = 0, assignments }: Wrapper,
  args: readonly ShellWord[],
  stdin: Stdin,
): Inner {
  const without = flags.split(' ')
  const withValue = takes.split(' ')
  const isJoined = (word: string) => /^--[\w-]+=/.test(word) && [...without, ...withValue].includes(nameOf(word))
  let at = 0
  let left = operands
  let environment = false
  let besides = nothing
  let replaced: string | null = null
  for (; at < args.length; at++) {
    const word = args[at]
    if (word === null || word === undefined) return both(both(unknown, besides), guesses(args.slice(at)))
    if (word === '--') {
      at++
      break
    }
    if (program === 'command' && /^-[vV]+$/.test(word)) return nothing
    // Long options may be cut short.
    if (program === 'env' && (word.startsWith('-S') || (word.startsWith('--s') && '--split-string'.startsWith(nameOf(word)))))
      return envSplit(args.slice(at))
    if (program === 'flock' && /^(-c|--command)$/.test(word)) return script(args[at + 1])
    if (program === 'strace') besides = both(besides, outputInner(word, args[at + 1]))
    if (program === 'xargs' && /^(-I.|--replace(=.|$))/.test(word)) replaced = word.replace(/^(-I|--replace=?)/, '') || '{}'
    if (
      without.includes(word) ||
      isJoined(word) ||
      (program === 'xargs' && /^-([nPLsId].)/.test(word)) ||
      (joinValues.has(program) && /^-\w./.test(word) && withValue.includes(word.slice(0, 2))) ||
      (program === 'nice' && /^-\d+$/.test(word))
    )
      continue
    if (withValue.includes(word)) {
      at++
      if (program === 'xargs' && word === '-I') replaced = args[at] ?? null
      continue
    }
    if (word.startsWith('-') && word !== '-') return both(both(unknown, besides), guesses(args.slice(at + 1)))
    if (assignments === true && /^\w+=/.test(word)) {
      environment = true
      besides = both(besides, variablesInner([word]))
    } else if (left > 0) left--
    else break
  }
  for (; left > 0 && at < args.length; left--) at++
  if (program === 'flock' && /^(-c|--command)$/.test(args[at] ?? '')) return script(args[at + 1])
  const words = args.slice(at)
  if (words.length === 0) return startShells.has(program) ? stdinInner(stdin) : nothing
  if (program !== 'xargs') return both(besides, { ...nothing, commands: [{ words, plain: !environment }] })
  const mark = replaced
  return runs(mark === null ? [...words, null] : words.map((word) => (word?.includes(mark) === true ? null : word)))
}

/** `strace -o '|TEXT'` writes to a command. */
function outputInner(word: string, next: ShellWord | undefined): Inner {
  const [, value] = /^(?:-o|--output(?:=|$))(.*)$/s.exec(word) ?? []
  const target = value === '' ? next : value
  if (target === null) return unknown
  return target !== undefined && /^[|!]/.test(target) ? script(target.slice(1)) : nothing
}

/** `env -S` takes a text apart much as a shell does. */
function envSplit([option, ...rest]: readonly ShellWord[]): Inner {
  const text = /^(-S|--[a-z-]+)$/.test(option ?? '') ? rest.shift() : option?.replace(/^(-S|--[a-z-]+=)/, '')
  if (typeof text !== 'string' || /["'\\$]/.test(text)) return both(unknown, guesses(rest))
  return innerOf(['env', ...text.split(/\s+/).filter((word) => word !== ''), ...rest], { kind: 'unknown' })
}

function shellInner(args: readonly ShellWord[], stdin: Stdin): Inner {
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

const stdinInner = (stdin: Stdin): Inner => (stdin.kind === 'text' ? script(stdin.text) : unknown)

function fileInner(path: ShellWord | undefined, stdin: Stdin): Inner {
  if (path === undefined) return nothing
  if (path === null) return unknown
  return /^(\/dev\/(stdin|fd\/.*)|\/proc\/.*\/fd\/.*|-)$/s.test(resolvePath(path)) ? stdinInner(stdin) : nothing
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

/** What follows such an option, or is joined to it, a shell runs. */
function optionScripts(args: readonly ShellWord[], option: RegExp): Inner {
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

/** Git runs other programs by name, and gives its own commands other names where it is told to. */
function gitInner(args: readonly ShellWord[]): Inner {
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
  if ((command === 'clone' || command === 'init') && rest.some((word) => word?.startsWith('--te') === true))
    inner = both(inner, unknown)
  if (command === 'filter-branch') inner = both(inner, optionScripts(rest, /^--[a-z]+-filter$/))
  const option = typeof command === 'string' ? runningOptions[command] : undefined
  return option === undefined ? inner : both(inner, optionScripts(rest, option))
}

function setsClone(word: ShellWord, next: ShellWord | undefined): boolean {
  if (word === null) return false
  const [, joined] = /^(?:-c|--conf?i?g?=)(.+)$/s.exec(word) ?? []
  const value = /^(-c|--conf?i?g?)$/.test(word) ? next : joined
  return value === null || (value !== undefined && !harmlessSetting.test(value))
}

const harmlessSetting =
  /^(?![\w.-]*(hook|command|cmd|program|helper|editor|pager))(user|author|committer|color|column|http|advice|commit|push|pull|fetch|rebase|status|log|branch|tag|safe|gc|pack|index|i18n|rerere|transfer|feature|init\.defaultbranch)\b/i
/** Options of git's commands whose value a shell runs, cut short or not. */
const runningOptions: Readonly<Record<string, RegExp>> = {
  grep: /^(-O|--op[a-z-]*)$/,
  rebase: /^(-x|--exe?c?)$/,
  difftool: /^(-x|--extc?m?d?)$/,
  ...Object.fromEntries(
    ['fetch', 'pull', 'clone', 'ls-remote', 'fetch-pack', 'push', 'send-pack', 'archive'].map((name) => [
      name,
      /^(-u|--upload?-?p?a?c?k?|--receive?-?p?a?c?k?|--exec)$/,
    ]),
  ),
}
