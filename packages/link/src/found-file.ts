import { accessSync, closeSync, constants, type Dirent, openSync, readdirSync, readlinkSync, realpathSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'

/** open(2): not in node:fs, and the same number on every architecture that Node runs on. */
export const O_PATH = 0o10000000

/** Opens a file to read it in a folder where somebody else may have put anything in its place. A link is not followed, and nothing but a
 *  file is opened: one that reads a fifo waits for whoever writes to it, and takes a thread of the process along.
 *  @param below the real path of a folder that the file must lie in, for a path through folders that somebody else may swap for links */
export async function openFound(
  path: string,
  below: string | null = null,
): Promise<{ readonly file: FileHandle; readonly sizeBytes: number }> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new Error(`Cannot read "${path}": it is no file`)
    if (below !== null && !placeOf(file.fd, path).startsWith(`${below}/`))
      throw new Error(`Cannot read "${path}": it does not lie in "${below}"`)
    return { file, sizeBytes: stat.size }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Where what was opened lies, by the kernel's word. Without /proc, where its name leads to now. */
function placeOf(fd: number, path: string): string {
  return process.platform === 'linux' ? readlinkSync(`/proc/self/fd/${fd}`) : realpathSync(path)
}

export type HowFound = {
  readonly below?: string
  /** What a file system of the owner's own making answers never, is given up. */
  readonly withinMs?: number
}
const usualMs = 5_000

/** All of such a file, which may have so much at most. */
export function readFound(path: string, bytesMax: number, how: HowFound = {}): Promise<string> {
  return inTime(path, how, async () => {
    const { file, sizeBytes } = await openFound(path, how.below)
    await using _ = file
    if (sizeBytes > bytesMax) throw new Error(`Cannot read "${path}": it has ${sizeBytes} bytes, and may have ${bytesMax}`)
    return (await startOf(file, sizeBytes)).toString()
  })
}

/** The first bytes of such a file, however many more it has. */
export function readFoundStart(path: string, bytes: number, how: HowFound = {}): Promise<Buffer> {
  return inTime(path, how, async () => {
    const { file, sizeBytes } = await openFound(path, how.below)
    await using _ = file
    return startOf(file, Math.min(bytes, sizeBytes))
  })
}

/** No more than was there, however much is added to it meanwhile. */
async function startOf(file: FileHandle, bytes: number): Promise<Buffer> {
  const into = Buffer.alloc(bytes)
  return into.subarray(0, (await file.read(into, 0, bytes, 0)).bytesRead)
}

/** The thread that waits is not to be had back. */
async function inTime<T>(path: string, { withinMs = usualMs }: HowFound, work: () => Promise<T>): Promise<T> {
  const done = new AbortController()
  const late = wait(withinMs, null, { signal: done.signal, ref: false }).then(() => {
    throw new Error(`Cannot read "${path}": it takes more than ${withinMs} ms`)
  })
  late.catch(() => {})
  try {
    return await Promise.race([work(), late])
  } finally {
    done.abort()
  }
}

/** What is in a folder that somebody else may swap for a link, or anything, at any time, by the folder's real path. Null where it cannot be
 *  looked into: read, or gone through to what is in it. Nothing where it is gone, or is not there any more but elsewhere. It waits for
 *  nobody, and is done at once: to hand each folder of a large tree to a thread would take several times as long. */
export function listFound(folder: string): readonly Dirent[] | null {
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
  let fd: number
  try {
    fd = openSync(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  } catch (error) {
    const gone = ['ENOENT', 'ENOTDIR', 'ELOOP']
    return gone.includes((error as NodeJS.ErrnoException).code ?? '') ? [] : null
  }
  try {
    if (placeOf(fd, folder) !== folder) return []
    const at = process.platform === 'linux' ? `/proc/self/fd/${fd}` : folder
    const entries = readdirSync(at, { withFileTypes: true })
    accessSync(`${at}/.`, constants.X_OK)
    return entries
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? [] : null
  } finally {
    closeSync(fd)
  }
}

/** A folder that stays the one that was opened, whatever its name leads to by then. */
export interface FoundFolder extends AsyncDisposable {
  /** The same folder by another name, for this process. */
  readonly at: string
}

/** Opens a folder where somebody else may have put a link in its place, which is not followed. */
export async function openFolder(path: string): Promise<FoundFolder> {
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
  const handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
  // Without /proc there is no other name for it, and there nobody reads folders of others.
  return {
    at: process.platform === 'linux' ? `/proc/self/fd/${handle.fd}` : path,
    [Symbol.asyncDispose]: () => handle.close(),
  }
}
