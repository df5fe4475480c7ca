import { exitingFlag } from '@anchorhold/link/owner'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'

/** A process that cannot be mistaken for a later one under the same number. */
export type ProcessId = { readonly pid: number; readonly startedAt: string }

type Stat = ProcessId & {
  readonly state: string
  readonly parent: number
  readonly group: number
  readonly session: number
  readonly flags: number
}

/** Null when there is none under this number. */
export function identify(pid: number): ProcessId | null {
  const stat = readStat(pid)
  return stat === null ? null : { pid, startedAt: stat.startedAt }
}

/** A zombie counts as gone: it runs nothing, and its parent may reap it late. */
export function isGone(id: ProcessId): boolean {
  const stat = readStat(id.pid)
  return stat === null || isOver(stat, id)
}

/** Gone or about to be. It runs nothing more, but may still hold what it had; the kernel moves it to no group, and says nothing. */
export function isEnding(id: ProcessId): boolean {
  const stat = readStat(id.pid)
  return stat === null || isOver(stat, id) || (stat.flags & exitingFlag) !== 0
}

const isOver = (stat: Stat, { startedAt }: ProcessId) => stat.startedAt !== startedAt || stat.state === 'Z' || stat.state === 'X'

/** The processes themselves and all that descend from them, as far as they live. */
export function treeOf(roots: readonly number[]): ProcessId[] {
  const living = readAll()
  const found = new Map(living.filter((each) => roots.includes(each.pid)).map((each) => [each.pid, each]))
  // A parent may be listed after its child, so look until nothing new is found.
  for (let before = -1; before !== found.size;) {
    before = found.size
    for (const each of living) if (found.has(each.parent)) found.set(each.pid, each)
  }
  return [...found.values()]
}

/** Those that a process of one thread has started, or that were left to it. */
export function childrenOf(parent: number): ProcessId[] {
  const listed = readProc(parent, `task/${parent}/children`)
  // Not every kernel lists them.
  if (listed === null) return readAll().filter((each) => each.parent === parent)
  return listed.split(' ').flatMap((pid) => (pid === '' ? [] : (identify(Number(pid)) ?? [])))
}

/** Those that lead, or still belong to, a process group or a session started by `leader`. */
export function sessionOf(leader: number): ProcessId[] {
  return readAll().filter((each) => each.group === leader || each.session === leader)
}

export function signalAll(processes: readonly ProcessId[], signal: NodeJS.Signals): void {
  for (const each of processes) if (!isGone(each)) signalPid(each.pid, signal)
}

/** False when there was nothing to signal. */
export function signalPid(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}

/** Lets others go first: people wait for what is in no cell, the page, the gate, their own programs. What the process starts is as
 *  patient. Gives it no more than it had. */
export function stepBack(pid: number): void {
  try {
    setPriority(pid, Math.max(getPriority(pid), niceness))
  } catch {
    // It has ended, or is somebody's who may not.
  }
}
/** A third of the time that others get, where both want all of it (sched(7)). */
export const niceness = 5

/** Looks again until `holds`, and throws with `what` when it does not within `timeoutMs`. */
export async function until(what: string, timeoutMs: number, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + timeoutMs
  for (let pauseMs = 1; !holds(); pauseMs = Math.min(pauseMs * 2, 20)) {
    if (performance.now() > deadline) throw new Error(`Gave up after ${timeoutMs} ms waiting until ${what}`)
    await delay(pauseMs)
  }
}

/** Threads count, as they do for RLIMIT_NPROC, and so do those that nobody has reaped yet. */
export function countTasksOf(uid: number): number {
  return pids().reduce((sum, pid) => {
    const tasks = tasksOf(pid)
    return tasks?.uid === uid ? sum + tasks.count : sum
  }, 0)
}

/** The folder of a process's threads has a link for each, beside the two of any folder: one look tells whose they are and how many. */
export function tasksOf(pid: number): { readonly uid: number; readonly count: number } | null {
  const folder = statSync(`/proc/${pid}/task`, { throwIfNoEntry: false })
  return folder === undefined ? null : { uid: folder.uid, count: folder.nlink - 2 }
}

/** None when it is gone. */
export function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number)
  } catch {
    return []
  }
}

/** Null when the file is gone or may not be read. */
export function readProc(pid: number, name: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch {
    return null
  }
}

const pids = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

const readAll = (): Stat[] => pids().flatMap((pid) => readStat(pid) ?? [])

function readStat(pid: number): Stat | null {
  const text = readProc(pid, 'stat')
  if (text === null) return null
  // proc(5): the name in parentheses may hold anything, so count from its end; the state is field 3.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [state = '', parent, group, session, , , flags] = fields
  const numbers = { parent: Number(parent), group: Number(group), session: Number(session), flags: Number(flags) }
  return { pid, state, ...numbers, startedAt: fields[19] ?? '' }
}
