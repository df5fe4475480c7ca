import type { SpawnOptions } from '../cell.ts'
import { hereLine } from './proof.ts'
import type { Argv } from './spawn-bwrap.ts'

/** What the shell calls a line's end, and the line that it was told. */
const [newline, told] = ['__newline', '__told']

/** A shell of the host's that says that it is there, and becomes what the first line of its input says: whoever makes a cell wants to see how
 *  a process is held in it, and then to run something, which need not be another process. It leaves the rest of its input to the command, since a shell reads no further than
 *  that line. It ends with whoever was to tell it. */
export const waiting: Argv = [
  '/bin/sh',
  '-c',
  `echo '${hereLine}'; ${newline}='\n'; IFS= read -r ${told} || exit; eval "$${told}"`,
]

/** That line. Null where the command would not be what it is when bwrap starts it. */
export function commandLine(argv: Argv, { env, cwd }: SpawnOptions): string | null {
  // By its path: some shells are programs of many names, and would take one of their own. Without PATH, others take one of theirs.
  if (!argv[0].includes('/') || env.PATH === undefined || !Object.keys(env).every(isHandedOn)) return null
  if ([...argv, ...Object.values(env), cwd].some((word) => word.includes('\0'))) return null
  const exported = Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`)
  const steps = [`export ${exported.join(' ')}`, `cd ${quoted(cwd)}`, 'unset OLDPWD SHLVL', `exec ${argv.map(quoted).join(' ')}`]
  return `${steps.join(' && ')}\n`
}

const isHandedOn = (name: string) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !/^(?:BASH|LC_)/.test(name) && !shellsOwn.has(name)
/** Those that a shell uses, sets or lets nobody set: dash, bash and BusyBox. */
const shellsOwn = new Set([
  ...[newline, told, '_', 'IFS', 'PWD', 'OLDPWD', 'SHLVL', 'PPID', 'UID', 'EUID', 'GROUPS'],
  ...['OPTIND', 'OPTARG', 'OPTERR', 'LINENO', 'SHELLOPTS', 'POSIXLY_CORRECT', 'COMP_WORDBREAKS'],
  ...['RANDOM', 'SRANDOM', 'SECONDS', 'EPOCHSECONDS', 'EPOCHREALTIME', 'HISTCMD', 'DIRSTACK', 'FUNCNAME', 'PIPESTATUS'],
])

/** A word of the line, whatever it holds. */
const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`).replaceAll('\n', `'"$${newline}"'`)}'`
