import { constants, readlinkSync, realpathSync } from 'node:fs'
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
export async function readFound(path: string, bytesMax: number, { below, withinMs = usualMs }: HowFound = {}): Promise<string> {
  const late = new AbortController()
  const tooLate = wait(withinMs, null, { signal: late.signal, ref: false }).then(() => {
    throw new Error(`Cannot read "${path}": it takes more than ${withinMs} ms`)
  })
  try {
    return await Promise.race([read(path, bytesMax, below), tooLate])
  } finally {
    late.abort()
    tooLate.catch(() => {})
  }
}

async function read(path: string, bytesMax: number, below?: string): Promise<string> {
  const { file, sizeBytes } = await openFound(path, below)
  try {
    if (sizeBytes > bytesMax) throw new Error(`Cannot read "${path}": it has ${sizeBytes} bytes, and may have ${bytesMax}`)
    // No more than was there, however much is added to it meanwhile.
    const into = Buffer.alloc(sizeBytes)
    return into.toString('utf8', 0, (await file.read(into, 0, sizeBytes, 0)).bytesRead)
  } finally {
    await file.close()
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
