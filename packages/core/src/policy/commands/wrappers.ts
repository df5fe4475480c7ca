import { both, guesses, type Inner, nothing, runs, script, type Stdin, unknown, variablesInner } from './inner.ts'
import { isHarmlessSetting } from './variables.ts'
import { nameOf } from './options.ts'
import type { ShellWord } from '../patterns.ts'
import { stdinInner } from './shells.ts'

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

/** Those that start the program that its name stands for where the shell is: not in another root, and not one of their own. */
const keepNames: ReadonlySet<string> = new Set(
  'env command nohup setsid nice ionice timeout time stdbuf unbuffer taskset chrt flock xargs chronic caffeinate'.split(' '),
)

export const isWrapper = (program: string): boolean => wrappers.has(program)

/** The command in their arguments; nothing for another program. */
export function wrapperInner(program: string, args: readonly ShellWord[], stdin: Stdin): Inner {
  const wrapper = wrappers.get(program)
  return wrapper === undefined ? nothing : wrapped(program, wrapper, args, stdin)
}

function wrapped(
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
      environment ||= !isHarmlessSetting(word)
      besides = both(besides, variablesInner([word]))
    } else if (left > 0) left--
    else break
  }
  for (; left > 0 && at < args.length; left--) at++
  if (program === 'flock' && /^(-c|--command)$/.test(args[at] ?? '')) return script(args[at + 1])
  const words = args.slice(at)
  if (words.length === 0) return startShells.has(program) ? stdinInner(stdin) : nothing
  if (program !== 'xargs')
    return both(besides, { ...nothing, commands: [{ words, plain: !environment && keepNames.has(program) }] })
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
  return wrapperInner('env', [...text.split(/\s+/).filter((word) => word !== ''), ...rest], { kind: 'unknown' })
}
