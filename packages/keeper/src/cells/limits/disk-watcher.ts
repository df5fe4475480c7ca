import { sizeWords } from '@anchorhold/core/size-words'
import { execFile } from 'node:child_process'
import { statfsSync, statSync } from 'node:fs'
import { promisify } from 'node:util'
import { type Size, sizeOfFew } from './few-files.ts'
import { isSharedMemory, namelessOf } from './nameless.ts'
import { treeOf } from './processes.ts'
import { atMost, gate, twice, type Watcher } from './watchdog.ts'

const run = promisify(execFile)

/** A folder that takes longer to measure is watched by the free space of its file system. */
const measureTimeoutMs = 3_000
const bytesAFile = 4096

/** The folders as they are before anything writes there, in a form that another thread can be told. */
export type DiskAtStart = {
  readonly folders: readonly string[]
  readonly limits: DiskLimits
  /** Null where the folders cannot be measured. */
  readonly size: Size | null
  readonly free: Size
}

export type DiskLimits = {
  readonly diskBytes: number
  /** What the kernel lets no file become larger than; Infinity where it does not. */
  readonly fileBytes: number
}

export async function measureDisk(limits: DiskLimits, folders: readonly string[]): Promise<DiskAtStart> {
  const { bytes, files } = free(folders)
  return { folders, limits, size: sizeOfFew(folders) ?? (await sizeOf(folders)), free: { bytes, files } }
}

/** How the growth of the folders can be seen on this machine. */
export const howSeen = ({ size }: DiskAtStart): string =>
  size === null ? 'free space on the disk of workspace and home' : 'growth of workspace and home'

/** A file that is empty takes no space, but the file system has only so many: for each 4 KiB of the limit there may be one more. */
export function diskWatcher(atStart: DiskAtStart, roots: () => readonly number[]): Watcher {
  const { folders, size: baseline, free: freeAtStart } = atStart
  const { diskBytes: limitBytes, fileBytes } = atStart.limits
  const limitFiles = Math.ceil(limitBytes / bytesAFile)
  const [space, files] = [gate(limitBytes, freeAtStart.bytes), gate(limitFiles, freeAtStart.files)]
  const taken = { bytes: atMost(-freeAtStart.bytes), files: atMost(-freeAtStart.files) }
  const isHiding = twice()
  let grownAtMost = { bytes: 0, files: 0 }
  let restsUntilMs = 0
  const exceeded = (grown: Size, how: string, what: string) => {
    if (grown.bytes > limitBytes)
      return `${what} ${how} by ${sizeWords(grown.bytes)}, and the limit is ${sizeWords(limitBytes)}; its files are kept`
    return grown.files > limitFiles
      ? `${what} ${how} by ${grown.files} files, and the limit is ${limitFiles}; they are kept`
      : null
  }
  async function look(): Promise<string | null> {
    const now = free(folders)
    grownAtMost = { bytes: taken.bytes.see(-now.bytes), files: taken.files.see(-now.files) }
    // All are asked: each remembers when it was last open. What may be above the limit is measured at once.
    const due = [space.isDue(now.bytes), files.isDue(now.files), exceeded(grownAtMost, '', '') !== null]
    const begunMs = performance.now()
    if (!due.includes(true) || begunMs < restsUntilMs) return null
    const size = baseline === null ? null : await sizeOf(folders)
    // A large folder is measured half of the time at most.
    restsUntilMs = 2 * performance.now() - begunMs
    const lost = { bytes: freeAtStart.bytes - now.bytes, files: freeAtStart.files - now.files }
    const shrank = () => exceeded(lost, 'shrank', 'the free space of its workspace and home')
    if (size === null || baseline === null) return shrank()

    // What has no name any more is dear to find, and never more than was taken. Btrfs tells late how much that is.
    const mayHold = folders.some(isBtrfs) || exceeded(grownAtMost, '', '') !== null
    const unlinked = mayHold ? await unlinkedSize(roots, folders) : { bytes: 0, files: 0, unsized: 0 }
    const grown = {
      bytes: size.bytes + unlinked.bytes - baseline.bytes,
      files: size.files + unlinked.files - baseline.files,
    }
    const reason = exceeded(grown, 'grew', 'its workspace and home')
    if (reason !== null) return reason
    if (mayHold && unlinked.unsized === 0) {
      taken.bytes.know(grown.bytes)
      taken.files.know(grown.files)
      grownAtMost = grown
    }
    // What is lost may be anybody's, so it counts only where the cell may hold as much that cannot be seen, and the disk is
    // about to be full: a cell that holds nothing should not end for what others write.
    const mayHide = unlinked.unsized > 0 && grown.bytes + unlinked.unsized * fileBytes > limitBytes
    return isHiding(mayHide) && now.leastBytes < limitBytes ? shrank() : null
  }
  return {
    look,
    // Before it could write all that is left to it.
    waitMs: () => ((limitBytes - grownAtMost.bytes) / bytesWrittenASecond) * 1000,
  }
}

/** More than disks take, and less than their memory in between does for a moment. */
const bytesWrittenASecond = 4 * 1024 ** 3

/** Null when it takes too long or something cannot be read: a folder without permissions would hide its content.
 *  du(1) rather than a walk of our own: it goes deeper than any path can be long, and follows no link. */
async function sizeOf(folders: readonly string[]): Promise<Size | null> {
  const within = folders.some(isBtrfs) ? '-s' : '-sx'
  const total = async (options: readonly string[]) => {
    const { stdout } = await run('du', [...options, within, '--', ...folders], {
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

/** What is held after its name was removed, where `du` cannot see it; and of how many more files the size cannot be told. */
async function unlinkedSize(
  roots: () => readonly number[],
  folders: readonly string[],
): Promise<Size & { readonly unsized: number }> {
  const devices = new Set(folders.map((folder) => statSync(folder).dev))
  const onBtrfs = folders.some(isBtrfs)
  const { files, unsized, isPartial } = await namelessOf(treeOf(roots()))
  const counted = [...files.values()].filter(
    ({ device, path, fileSystem }) => !isOfHost(path) && (devices.has(device) || (onBtrfs && fileSystem === btrfs)),
  )
  const more = unsized.filter(
    ({ device, path }) => !isOfHost(path) && (devices.has(device) || (onBtrfs && !isSharedMemory(path))),
  )
  return {
    bytes: counted.reduce((sum, { bytes }) => sum + bytes, 0),
    files: counted.length,
    unsized: isPartial ? Infinity : more.length,
  }
}

/** Programs that were replaced while they run. No cell can write there. */
const isOfHost = (path: string) => path.startsWith('/usr/')

/** Each subvolume counts as a device of its own there, and whoever may make a folder may make one. */
const isBtrfs = (folder: string) => statfsSync(folder).type === btrfs
/** linux/magic.h, BTRFS_SUPER_MAGIC */
const btrfs = 0x9123683e

/** Of each file system once, and the least that one of them has left. Subvolumes are known for the same one by its size. */
function free(folders: readonly string[]): Size & { readonly leastBytes: number } {
  const byFileSystem = new Map(
    folders.map((folder) => {
      const { type, blocks, bavail, bsize, ffree } = statfsSync(folder)
      return [type === btrfs ? `btrfs ${blocks}` : statSync(folder).dev, { bytes: bavail * bsize, files: ffree }]
    }),
  )
  const each = [...byFileSystem.values()]
  return {
    bytes: each.reduce((sum, { bytes }) => sum + bytes, 0),
    files: each.reduce((sum, { files }) => sum + files, 0),
    leastBytes: Math.min(...each.map(({ bytes }) => bytes)),
  }
}
