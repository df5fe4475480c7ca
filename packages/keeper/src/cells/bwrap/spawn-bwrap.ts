import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import type { CellSpec, SpawnOptions } from '../cell.ts'
import type { HeldFolders } from '../held-folders.ts'
import type { HostRoot } from '../host-root.ts'
import { isExecutable, readText } from '../install.ts'
import { generatedFiles, hostNetworkFiles } from '../layout.ts'
import type { Limits } from '../limits/limits.ts'
import { aroundArgv, bwrapArgv, limitedThere, type BwrapFds, type Streams } from './argv.ts'
import { type CoveredFolders, entering } from './covered-folders.ts'
import { openNameless } from './nameless-files.ts'

/** What every process of a cell is made with. */
export type Making = {
  readonly bwrapPath: string
  readonly spec: CellSpec
  readonly host: HostRoot
  readonly filter: Buffer
  /** Descriptors of this process that every child would inherit. */
  readonly leaked: readonly number[]
}

export type Argv = readonly [string, ...string[]]

/** A bwrap that has been started, and does nothing before it is told. */
export type Untold = {
  readonly child: ChildProcess
  /** Where it tells that it has made the cell's first process. */
  readonly status: Readable
  tell(): void
}

export function spawnBwrap(
  {
    bwrapPath,
    spec,
    host,
    filter,
    leaked,
    folders,
    covered,
  }: Making & {
    readonly folders: HeldFolders
    readonly covered: CoveredFolders | null
  },
  limits: Limits,
  argv: Argv,
  options: SpawnOptions,
  streams: Streams,
): Untold {
  const opened: number[] = []
  const stdio: (number | 'pipe' | 'ignore' | 'inherit')[] = Array(3).fill(streams === 'terminal' ? 'inherit' : 'pipe')
  /** The number under which the child will see it. */
  const give = (file: number | 'pipe') => {
    if (file !== 'pipe') opened.push(file)
    return stdio.push(file) - 1
  }
  /** The same, of what stays open here. */
  const lend = (file: number) => stdio.push(file) - 1
  try {
    // First, while the numbers have one digit: a shell closes no others.
    const enter = covered === null ? [] : (entering(lend(covered.user), lend(covered.mounts)) ?? [])
    const fds: BwrapFds = {
      status: give('pipe'),
      workspace: covered?.paths.workspace ?? lend(folders.workspace),
      home: covered?.paths.home ?? lend(folders.home),
      caches: spec.caches === undefined ? undefined : (covered?.paths.caches ?? spec.caches),
      seccomp: give(openNameless(filter)),
      files: Object.fromEntries([
        ...host.files.map((path) => [path, give(openSync(path, 'r'))]),
        ...Object.entries(generatedFiles).map(([path, content]) => [path, give(openNameless(content))]),
        ...(spec.network === 'host' ? hostNetworkFiles.map((path) => [path, give(openNameless(readText(path) ?? ''))]) : []),
      ]),
    }
    // By pipes: what the environment holds may be a secret, and is in no file; and each does nothing before it has read all of its own.
    const [around, list] = [give('pipe'), give('pipe')]
    // bwrap reads these as empty lists of arguments and closes them: what was inherited in their place stays outside.
    const smothered = leaked.filter((fd) => fd > list)
    for (const fd of smothered) {
      while (stdio.length < fd) stdio.push('ignore')
      give(openNameless(''))
    }
    const lists = [list, ...smothered].flatMap((fd) => ['--args', String(fd)])
    const wrapped = limits.wrap([
      ...[...enter, bwrapPath, '--args', String(around), '--', ...limitedThere],
      ...[bwrapPath, ...lists, '--', ...argv],
    ] as unknown as Argv)
    const [file, ...args] = streams === 'terminal' ? ([...withSignals('ignore'), ...wrapped] as const) : wrapped
    const child = spawn(file, args, {
      // Empty: pid 1 inside is bwrap's own, and what it was started with can be read there.
      env: {},
      cwd: '/',
      stdio,
      // A session of its own: a terminal's Ctrl-C is for the keeper to act on.
      detached: streams === 'pipes',
      ...(spec.runAs === null ? {} : spec.runAs),
    })
    return {
      child,
      status: child.stdio[fds.status] as Readable,
      tell() {
        tellArguments(child, around, aroundArgv)
        tellArguments(child, list, bwrapArgv(spec, options, host, fds, streams))
      },
    }
  } finally {
    for (const fd of opened) closeSync(fd)
  }
}

function tellArguments(child: ChildProcess, fd: number, argv: readonly string[]): void {
  const to = child.stdio[fd as 4] as Writable
  // It has ended, which its exit tells.
  to.on('error', () => {})
  to.end(`${argv.join('\0')}\0`)
}

/** A key that interrupts goes to all that the terminal shows, bwrap included, and is meant for the command alone. */
export const withSignals = (how: 'ignore' | 'default') => [gnuEnv(), `--${how}-signal=INT`, `--${how}-signal=QUIT`] as const

/** Where a system has rewritten its programs, that of GNU is called so. Not all of the others know signals. */
const gnuEnv = () => (isExecutable('/usr/bin/gnuenv') ? '/usr/bin/gnuenv' : '/usr/bin/env')
