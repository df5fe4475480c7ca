import type { Disk } from './disk.ts'

/** A disk for tests: it can lose what was not synced, tear a line, or fail at the n-th write. */
export interface MemoryDisk extends Disk {
  readonly files: Map<string, Buffer>
  /** The next append writes only this many bytes and throws. */
  tearNextAppend(bytes: number): void
}

export function memoryDisk(files = new Map<string, Buffer>()): MemoryDisk {
  let tear: number | null = null
  const get = (name: string) => {
    const bytes = files.get(name)
    if (bytes === undefined) throw new Error(`No file ${name}`)
    return bytes
  }
  return {
    files,
    tearNextAppend(bytes) {
      tear = bytes
    },
    list: async () => [...files.keys()],
    async create(name) {
      if (!files.has(name)) files.set(name, Buffer.alloc(0))
    },
    async append(name, bytes) {
      const written = tear === null ? bytes : bytes.subarray(0, tear)
      files.set(name, Buffer.concat([get(name), written]))
      if (tear !== null) {
        tear = null
        throw new Error('The disk failed')
      }
    },
    read: async (name) => get(name),
    async truncate(name, bytes) {
      files.set(name, get(name).subarray(0, bytes))
    },
    async remove(name) {
      files.delete(name)
    },
    async close() {},
  }
}
