import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import type { DiskAtStart } from './disk-watcher.ts'
import { identify, type ProcessId } from './processes.ts'

/** What the thread is to watch. */
export type Watched = {
  readonly disk: DiskAtStart
  /** Null where a control group holds it. */
  readonly memoryBytes: number | null
  /** How many tasks the user of the cell may have; null where a control group counts them. */
  readonly tasks: { readonly uid: number; readonly most: number } | null
}

/** What it is told: the cell's outermost processes as they are. And what it tells: why the cell must end,
 *  and that the kernel refuses it another process. */
export type ToWatcher = { readonly roots: readonly ProcessId[] }
export type FromWatcher = { readonly ended: string } | { readonly full: true }

/** How long a new process of the cell's may be unknown to the thread. What it starts is found by it. */
const tellEveryMs = 250

export type Around = { readonly roots: () => readonly number[]; readonly onFull: () => void }

/** Watches limits in a thread of its own, which ends the cell's processes by itself where this one hangs: whatever keeps this one busy must
 *  not let a cell grow. Settles with the reason, with null when `signal` aborts. */
export async function watchApart(watched: Watched, { roots, onFull }: Around, signal: AbortSignal): Promise<string | null> {
  if (signal.aborted) return null
  const worker = new Worker(program(), {
    workerData: watched,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 128 },
  })
  worker.unref()
  let told = ''
  const tell = () => {
    const pids = roots()
    if (told === (told = pids.join(' '))) return
    worker.postMessage({ roots: pids.flatMap((pid) => identify(pid) ?? []) } satisfies ToWatcher)
  }
  tell()
  const telling = setInterval(tell, tellEveryMs).unref()
  const over = Promise.withResolvers<string | null>()
  worker.on('message', (heard: FromWatcher) => ('full' in heard ? onFull() : over.resolve(heard.ended)))
  worker.once('error', (error: Error) => over.resolve(`its limits can no longer be watched (${error.message})`))
  worker.once('exit', () => over.resolve('its limits can no longer be watched'))
  signal.addEventListener('abort', () => over.resolve(null), { once: true })
  try {
    return await over.promise
  } finally {
    clearInterval(telling)
    void worker.terminate()
  }
}

/** As built, it lies beside the program that it is a part of. */
function program(): URL {
  const built = new URL('watcher.mjs', import.meta.url)
  return existsSync(built) ? built : new URL('watch-main.ts', import.meta.url)
}
