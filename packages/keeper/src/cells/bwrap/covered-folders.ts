import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import type { CellSpec } from '../cell.ts'
import { exitOf } from '../cell-process.ts'
import { freePlace } from '../free-place.ts'
import type { HeldFolders } from '../held-folders.ts'

/** The folders of a cell with its covers over them, in a mount namespace that is made once and that every process of the cell is
 *  started from. A cover lies on the file itself and not on a name, so it goes along wherever the folders above the file are moved to;
 *  mounted anew for each process it would go by a name that the cell may have given to something else.
 *  Invariant: in there all but the folders themselves is read-only, so a link in the way of a mount leads nowhere that matters. */
export interface CoveredFolders extends Disposable {
  /** The namespaces, by open descriptors: nothing needs to run for them to stay. */
  readonly user: number
  readonly mounts: number
  /** Where the folders are in there. */
  readonly paths: FolderPaths
}

export type FolderPaths = { readonly workspace: string; readonly home: string; readonly caches: string }

type Making = { readonly bwrapPath: string; readonly spec: CellSpec; readonly folders: HeldFolders }

/** Throws `NotCovered` with what was said when it could not be made. */
export async function coverFolders({ bwrapPath, spec, folders }: Making, signal: AbortSignal): Promise<CoveredFolders> {
  const top = freePlace([bwrapPath, ...sourcesOf(spec)])
  if (top === null) throw new NotCovered('there is no folder left to mount the covers in')
  const paths = { workspace: `${top}/workspace`, home: `${top}/home`, caches: `${top}/caches` }
  // Two, one in the other: in the inner one nothing outside the folders can be written to by the time that covers are mounted.
  const outer = outerArgv(spec, paths, top, { workspace: 5, home: 6 })
  const covers = spec.covers.map(({ path, by }) => ({ by, at: `${paths.workspace}${path.slice(spec.workspace.length)}` }))
  const inner = [...alone, '--dev-bind', '/', '/', ...covers.flatMap(({ by, at }) => ['--ro-bind', by, at])]
  const child = spawn(bwrapPath, ['--args', '3', '--', bwrapPath, '--args', '4', '--', '/bin/sh', '-c', tell], {
    env: { PATH: '/usr/bin:/bin' },
    cwd: '/',
    stdio: ['pipe', 'pipe', 'pipe', 'pipe', 'pipe', folders.workspace, folders.home],
    detached: true,
    ...spec.runAs,
  })
  const abort = () => void child.kill('SIGKILL')
  signal.addEventListener('abort', abort)
  const exited = exitOf(child)
  try {
    for (const [fd, argv] of [[3, outer] as const, [4, inner] as const]) feed(child, fd, argv)
    const report = await reportOf(child)
    signal.throwIfAborted()
    if (report === null) throw new NotCovered(await saidBy(child))
    const mounted = new Set(report.mountinfo.map((line) => unescaped(line.split(' ')[4] ?? '')))
    const missed = covers.find(({ at }) => !mounted.has(at))
    if (missed !== undefined) throw new NotCovered('the files to hide were moved meanwhile')
    return holdNamespaces(report.pid, paths)
  } finally {
    signal.removeEventListener('abort', abort)
    child.stdin?.destroy()
    await exited
  }
}

/** Not thrown at a caller: the driver says it in words for the operator. */
export class NotCovered extends Error {}

/** What becomes `argv` in the namespaces. bwrap hands on what it inherits, so the descriptors are closed once they have been used.
 *  Null where there is no nsenter(1). */
export function entering(user: number, mounts: number): string[] | null {
  const nsenter = ['/usr/bin/nsenter', '/bin/nsenter'].find((path) => existsSync(path))
  if (nsenter === undefined) return null
  const joined = [`--user=/proc/self/fd/${user}`, `--mount=/proc/self/fd/${mounts}`, '--preserve-credentials']
  return [nsenter, ...joined, '--', '/bin/sh', '-c', `exec "$@" ${user}<&- ${mounts}<&-`, 'sh']
}

const alone = ['--unshare-user', '--die-with-parent']

/** Its own number, which is the host's as well; its mounts; and then it waits to be let go. */
const tell = 'echo $$; cat /proc/self/mountinfo; echo; read -r _'

function outerArgv(spec: CellSpec, paths: FolderPaths, top: string, fds: { readonly workspace: number; readonly home: number }) {
  return [
    ...alone,
    ...['--ro-bind', '/', '/'],
    // Those are made anew for each process, which the kernel allows only where the ones before it are whole.
    ...['--dev-bind', '/proc', '/proc', '--dev-bind', '/dev', '/dev'],
    ...['--tmpfs', top],
    ...['--bind-fd', String(fds.workspace), paths.workspace, '--bind-fd', String(fds.home), paths.home],
    ...(spec.caches === undefined ? [] : ['--bind', spec.caches, paths.caches]),
    ...['--remount-ro', top],
  ]
}

/** What is still mounted by its own name. */
const sourcesOf = (spec: CellSpec) => [
  ...(spec.windows === null ? [] : [spec.windows]),
  ...[...spec.covers.map(({ by }) => by), ...spec.mounts.map(({ source }) => source)],
]

function feed(child: ChildProcess, fd: number, argv: readonly string[]): void {
  const pipe = child.stdio[fd as 3] as Writable
  pipe.on('error', () => {}) // bwrap has ended, which its exit tells
  pipe.end(`${argv.join('\0')}\0`)
}

/** Null when it ended without one. */
async function reportOf({
  stdout,
}: ChildProcess): Promise<{ readonly pid: number; readonly mountinfo: readonly string[] } | null> {
  let text = ''
  for await (const chunk of (stdout as Readable).setEncoding('utf8')) {
    text += String(chunk)
    if (!text.endsWith('\n\n')) continue
    const [pid = '', ...mountinfo] = text.trimEnd().split('\n')
    return { pid: Number(pid), mountinfo }
  }
  return null
}

async function saidBy({ stderr }: ChildProcess): Promise<string> {
  let said = ''
  for await (const chunk of (stderr as Readable).setEncoding('utf8')) said = (said + String(chunk)).slice(0, saidCharsMax)
  return said.trim()
}
const saidCharsMax = 2_000

/** proc_pid_mountinfo(5): blanks and backslashes are written as octal numbers. */
const unescaped = (path: string) =>
  path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)))

function holdNamespaces(pid: number, paths: FolderPaths): CoveredFolders {
  const user = openSync(`/proc/${pid}/ns/user`, 'r')
  try {
    const mounts = openSync(`/proc/${pid}/ns/mnt`, 'r')
    return {
      ...{ user, mounts, paths },
      [Symbol.dispose]() {
        for (const fd of [user, mounts]) closeSync(fd)
      },
    }
  } catch (error) {
    closeSync(user)
    throw error
  }
}
