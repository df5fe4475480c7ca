import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { getPriority, setPriority } from 'node:os'

/** A third of the time that others get, where both want all of it (sched(7)). */
export const niceness = 5

/** Lets others go first: people wait for what is no agent's, the page, the gate, their own programs. What the process starts is as
 *  patient. Gives it no more than it had. */
export function stepBack(pid: number): void {
  try {
    for (const thread of threadsOf(pid)) if (getPriority(thread) < niceness) setPriority(thread, niceness)
    stepBackTogether(`/proc/${pid}/autogroup`)
  } catch {
    // It has ended, or is somebody's who may not; or this system weighs no sessions.
  }
}

/** Linux knows the niceness of threads only: those that are there already do not take it over. */
function threadsOf(pid: number): number[] {
  return process.platform === 'linux' ? readdirSync(`/proc/${pid}/task`).map(Number) : [pid]
}

/** Where sessions are weighed against each other, the niceness of their processes is of no weight to others (sched(7), "The autogroup
 *  feature"). */
function stepBackTogether(session: string): void {
  const before = Number(/ nice (-?\d+)$/m.exec(readFileSync(session, 'latin1'))?.[1])
  if (before < niceness) writeFileSync(session, String(niceness))
}
