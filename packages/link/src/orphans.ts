import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { isOwnerGone, ownerMark } from './owner.ts'

/** Stands in the command line of what must not outlive this process. The kernel is asked to see to that, but whoever is made while its
 *  maker is being killed can learn too late whom it was to die with. */
export const mortalMark = (): string => `${prefix}${ownerMark()}`
const prefix = 'ah-cell-'

/** Ends what carries the mark of a process that has ended. Whatever is made in a namespace of it ends with it.
 *  Invariant: nothing is touched whose maker lives, nor what this user may not end. */
export function endOrphans(): Promise<void> {
  // All keepers of a house can be gone at once: one look serves everybody who asked before it began.
  if (looking === null) return (looking = look().finally(() => (looking = null)))
  return (next ??= looking.then(() => {
    next = null
    return endOrphans()
  }))
}
let looking: Promise<void> | null = null
let next: Promise<void> | null = null

async function look(): Promise<void> {
  for (let pauseMs = 1; pauseMs < pauseMsMax; pauseMs *= 2) {
    const ended = pids().filter((pid) => isOrphan(pid) && end(pid))
    if (ended.length === 0) return
    await wait(pauseMs)
  }
}
/** A process that cannot be ended at once is waited for about twice as long. */
const pauseMsMax = 1000

function isOrphan(pid: number): boolean {
  const line = read(pid, 'cmdline')
  if (line === null || !line.includes(prefix)) return false
  const mark = line.split('\0').find((word) => word.startsWith(prefix))
  return mark !== undefined && isOwnerGone(mark)
}

function end(pid: number): boolean {
  try {
    return process.kill(pid, 'SIGKILL')
  } catch {
    return false // it has ended, or is another user's
  }
}

function pids(): number[] {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []))
  } catch {
    return [] // where there is no /proc
  }
}

/** Empty for a zombie. */
function read(pid: number, name: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch {
    return null
  }
}
