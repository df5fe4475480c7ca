import type { ChildProcess } from 'node:child_process'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { Failure } from '@anchorhold/protocol/failures'
import { allowedCopy } from '../apparmor.ts'
import type { Cell, CellDriver, CellProcess, SpawnOptions } from '../cell.ts'
import { cellProcess, exitOf, type StdioChild } from '../cell-process.ts'
import { type HeldFolders, holdFolders } from '../held-folders.ts'
import { holesIn } from '../holes.ts'
import { readHostRoot } from '../host-root.ts'
import { installCommand, isExecutable, readText } from '../install.ts'
import { lookAt } from '../installed.ts'
import { isPlaceForMount, placeInside } from '../layout.ts'
import { limitsOf, type SeenInside } from '../limits/limits.ts'
import {
  childrenOf,
  identify,
  isEnding,
  isGone,
  type ProcessId,
  readProc,
  signalAll,
  signalPid,
  treeOf,
  until,
} from '../limits/processes.ts'
import { removeLease, writeLease } from '../reap.ts'
import { seccompArch, seccompFilter } from '../seccomp.ts'
import { standing } from '../standing.ts'
import { lacksOnTrial } from '../trial.ts'
import type { Streams } from './argv.ts'
import { type CoveredFolders, coverFolders, entering, NotCovered } from './covered-folders.ts'
import { commandLine, waiting } from './first-command.ts'
import { inheritedFds } from './inherited-fds.ts'
import { explain, lacksBwrap, unavailable } from './lacks.ts'
import { checkHeld, heldAs, untilHere } from './proof.ts'
import { type Argv, type Making, spawnBwrap, withSignals } from './spawn-bwrap.ts'

/** Cells made by bubblewrap: namespaces, a minimal root and a seccomp filter around plain processes.
 *  Each process of a cell is a bwrap of its own, with the same folders, under the same covers and in the same control group. */
export function bwrapDriver(options: BwrapOptions = {}): CellDriver {
  const find = () => findBwrap(options)
  const filters = { x64: seccompFilter('x64'), arm64: seccompFilter('arm64') }

  const start: CellDriver['start'] = async (spec, signal) => {
    const bwrapPath = find()
    const arch = seccompArch(process.arch)
    if (bwrapPath === null) throw unavailable([lacksBwrap(readText)])
    if (arch === null)
      throw unavailable([{ what: `there is no seccomp filter for "${process.arch}"`, remedy: 'Use x86-64 or arm64' }])
    if (process.getuid?.() === 0 && spec.runAs === null) {
      throw unavailable([{ what: 'a cell started by root is no boundary', remedy: 'Give it a user of its own (runAs)' }])
    }
    const misplaced = spec.mounts.find((mount) => !isPlaceForMount(mount))
    if (misplaced !== undefined)
      throw unavailable([{ what: `nothing may be mounted at "${misplaced.target}"`, remedy: 'Mount it under /opt' }])
    signal.throwIfAborted()
    return startCell({ bwrapPath, spec, host: readHostRoot(), filter: filters[arch], leaked: inheritedFds() }, signal)
  }

  return {
    rung: 'bwrap',
    start,
    holes: async () => holesIn([await lookAt('bwrap', find())]),
    async missing() {
      if (find() === null) return [lacksBwrap(readText)]
      return lacksOnTrial(start, probeTimeoutMs)
    },
  }
}

export type BwrapOptions = {
  /** Nothing else is looked for when this is given. */
  readonly bwrapPath?: string
  /** Folders to look in after /usr/bin. */
  readonly path?: readonly string[]
}

const probeTimeoutMs = 10_000
const endTimeoutMs = 10_000
const tellTimeoutMs = 2_000
const stderrCharsMax = 2_000

/** One command's bwrap. */
type Bwrap = {
  readonly child: ChildProcess
  /** The process itself on the host, which dies with this one. */
  readonly outer: ProcessId | null
  /** The first process of the namespaces around the cell, once that is known: everything of the command ends with it. Nothing in the cell
   *  sees it. */
  init: ProcessId | null
  /** To be killed once it has told its first process. Not before: that one learns only after it was made whom it must
   *  die with, and would be left behind. */
  isDoomed: boolean
  /** Settles when `init` is known, or never will be. */
  readonly told: Promise<unknown>
}

async function startCell(making: Making, signal: AbortSignal): Promise<Cell> {
  const { spec } = making
  const running = new Set<Bwrap>()
  // For as long as the cell stands: each process of it has the folders that the first one had.
  const folders = holdFolders(spec)
  let covered: CoveredFolders | null = null
  /** The one that has proved how it is held, and waits in the cell to become the first command. */
  let proved: CellProcess | null = null
  let limits = limitsOf(spec, () => [...running].flatMap(({ outer }) => outer?.pid ?? []))

  function begin(argv: Argv, options: SpawnOptions, streams: Streams) {
    const { child, status, tell } = spawnBwrap({ ...making, folders, covered }, limits, argv, options, streams)
    const told = untilMade(status).then(() => {
      bwrap.init = outer === null ? null : (childrenOf(outer.pid)[0] ?? null)
      keepLease()
    })
    const outer = child.pid === undefined ? null : identify(child.pid)
    const bwrap: Bwrap = {
      child,
      outer,
      init: null,
      isDoomed: false,
      told: told.catch(() => null),
    }
    running.add(bwrap)
    // Invariant: bwrap is under the cell's limits before it is told what to do, and whatever it then starts is as well; and who finds this
    // process gone knows by then what to end.
    let refused: { readonly why: unknown } | null = null
    try {
      keepLease()
      if (child.pid !== undefined) limits.admit(child.pid)
      tell()
    } catch (why) {
      // One that has been ended meanwhile says so by itself.
      if (bwrap.outer !== null && !isEnding(bwrap.outer)) refused = { why }
      child.kill('SIGKILL')
    }
    const admitted = told.then(
      () => {
        if (!bwrap.isDoomed) return
        killBwrap(bwrap)
        throw new NotStarted('bwrap was ended')
      },
      (error: unknown) => {
        throw refused === null ? error : refused.why
      },
    )
    child.once('exit', () => {
      const left = bwrap.init === null ? [] : [bwrap.init]
      // What does not end in time stays in the set, and the end of the cell tries again. A lease that still names what has ended does no harm.
      areGone(left)
        .then(() => {
          running.delete(bwrap)
          keepLease()
        })
        .catch(() => {})
    })
    return { bwrap, admitted }
  }

  /** The kernel is asked to end all of these along with this process. One that is only being made when this process is killed learns too
   *  late whom it was to die with. */
  function keepLease(): void {
    if (stands.over.aborted) return
    writeLease(spec.scratch, {
      rung: 'bwrap',
      processes: [...running].flatMap(({ outer, init }) => [outer, init].filter((each) => each !== null)),
    })
  }

  function launch(argv: Argv, options: SpawnOptions) {
    const { bwrap, admitted } = begin(argv, options, 'pipes')
    return { bwrap, process: cellProcess(bwrap.child as StdioChild, (name) => deliver(bwrap, name)), admitted }
  }

  function endUnlessAdmitted(admitted: Promise<void>): void {
    admitted.catch((error: unknown) => {
      if (!(error instanceof NotStarted)) return stands.endBecause('a process could not be put under its limits')
    })
  }

  const stands = standing(async () => {
    for (const bwrap of running) bwrap.isDoomed = true
    const allTold = Promise.all([...running].map(({ told }) => told))
    await Promise.race([allTold, delay(tellTimeoutMs, null, { ref: false })])
    await areGone([...running].flatMap(killBwrap))
    running.clear()
    removeLease(spec.scratch)
    folders[Symbol.dispose]()
    covered?.[Symbol.dispose]()
    await limits[Symbol.asyncDispose]()
  })

  /** Looks at how a process of the host's own is held, before anything of the agent's, and keeps it to become the first of that. */
  async function prove(): Promise<SeenInside> {
    const probe = launch(waiting, { env: {}, cwd: '/' })
    const abort = () => void probe.process.kill('SIGKILL')
    signal.addEventListener('abort', abort)
    const admission = probe.admitted.then(
      () => null,
      (error: unknown) => {
        abort()
        return error
      },
    )
    const said = await untilHere(probe.process)
    if (said !== null) await probe.process.exited
    const refusal = await admission
    signal.removeEventListener('abort', abort)
    signal.throwIfAborted()
    if (refusal !== null && !(refusal instanceof NotStarted)) throw refusal
    if (said !== null) throw unavailable(explain(said.trim().slice(0, stderrCharsMax), making.bwrapPath, readText))
    const uid = spec.runAs?.uid ?? process.getuid?.() ?? -1
    const held = heldAs(commandOf(probe.bwrap)?.pid ?? 0)
    if (held.status === '')
      throw unavailable([
        { what: 'its first process was ended', remedy: 'Try again; the log of the kernel says whether it ran out of memory' },
      ])
    const seen = checkHeld(held, uid, spec.limits.tmpBytes)
    proved = probe.process
    return seen
  }

  /** The process that was proved, as this command; null where that cannot become it, and is let go. */
  function becoming(line: string | null): CellProcess | null {
    const one = proved
    proved = null
    if (one === null || one.exitCode !== null) return null
    if (line !== null) one.stdin.write(line)
    else one.stdin.end()
    return line === null ? null : one
  }

  try {
    if (spec.covers.length > 0) covered = await cover({ ...making, folders }, signal)
    const seen = await prove().catch(async (error: unknown) => {
      if (error instanceof Failure || signal.aborted || spec.cgroups.length === 0) throw error
      limits = await limits.withoutGroups()
      return prove()
    })
    void limits.watch(stands.over).then((why) => (why === null ? undefined : stands.endBecause(why)))
    return {
      limits: await limits.inForce(seen),
      ended: stands.ended,
      get trouble() {
        return { ending: stands.ending, met: limits.met() }
      },
      place: (hostPath) => placeInside(spec, hostPath),
      spawn(argv, options): CellProcess {
        stands.requireFor(argv[0])
        const first = becoming(commandLine(argv, options))
        if (first !== null) return first
        const launched = launch(argv, options)
        endUnlessAdmitted(launched.admitted)
        return launched.process
      },
      async onTerminal(argv, options) {
        stands.requireFor(argv[0])
        becoming(null)
        const { bwrap, admitted } = begin([...withSignals('default'), ...argv], options, 'terminal')
        endUnlessAdmitted(admitted)
        return exitOf(bwrap.child)
      },
      [Symbol.asyncDispose]: stands.end,
    }
  } catch (error) {
    await stands.end()
    throw error
  }
}

async function cover(making: Making & { readonly folders: HeldFolders }, signal: AbortSignal): Promise<CoveredFolders> {
  if (entering(0, 0) === null)
    throw unavailable([{ what: 'nsenter is not installed', remedy: installCommand(readText, 'util-linux', '2.36 or newer') }])
  try {
    return await coverFolders(making, signal)
  } catch (error) {
    if (!(error instanceof NotCovered)) throw error
    throw unavailable(explain(error.message, making.bwrapPath, readText))
  }
}

/** Not thrown at a caller: bwrap ended before it had made the cell, and its exit code and stderr say why. */
class NotStarted extends Error {}

/** Until bwrap says that it has made the cell's first process: by its own numbers, which are not the host's. */
async function untilMade(status: Readable): Promise<void> {
  return new Promise((resolve, reject) => {
    status.once('data', () => resolve())
    status.once('close', () => reject(new NotStarted('bwrap ended before it had made the cell')))
    status.once('error', reject)
  })
}

/** bwrap hands no signal on, so it goes to the command itself. */
function deliver(bwrap: Bwrap, signal: NodeJS.Signals): boolean {
  const { child, init } = bwrap
  if (child.pid === undefined) return false
  const command = signal === 'SIGKILL' ? null : commandOf(bwrap)
  if (command !== null) return signalPid(command.pid, signal)
  bwrap.isDoomed = true
  if (init !== null) killBwrap(bwrap)
  return true
}

/** The first child of the first process that the cell sees. Null while it has not been started yet. */
function commandOf({ init }: Bwrap): ProcessId | null {
  const isSecond = ({ pid }: ProcessId) => /^NSpid:.*\t2$/m.test(readProc(pid, 'status') ?? '')
  const [first] = init === null ? [] : childrenOf(init.pid)
  return first === undefined ? null : (childrenOf(first.pid).find(isSecond) ?? null)
}

/** Returns what must be gone before the end is the end. */
function killBwrap({ outer, init }: Bwrap): ProcessId[] {
  // One that has not told in time may have made it nevertheless.
  const processes = init === null && outer !== null ? treeOf([outer.pid]) : [outer, init].filter((each) => each !== null)
  // With the first process of a namespace the kernel ends all the rest, also what is in namespaces below it.
  signalAll(processes, 'SIGKILL')
  return processes
}

/** The kernel lets the first process of a pid namespace go only after every other one in it. */
const areGone = (processes: readonly ProcessId[]) =>
  until('the processes of a cell have ended', endTimeoutMs, () => processes.every(isGone))

/** Where `npm start` puts it for a user who may not install packages. By the user database, not by $HOME: a keeper's home
 *  is its session's. */
function ownBwrap(): string[] {
  try {
    return [join(userInfo().homedir, '.local/share/anchorhold/bin/bwrap')]
  } catch {
    return [] // a session's user is in no database
  }
}

function findBwrap({ bwrapPath, path = [] }: BwrapOptions): string | null {
  const candidates =
    bwrapPath === undefined ? ['/usr/bin/bwrap', ...path.map((folder) => join(folder, 'bwrap')), ...ownBwrap()] : [bwrapPath]
  const found = candidates.find(isExecutable)
  return found === undefined ? null : allowedCopy(found)
}
