import { sizeWords } from '@anchorhold/core/size-words'
import { randomUUID } from 'node:crypto'
import { lstatSync } from 'node:fs'
import { Failure } from '@anchorhold/protocol/failures'
import type { LimitInForce, LimitName } from '@anchorhold/protocol/rungs'
import type { CellSpec } from '../cell.ts'
import { requireFolders } from '../held-folders.ts'
import { type Groups, makeGroups } from './cgroups.ts'
import { type DiskAtStart, howSeen, measureDisk } from './disk-watcher.ts'
import { outOfMemoryWatcher } from './memory-watchers.ts'
import { countTasksOf, stepBack } from './processes.ts'
import { affordable, findPrlimit, hardLimit, prlimitArgv, type Rlimits } from './rlimits.ts'
import { watchApart } from './watch-apart.ts'
import { watch } from './watchdog.ts'

/** The limits of one cell: by control group where there is one, else by rlimit, else by a watcher. */
export interface Limits extends AsyncDisposable {
  /** The command that takes the rlimits on, or those of them, and then becomes `argv`, in the same process and with the same
   *  descriptors. */
  wrap(argv: readonly [string, ...string[]], which?: readonly (keyof Rlimits)[]): [string, ...string[]]
  /** What `wrap` sets. */
  readonly rlimits: Rlimits
  /** Puts a process under the groups, before it starts any other, and behind those of no cell. Throws when it could not be put under. */
  admit(pid: number): void
  /** Gives the groups up where `admit` is refused; the watchers then take their place. */
  withoutGroups(): Promise<Limits>
  /** As they are, judged by what was seen of a process inside. */
  inForce(seen: SeenInside): Promise<readonly LimitInForce[]>
  /** Settles with the reason when a watcher finds that the cell must end, with null when `signal` aborts. */
  watch(signal: AbortSignal): Promise<string | null>
  /** A limit that the kernel holds and that the cell has run into, in words; null while there is none. */
  met(): string | null
  /** Ends whatever is left in the groups. */
  killAll(): void
}

/** What a process inside reported, or the kernel of it: its limits in /proc, and the size of its /tmp if that is its own. */
export type SeenInside = { readonly limits: string; readonly tmpBytes: number | null }

/** How many tasks what makes the cell needs for itself, on top of those that the cell may have. */
export type OwnTasks = {
  readonly tasks: number
  readonly whose: string
  /** Whether the others would wait for ever for one that the kernel kills for want of memory. Asked when that has happened. */
  readonly oneForAll?: () => boolean
}
const noOwnTasks: OwnTasks = { tasks: 0, whose: '' }

/** `roots` gives the host pids of the cell's outermost processes as they are at the time. */
export function limitsOf(spec: CellSpec, roots: () => readonly number[], own = noOwnTasks): Limits {
  // A link that somebody has put in its place since it was looked at leads who knows where.
  const absent = foldersOf(spec).find((folder) => !lstatSync(folder, { throwIfNoEntry: false })?.isDirectory())
  if (absent !== undefined) throw new Failure('cell_unavailable', `Cannot start a cell: "${absent}" is not a folder`)
  requireFolders(spec)
  const groups = makeGroups(spec.cgroups, `cell-${randomUUID()}`, {
    ...spec.limits,
    processesMax: spec.limits.processesMax + own.tasks,
  })
  let measured: Promise<DiskAtStart> | null = null
  const disk = () => {
    const fileBytes = findPrlimit() === null ? Infinity : spec.limits.fileBytes
    measured ??= measureDisk({ diskBytes: spec.limits.diskBytes, fileBytes }, foldersOf(spec))
    measured.catch(() => {}) // who awaits it first may not come to that
    return measured
  }
  return assemble(spec, roots, own, groups, disk)
}

function assemble(
  spec: CellSpec,
  roots: () => readonly number[],
  own: OwnTasks,
  groups: Groups | null,
  disk: () => Promise<DiskAtStart>,
): Limits {
  const { limits } = spec
  const prlimitPath = findPrlimit()
  const rlimits = rlimitsFor(spec, own, groups)
  const memoryByGroup = groups?.holds.get('memory')
  const ranOut =
    groups === null || own.oneForAll === undefined ? [] : [outOfMemoryWatcher(limits.memoryBytes, groups.ranOut, own.oneForAll)]
  let isFull = false
  async function watchAll(signal: AbortSignal): Promise<string | null> {
    const over = new AbortController()
    const until = AbortSignal.any([signal, over.signal])
    const tasks = rlimits.nproc === null ? null : { uid: userOf(spec), most: rlimits.nproc }
    const watched = { disk: await disk(), memoryBytes: memoryByGroup === undefined ? limits.memoryBytes : null, tasks }
    const onFull = () => void (isFull = true)
    try {
      return await Promise.race([
        watchApart(watched, { roots, onFull }, until),
        ...(ranOut.length === 0 ? [] : [watch(ranOut, until)]),
      ])
    } finally {
      over.abort()
    }
  }

  return {
    rlimits,
    wrap(argv, which) {
      if (prlimitPath === null) return [...argv]
      const chosen = Object.entries(rlimits).filter(([name]) => which?.includes(name as keyof Rlimits) ?? true)
      return [...prlimitArgv(prlimitPath, Object.fromEntries(chosen)), ...argv]
    },
    admit(pid) {
      groups?.admit(pid)
      stepBack(pid)
      // Now, while the cell is being made: it takes processes of its own, and nothing in there can write yet.
      void disk()
    },
    async withoutGroups() {
      await groups?.remove()
      return assemble(spec, roots, own, null, disk)
    },
    watch: watchAll,
    met() {
      if (groups?.ranOut() === true) return `the sandbox had used up its ${sizeWords(limits.memoryBytes)} of memory`
      if (isFull || groups?.isFull() === true) return `the sandbox had used up its ${limits.processesMax} processes`
      return null
    },
    killAll: () => groups?.killAll(),
    async inForce(seen) {
      const byRlimit = (
        name: LimitName,
        rlimit: keyof Rlimits,
        words: (value: number) => string,
        wanted: number,
      ): LimitInForce => {
        const value = hardLimit(seen.limits, rlimit)
        const isSet = value !== null && value <= Math.max(wanted, rlimits[rlimit] ?? 0)
        return isSet
          ? { name, value: words(value), enforcement: 'enforced', how: 'rlimit' }
          : {
              name,
              value: words(wanted),
              enforcement: 'not enforced',
              how: prlimitPath === null ? needsPrlimit : 'the rlimit could not be set',
            }
      }
      const byGroup = (name: 'memory' | 'processes' | 'cpu', value: string): LimitInForce | null => {
        const how = groups?.holds.get(name)
        return how === undefined ? null : { name, value, enforcement: 'enforced', how }
      }
      return [
        byGroup('memory', sizeWords(limits.memoryBytes)) ?? {
          name: 'memory',
          value: sizeWords(limits.memoryBytes),
          enforcement: 'watched',
          how: 'the cell is ended when its processes hold more',
        },
        withOwn(
          byGroup('processes', String(limits.processesMax + own.tasks)) ?? processesByRlimit(spec, rlimits, seen, prlimitPath),
          own,
        ),
        byGroup('cpu', `${limits.cpus} CPUs`) ?? {
          name: 'cpu',
          value: `${limits.cpus} CPUs`,
          enforcement: 'not enforced',
          how: 'needs a control group that this user may write',
        },
        { name: 'disk', value: sizeWords(limits.diskBytes), enforcement: 'watched', how: howSeen(await disk()) },
        byRlimit('file_size', 'fsize', sizeWords, limits.fileBytes),
        byRlimit('open_files', 'nofile', String, limits.openFilesMax),
        seen.tmpBytes === null
          ? {
              name: 'tmp',
              value: sizeWords(limits.tmpBytes),
              enforcement: 'not enforced',
              how: 'this rung shares the folder /tmp of the host',
            }
          : { name: 'tmp', value: sizeWords(seen.tmpBytes), enforcement: 'enforced', how: 'size of the file system' },
      ]
    },
    async [Symbol.asyncDispose]() {
      groups?.killAll()
      await groups?.remove()
    },
  }
}

const withOwn = (limit: LimitInForce, { tasks, whose }: OwnTasks): LimitInForce =>
  tasks === 0 ? limit : { ...limit, how: `${limit.how}, ${tasks} of them ${whose}` }

const needsPrlimit = 'prlimit is not installed: install util-linux'

function rlimitsFor(spec: CellSpec, own: OwnTasks, groups: Groups | null): Rlimits {
  const { limits } = spec
  return affordable({
    nofile: limits.openFilesMax,
    fsize: limits.fileBytes,
    // Not 0: a host whose core_pattern is a pipe would still run its crash handler on what the cell gives it, but for
    // exactly 1 the kernel leaves it out (fs/coredump.c).
    core: 1,
    // Counts all that the user runs on the host as well, so what runs already comes on top.
    nproc: groups?.holds.has('processes') ? null : limits.processesMax + own.tasks + countTasksOf(userOf(spec)),
  })
}

function processesByRlimit(spec: CellSpec, rlimits: Rlimits, seen: SeenInside, prlimitPath: string | null): LimitInForce {
  const name = 'processes'
  const value = String(spec.limits.processesMax)
  if (prlimitPath === null) return { name, value, enforcement: 'not enforced', how: needsPrlimit }
  if (userOf(spec) === 0)
    return { name, value, enforcement: 'not enforced', how: 'the kernel does not count the processes of root' }
  const set = hardLimit(seen.limits, 'nproc')
  if (set === null || rlimits.nproc === null || set > rlimits.nproc) {
    return { name, value, enforcement: 'not enforced', how: 'the rlimit could not be set' }
  }
  return { name, value: String(set), enforcement: 'enforced', how: 'rlimit, over all tasks of the user on this machine' }
}

/** What a cell may fill. */
const foldersOf = ({ workspace, home, caches }: CellSpec) => [workspace, home, ...(caches === undefined ? [] : [caches])]

const userOf = (spec: CellSpec) => spec.runAs?.uid ?? process.getuid?.() ?? 0
