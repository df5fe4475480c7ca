import { setTimeout as delay } from 'node:timers/promises'

/** How often the cheap look is taken: one read of /proc/meminfo, one statfs a folder. */
const lookEveryMs = 200
const lookMsLeast = 10
/** The dear measurement is taken when a cheap look has changed by this share of the limit, and at least every so often. */
export const shareThatMatters = 1 / 16
const measureEveryMs = 2_000

/** Looks after a limit that the kernel does not hold. */
export type Watcher = {
  /** Why the cell must end, or null while it may go on. */
  look(): Promise<string | null>
  /** How soon it could be above the limit. */
  waitMs?(): number
}

/** Asks every watcher over and over until one has a reason or `signal` aborts; null in that case. Each by itself: what makes one of them
 *  take long does not keep the others from looking. */
export async function watch(watchers: readonly Watcher[], signal: AbortSignal): Promise<string | null> {
  if (watchers.length === 0) return null
  const over = new AbortController()
  const until = AbortSignal.any([signal, over.signal])
  const reasons = watchers.map(async (watcher) => {
    while (!until.aborted) {
      // A cell that has just begun holds nothing yet, and its start is worth more than a look at that.
      const waitMs = Math.max(lookMsLeast, Math.min(lookEveryMs, watcher.waitMs?.() ?? lookEveryMs))
      await delay(waitMs, null, { signal: until, ref: false }).catch(() => null)
      if (until.aborted) break
      const reason = await watcher.look().catch((error: Error) => `its limits can no longer be watched (${error.message})`)
      if (reason !== null) return reason
    }
    return null
  })
  const reason = await Promise.race(reasons)
  over.abort()
  return reason
}

/** Opens when the cheap figure has fallen noticeably since it was last open, or when that is long ago. At first it counts as having
 *  just been open at this figure. */
export function gate(limit: number, figure: number) {
  let last = { figure, atMs: performance.now() }
  return {
    isDue(figure: number): boolean {
      const now = performance.now()
      const due = last.figure - figure > limit * shareThatMatters || now - last.atMs > measureEveryMs
      if (due) last = { figure, atMs: now }
      return due
    },
  }
}

/** How much somebody can have of what only the whole machine's figure tells: what was known of theirs, and every rise since, since others
 *  may give back what they take. It is `figure` that rises. */
export function atMost(figure: number) {
  let [last, most] = [figure, 0]
  return {
    see(figure: number): number {
      most += Math.max(0, figure - last)
      last = figure
      return most
    },
    know(theirs: number): void {
      most = theirs
    },
  }
}

/** Whether something was so the last time as well. For what is usual for a moment: a descriptor on its way to another process. */
export function twice() {
  let before = false
  return (now: boolean): boolean => {
    const both = before && now
    before = now
    return both
  }
}
