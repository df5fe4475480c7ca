import { closeSync, constants, fdatasync, fstatSync, ftruncateSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs'
import { open, readdir, truncate, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openFolder, openFound } from './found-file.ts'

/** The few things an outbox does to a disk, so that a simulation can stand in for one. */
export interface Disk {
  list(): Promise<readonly string[]>
  /** From here on `write` adds to this file, which is made when there is none. With bytes to begin with it is made anew, and is there with
   *  all of them or not at all, wherever this process dies. */
  use(name: string, begun?: Uint8Array): void
  /** Adds to the end. The bytes survive the death of this process at once, and a power cut after `sync`. */
  write(bytes: Uint8Array): void
  /** Resolves when all that was written to the file in use, and its name, is on the disk to stay. */
  sync(): Promise<void>
  /** Resolves when a file that another process has left, and its name, are on the disk to stay. */
  syncLeft(name: string): Promise<void>
  /** So many bytes of a file, from there on; fewer only where it ends. */
  read(name: string, from: number, bytes: number): Promise<Buffer>
  truncate(name: string, bytes: number): Promise<void>
  remove(name: string): Promise<void>
  close(): Promise<void>
}

const datasync = promisify(fdatasync)

/** Zeros are written behind the last line, for lines to take their place: a sync then has neither a new length nor new blocks to write
 *  beside the bytes, which would take longer than the bytes themselves. As many as there are lines, so that it happens seldom to a file that
 *  grows. Who reads finds them behind the last line of a process that was killed. */
const zeros = Buffer.alloc(512 * 1024)
const zerosMin = 16 * 1024

/** A folder of real files. */
export function folderDisk(folder: string): Disk {
  let used: InUse | null = null
  /** How many are syncing a file that may have been left meanwhile: it is closed behind them. */
  const syncing = new Map<number, number>()
  const left = new Set<number>()
  /** A new name is on the disk only when its folder is. */
  let unsyncedName: string | null = null
  async function syncFolder(at = folder): Promise<void> {
    const handle = await open(at, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }
  function inUse(): InUse {
    if (used === null) throw new Error(`No file of "${folder}" is in use`)
    return used
  }
  function letGo(): void {
    if (used === null) return
    const { file, length, madeTo } = used
    used = null
    try {
      if (madeTo > length) ftruncateSync(file, length)
    } catch {
      // Whoever reads it passes over the zeros.
    }
    if (syncing.has(file)) left.add(file)
    else closeSync(file)
  }
  async function syncFile(file: number): Promise<void> {
    syncing.set(file, (syncing.get(file) ?? 0) + 1)
    try {
      await datasync(file)
    } finally {
      const others = syncing.get(file)! - 1
      if (others > 0) syncing.set(file, others)
      else {
        syncing.delete(file)
        if (left.delete(file)) closeSync(file)
      }
    }
  }
  return {
    // Made by whoever writes, not by whoever looks: a daemon that is root looks into folders of others, who may put a link in its place.
    async list() {
      try {
        await using found = await openFolder(folder)
        return await readdir(found.at)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
        throw error
      }
    },
    use(name, begun) {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const file = begun === undefined ? openToWrite(join(folder, name), 0) : begin(join(folder, name), begun)
      const { size } = fstatSync(file)
      letGo()
      used = { file, length: size, madeTo: size }
      unsyncedName = name
    },
    write(bytes) {
      const to = inUse()
      writeAll(to.file, bytes, to.length)
      to.length += bytes.length
      if (to.length > to.madeTo) to.madeTo = writeAhead(to)
    },
    async sync() {
      const name = unsyncedName
      await syncFile(inUse().file)
      if (name === null) return
      await syncFolder()
      // Another file may be in use by now, whose name is not on the disk by this.
      if (unsyncedName === name) unsyncedName = null
    },
    // By a descriptor that only reads: one that is opened to be written to could be a fifo by now, and wait for a reader for good.
    async syncLeft(name) {
      await using found = await openFolder(folder)
      const { file } = await openFound(join(found.at, name))
      try {
        await file.datasync()
      } finally {
        await file.close()
      }
      await syncFolder(found.at)
    },
    async read(name, from, bytes) {
      await using found = await openFolder(folder)
      const { file, sizeBytes } = await openFound(join(found.at, name))
      try {
        const into = Buffer.allocUnsafeSlow(Math.min(bytes, Math.max(0, sizeBytes - from)))
        let length = 0
        for (let more = -1; more !== 0 && length < into.length; length += more)
          more = (await file.read(into, length, into.length - length, from + length)).bytesRead
        return into.subarray(0, length)
      } finally {
        await file.close()
      }
    },
    truncate: (name, bytes) => truncate(join(folder, name), bytes),
    remove: (name) => unlink(join(folder, name)),
    async close() {
      letGo()
    },
  }
}

/** `length` is what was written; from there on to `madeTo` it is zeros. */
type InUse = { readonly file: number; length: number; madeTo: number }

/** Up to where the file is made then. A disk that is full may not take them: only lines have to be written. */
function writeAhead({ file, length }: InUse): number {
  const some = zeros.subarray(0, Math.max(zerosMin, length))
  try {
    writeAll(file, some, length)
    return length + some.length
  } catch {
    return length
  }
}

function openToWrite(path: string, flags: number): number {
  const { O_WRONLY, O_CREAT, O_NOFOLLOW } = constants
  return openSync(path, O_WRONLY | O_CREAT | O_NOFOLLOW | flags, 0o600)
}

/** Gets its name only when all of it is written. What a process that died in between has left is written over. */
function begin(path: string, bytes: Uint8Array): number {
  const unnamed = `${path}.new`
  const file = openToWrite(unnamed, constants.O_TRUNC)
  try {
    writeAll(file, bytes, 0)
    renameSync(unnamed, path)
    return file
  } catch (error) {
    closeSync(file)
    throw error
  }
}

/** A disk that is nearly full takes a part and fails only when it is given the rest. */
function writeAll(file: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done, bytes.length - done, at + done)
}
