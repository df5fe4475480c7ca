import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/** Opens a file to read it in a folder where somebody else may have put anything in its place. A link is not followed, and nothing but a
 *  file is opened: one that reads a fifo waits for whoever writes to it, and takes a thread of the process along. */
export async function openFound(path: string): Promise<{ readonly file: FileHandle; readonly sizeBytes: number }> {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw new Error(`Cannot read "${path}": it is no file`)
    return { file, sizeBytes: stat.size }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** All of such a file, which may have so much at most. */
export async function readFound(path: string, bytesMax: number): Promise<string> {
  const { file, sizeBytes } = await openFound(path)
  try {
    if (sizeBytes > bytesMax) throw new Error(`Cannot read "${path}": it has ${sizeBytes} bytes, and may have ${bytesMax}`)
    // No more than was there, however much is added to it meanwhile.
    const into = Buffer.alloc(sizeBytes)
    return into.toString('utf8', 0, (await file.read(into, 0, sizeBytes, 0)).bytesRead)
  } finally {
    await file.close()
  }
}
