import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { statOf } from './owner.ts'

const ahead = constants.priority.PRIORITY_HIGHEST
const among = constants.priority.PRIORITY_NORMAL

/** Lets a process that others wait for go ahead of them while it starts, until it says `hurryNoMore`. Root may give that; whoever
 *  else starts one, it starts as everybody's does, and so does one that its owner has given a place of its own. */
export function hurry(pid: number): void {
  attempt(() => move(pid, among, ahead))
  // Where the kernel shares time out between sessions first (sched(7)), it is the place of the session that counts.
  attempt(() => moveSession(pid, among, ahead))
}

/** Takes its place among the others again, with all threads that it has by now. */
export function hurryNoMore(): void {
  for (const thread of threads()) attempt(() => move(thread, ahead, among))
  const error = attempt(() => moveSession(process.pid, ahead, among))
  // The kernel hears ordinary users about this only so often, all of them together.
  if (error?.code === 'EAGAIN') setTimeout(hurryNoMore, againMs).unref()
}
const againMs = 200

function move(pid: number, from: number, to: number): void {
  if (getPriority(pid) === from) setPriority(pid, to)
}

/** Only of a session that is the process's own: another would stay ahead should the process be killed before it says otherwise. */
function moveSession(pid: number, from: number, to: number): void {
  const file = `/proc/${pid}/autogroup`
  if (statOf(pid)?.session === pid && readFileSync(file, 'latin1').endsWith(` nice ${from}\n`)) writeFileSync(file, String(to))
}

function threads(): number[] {
  try {
    return readdirSync('/proc/self/task').map(Number)
  } catch {
    return [process.pid] // where there is no /proc
  }
}

function attempt(work: () => void): NodeJS.ErrnoException | null {
  try {
    work()
    return null
  } catch (error) {
    return error as NodeJS.ErrnoException
  }
}
