// The thread that watches the limits of one cell, and ends the cell where one is passed.
import { setTimeout as delay } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { diskWatcher } from './disk-watcher.ts'
import { memoryWatchers } from './memory-watchers.ts'
import { countTasksOf, isGone, signalPid, treeOf } from './processes.ts'
import type { FromWatcher, ToWatcher, Watched } from './watch-apart.ts'
import { type Watcher, watch } from './watchdog.ts'

/** One that has heard it and has not begun by then hangs. */
const hungMs = 250

const { disk, memoryBytes, tasks } = workerData as Watched
let told: ToWatcher = { roots: [] }
parentPort!.on('message', (message: ToWatcher) => (told = message))
// One that has ended may have given its number to somebody else's.
const roots = () => told.roots.filter((each) => !isGone(each)).map(({ pid }) => pid)

/** Tells once that there are as many as there may be. To count them is to look at every process of the machine, and so not done often. */
function fullness({ uid, most }: NonNullable<Watched['tasks']>): Watcher {
  let nextMs = 0
  return {
    async look() {
      if (performance.now() < nextMs) return null
      const isFull = countTasksOf(uid) >= most
      if (isFull) parentPort!.postMessage({ full: true } satisfies FromWatcher)
      nextMs = isFull ? Infinity : performance.now() + countEveryMs
      return null
    },
  }
}
const countEveryMs = 1000

const watchers = [
  ...(tasks === null ? [] : [fullness(tasks)]),
  diskWatcher(disk, roots),
  ...(memoryBytes === null ? [] : memoryWatchers(memoryBytes, roots)),
]
const reason = await watch(watchers, new AbortController().signal)
parentPort!.postMessage({ ended: reason ?? 'its limits can no longer be watched' } satisfies FromWatcher)
// It ends the cell, and this thread with it, where it can.
await delay(hungMs)
// The outermost first: with it the kernel ends the rest.
for (const { pid } of treeOf(roots())) end(pid)

function end(pid: number): void {
  try {
    signalPid(pid, 'SIGKILL')
  } catch {
    // An engine's own, which ends its container when it is told why.
  }
}
