import type { SpawnOptions } from '../cell.ts'
import { reportFiles } from './proof.ts'
import type { Argv } from './spawn-bwrap.ts'

/** What the shell calls a line's end, and the line that it was told. */
const [newline, told] = ['__newline', '__told']

/** A shell of the host's that reports how it is held, and becomes what the first line of its input says: whoever makes a cell wants to run
 *  something in it, and that need not be another process. It leaves the rest of its input to the command, since a shell reads no further than
 *  that line. It ends with whoever was to tell it. */
export const proving: Argv = [
  '/bin/sh',
  '-c',
  `/bin/cat ${reportFiles.join(' ')} || exit; ${newline}='\n'; IFS= read -r ${told} || exit; eval "$${told}"`,
]

/** That line. Null where the command would not be what it is when bwrap starts it. */
export function commandLine(argv: Argv, { env, cwd }: SpawnOptions): string | null {
  const names = Object.keys(env)
  // Without a PATH, it would be looked for elsewhere.
  if (!names.includes('PATH') || !names.every((name) => isName.test(name) && !shellsOwn.has(name))) return null
  const exported = Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`)
  const steps = [`export ${exported.join(' ')}`, `cd ${quoted(cwd)}`, 'unset OLDPWD', `exec ${argv.map(quoted).join(' ')}`]
  return `${steps.join(' && ')}\n`
}

const isName = /^[A-Za-z_][A-Za-z0-9_]*$/
/** Those that it uses, sets or lets nobody set. */
const shellsOwn = new Set([
  ...[newline, told, 'PWD', 'OLDPWD', 'IFS', 'SHLVL', 'PPID', 'OPTIND', 'OPTARG', 'LINENO', 'UID', 'EUID', '_'],
  ...['BASHOPTS', 'SHELLOPTS', 'BASH_VERSINFO', 'POSIXLY_CORRECT'],
])

/** A word of the line, whatever it holds. */
const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`).replaceAll('\n', `'"$${newline}"'`)}'`
