import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CellLimits } from '../cell.ts'
import { readProc, signalPid, until } from './processes.ts'

/** The limits that a control group can hold. */
export type GroupLimit = 'memory' | 'processes' | 'cpu'

/** The groups of one cell, made inside folders that were handed over. */
export interface Groups {
  /** Only what was read back as it was set, each with the way it holds. */
  readonly holds: ReadonlyMap<GroupLimit, string>
  /** Moves a process in; it and all it starts are then held. Throws when it is not seen to be inside afterwards. */
  admit(pid: number): void
  /** Whether the kernel has killed any of them for want of memory. */
  ranOut(): boolean
  /** Whether the kernel has refused any of them another process. */
  isFull(): boolean
  killAll(): void
  remove(): Promise<void>
}

/** Settings for version 1 and 2, as data: what to write where, and what must be read back.
 *  The first of each is what counts; the rest is written where the file exists. */
export function groupSettings(version: 1 | 2, limits: CellLimits): Record<GroupLimit, readonly Setting[]> {
  const memory = String(limits.memoryBytes)
  const quota = String(Math.round(limits.cpus * cpuPeriodUs))
  const processes = [{ file: 'pids.max', value: String(limits.processesMax) }]
  return version === 2
    ? {
        memory: [
          { file: 'memory.max', value: memory },
          { file: 'memory.swap.max', value: '0' },
        ],
        processes,
        cpu: [{ file: 'cpu.max', value: `${quota} ${cpuPeriodUs}` }],
      }
    : {
        memory: [
          { file: 'memory.limit_in_bytes', value: memory },
          { file: 'memory.memsw.limit_in_bytes', value: memory },
        ],
        processes,
        cpu: [
          { file: 'cpu.cfs_quota_us', value: quota },
          { file: 'cpu.cfs_period_us', value: String(cpuPeriodUs) },
        ],
      }
}

type Setting = { readonly file: string; readonly value: string }
const cpuPeriodUs = 100_000
/** The kernel rounds memory down to whole pages, which are 64 KiB at most. */
const pageBytesMax = 65_536
const removeTimeoutMs = 5_000

/** Makes a group `name` in each folder and sets what it can. Null when nothing could be set and read back. */
export function makeGroups(folders: readonly string[], name: string, limits: CellLimits): Groups | null {
  const holds = new Map<GroupLimit, string>()
  const groups: string[] = []
  for (const folder of folders) {
    const version = existsSync(join(folder, 'cgroup.controllers')) ? 2 : 1
    if (version === 2) shareControllers(folder)
    const group = join(folder, name)
    if (!attempt(() => mkdirSync(group))) continue
    const held = Object.entries(groupSettings(version, limits)).filter(([, settings]) => set(group, settings))
    for (const [limit] of held) holds.set(limit as GroupLimit, `control group, version ${version}`)
    if (held.length === 0) attempt(() => rmdirSync(group))
    else groups.push(group)
  }
  if (groups.length === 0) return null

  return {
    holds,
    admit(pid) {
      const isInside = () => {
        const seen = readProc(pid, 'cgroup')?.split('\n') ?? []
        return seen.filter((line) => line.endsWith(`/${name}`)).length >= groups.length
      }
      // What was started by one that is inside is so as well, and a move takes the kernel milliseconds.
      if (isInside()) return
      for (const group of groups) writeFileSync(join(group, 'cgroup.procs'), String(pid))
      if (!isInside()) throw new Error(`Process ${pid} is not in the control group "${name}" that it was moved to`)
    },
    ranOut: () => groups.flatMap(withInner).some(hasKilled),
    isFull: () => groups.flatMap(withInner).some((group) => /^max [1-9]/m.test(readOrEmpty(join(group, 'pids.events')))),
    killAll() {
      for (const group of groups.flatMap(withInner)) {
        const members = readOrEmpty(join(group, 'cgroup.procs')).split('\n')
        for (const pid of members) if (pid !== '') signalPid(Number(pid), 'SIGKILL')
      }
    },
    async remove() {
      // A group is busy for as long as one of its processes is being ended.
      for (const group of groups) {
        await until(`the control group "${group}" is empty`, removeTimeoutMs, () =>
          withInner(group).every((each) => attempt(() => rmdirSync(each))),
        )
      }
    },
  }
}

/** Each version counts it in a file of its own. */
const hasKilled = (group: string) =>
  ['memory.events', 'memory.oom_control'].some((file) => /^oom_kill [1-9]/m.test(readOrEmpty(join(group, file))))

/** A group with those that an engine has made in it, the innermost first; none when it is gone. */
function withInner(group: string): string[] {
  try {
    const inner = readdirSync(group, { withFileTypes: true }).filter((entry) => entry.isDirectory())
    return [...inner.flatMap(({ name }) => withInner(join(group, name))), group]
  } catch {
    return [] // it was removed in between
  }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // it was removed in between
  }
}

/** Lets groups below `folder` use its controllers; those that it has not got stay away. */
function shareControllers(folder: string): void {
  for (const controller of ['memory', 'pids', 'cpu']) {
    attempt(() => writeFileSync(join(folder, 'cgroup.subtree_control'), `+${controller}`))
  }
}

function set(group: string, [first, ...rest]: readonly Setting[]): boolean {
  if (first === undefined || !existsSync(join(group, first.file))) return false
  for (const { file, value } of [first, ...rest]) {
    if (existsSync(join(group, file))) attempt(() => writeFileSync(join(group, file), value))
  }
  return isSame(first.value, readFileSync(join(group, first.file), 'latin1').trim())
}

function isSame(set: string, read: string): boolean {
  if (set === read) return true
  const lost = Number(set) - Number(read)
  return lost >= 0 && lost < pageBytesMax && Number(read) > pageBytesMax
}

/** False where the kernel refused: a limit that cannot be set is reported, not fatal. */
function attempt(action: () => void): boolean {
  try {
    action()
    return true
  } catch {
    return false
  }
}
