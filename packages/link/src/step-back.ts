import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'

/** A third of the time that others get, where both want all of it (sched(7)). */
export const niceness = 5

/** Lets others go first: people wait for what is no agent's, the page, the gate, their own programs. What the process starts is as
 *  patient. Gives it no more than it had. */
export function stepBack(pid: number): void {
  for (const thread of threadsOf(pid)) {
    try {
      if (getPriority(thread) < niceness) setPriority(thread, niceness)
    } catch {
      // It has ended, or is somebody's who may not.
    }
  }
}

/** Linux knows the niceness of threads only: those that are there already do not take it over. */
function threadsOf(pid: number): number[] {
  if (process.platform !== 'linux') return [pid]
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number)
  } catch {
    return [] // it has ended
  }
}

/** So many changes in a second are enough for the whole machine, thinks the kernel; root may make more. */
const againMs = 150
const triesMax = 40

/** The same for a process that leads a session, with all of it that begins no session of its own. Where the kernel weighs sessions against each
 *  other, niceness is of no weight beyond one (sched(7), "The autogroup feature"). */
export function stepBackTogether(leader: number, tries = triesMax): void {
  stepBack(leader)
  const session = `/proc/${leader}/autogroup`
  try {
    const before = Number(/ nice (-?\d+)$/m.exec(readFileSync(session, 'latin1'))?.[1])
    if (before < niceness) writeFileSync(session, String(niceness))
  } catch (error) {
    // Otherwise it has ended, is somebody's who may not, or this system weighs no sessions.
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN' && tries > 1)
      setTimeout(() => stepBackTogether(leader, tries - 1), againMs).unref()
  }
}
