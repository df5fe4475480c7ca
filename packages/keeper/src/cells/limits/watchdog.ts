import { sizeWords } from '@anchorhold/core/size-words'
import { execFile } from 'node:child_process'
import { readdirSync, statfsSync, statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Size, sizeOfFew } from './few-files.ts'
import { type ProcessId, treeOf } from './processes.ts'

const run = promisify(execFile)
/** A folder that takes longer to measure is watched by the free space of its file system. */
const measureTimeoutMs = 3_000

/** How often the cheap look is taken: one read of /proc/meminfo, one statfs a folder. */
const lookEveryMs = 200
/** The dear measurement is taken when a cheap look has changed by this share of the limit, and at least every so often. */
export const shareThatMatters = 1 / 16
const measureEveryMs = 2_000

/** Looks after a limit that the kernel does not hold. Returns why the cell must end, or null while it may go on. */
export type Watcher = () => Promise<string | null>

/** Asks every watcher over and over until one has a reason or `signal` aborts; null in that case. Each by itself: what makes one of them
 *  take long does not keep the others from looking. */
export async function watch(watchers: readonly Watcher[], signal: AbortSignal): Promise<string | null> {
  if (watchers.length === 0) return null
  const over = new AbortController()
  const until = AbortSignal.any([signal, over.signal])
  const reasons = watchers.map(async (watcher) => {
    while (!until.aborted) {
      // A cell that has just begun holds nothing yet, and its start is worth more than a look at that.
      await delay(lookEveryMs, null, { signal: until, ref: false }).catch(() => null)
      if (until.aborted) break
      const reason = await watcher().catch((error: Error) => `its limits can no longer be watched (${error.message})`)
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

/** How the growth of the folders can be seen on this machine. */
export type DiskWatch = { readonly watcher: Watcher; readonly how: string }

/** Takes the size of the folders as they are now for the baseline. A file that is empty takes no space, but the file system has
 *  only so many: for each 4 KiB of the limit there may be one more. */
export async function diskWatcher(
  limitBytes: number,
  folders: readonly string[],
  roots: () => readonly number[],
): Promise<DiskWatch> {
  const limitFiles = Math.ceil(limitBytes / bytesAFile)
  const freeAtStart = free(folders)
  const baseline = sizeOfFew(folders) ?? (await sizeOf(folders))
  const [space, files] = [gate(limitBytes, freeAtStart.bytes), gate(limitFiles, freeAtStart.files)]
  const exceeded = (grown: Size, how: string, what: string) => {
    if (grown.bytes > limitBytes) return `${what} ${how} by ${sizeWords(grown.bytes)}, and the limit is ${sizeWords(limitBytes)}`
    return grown.files > limitFiles ? `${what} ${how} by ${grown.files} files, and the limit is ${limitFiles}` : null
  }
  const watcher: Watcher = async () => {
    const now = free(folders)
    // Both are asked: each remembers when it was last open.
    if (![space.isDue(now.bytes), files.isDue(now.files)].includes(true)) return null
    const size = baseline === null ? null : await sizeOf(folders)
    if (size === null || baseline === null) {
      const lost = { bytes: freeAtStart.bytes - now.bytes, files: freeAtStart.files - now.files }
      return exceeded(lost, 'shrank', 'the free space of its workspace and home')
    }
    const unlinked = unlinkedSize(treeOf(roots()), folders)
    const grown = {
      bytes: size.bytes + unlinked.bytes - baseline.bytes,
      files: size.files + unlinked.files - baseline.files,
    }
    return exceeded(grown, 'grew', 'its workspace and home')
  }
  const how = baseline === null ? 'free space on the disk of workspace and home' : 'growth of workspace and home'
  return { watcher, how }
}

const bytesAFile = 4096

/** Null when it takes too long or something cannot be read: a folder without permissions would hide its content.
 *  du(1) rather than a walk of our own: it goes deeper than any path can be long, and follows no link. */
async function sizeOf(folders: readonly string[]): Promise<Size | null> {
  const total = async (options: readonly string[]) => {
    const { stdout } = await run('du', [...options, '-sx', '--', ...folders], {
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
      timeout: measureTimeoutMs,
    })
    return stdout.split('\n').reduce((sum, line) => sum + Number(line.split('\t')[0]), 0)
  }
  try {
    const [kilobytes, files] = await Promise.all([total(['-k']), total(['--inodes'])])
    return { bytes: kilobytes * 1024, files }
  } catch {
    return null
  }
}

/** What is held open after its name was removed, where `du` cannot see it. */
function unlinkedSize(processes: readonly ProcessId[], folders: readonly string[]): Size {
  const devices = new Set(folders.map((folder) => statSync(folder).dev))
  const files = new Map<number, number>()
  for (const path of processes.flatMap(({ pid }) => openFiles(pid))) {
    const file = statOf(path)
    if (file?.isFile() && file.nlink === 0 && devices.has(file.dev)) files.set(file.ino, file.blocks * 512)
  }
  return { bytes: [...files.values()].reduce((a, b) => a + b, 0), files: files.size }
}

function openFiles(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => `/proc/${pid}/fd/${fd}`)
  } catch {
    return [] // it has just ended
  }
}

function statOf(path: string) {
  try {
    return statSync(path)
  } catch {
    return null // closed since it was listed
  }
}

/** Each file system once. */
function free(folders: readonly string[]): Size {
  const byDevice = new Map(folders.map((folder) => [statSync(folder).dev, folder]))
  let [bytes, files] = [0, 0]
  for (const folder of byDevice.values()) {
    const { bavail, bsize, ffree } = statfsSync(folder)
    bytes += bavail * bsize
    files += ffree
  }
  return { bytes, files }
}
