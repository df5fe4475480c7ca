import { type FileHandle, mkdir, open, readdir, readFile, truncate, unlink } from 'node:fs/promises'
import { join } from 'node:path'

/** The few things an outbox does to a disk, so that a simulation can stand in for one. */
export interface Disk {
  list(): Promise<readonly string[]>
  create(name: string): Promise<void>
  /** Resolves when the bytes are on the disk to stay. */
  append(name: string, bytes: Buffer): Promise<void>
  read(name: string): Promise<Buffer>
  truncate(name: string, bytes: number): Promise<void>
  remove(name: string): Promise<void>
  close(): Promise<void>
}

/** A folder of real files. */
export function folderDisk(folder: string): Disk {
  let appending: { readonly name: string; readonly handle: FileHandle } | null = null
  async function handleFor(name: string): Promise<FileHandle> {
    if (appending?.name !== name) {
      await appending?.handle.close()
      appending = { name, handle: await open(join(folder, name), 'a', 0o600) }
    }
    return appending.handle
  }
  /** A new or removed name is on the disk only when its folder is. */
  async function syncFolder(): Promise<void> {
    const handle = await open(folder, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
  }
  return {
    async list() {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      return readdir(folder)
    },
    async create(name) {
      await handleFor(name)
      await syncFolder()
    },
    async append(name, bytes) {
      const handle = await handleFor(name)
      await handle.appendFile(bytes)
      await handle.datasync()
    },
    read: (name) => readFile(join(folder, name)),
    truncate: (name, bytes) => truncate(join(folder, name), bytes),
    remove: (name) => unlink(join(folder, name)),
    async close() {
      await appending?.handle.close()
      appending = null
    },
  }
}
