import type { Disk } from './disk.ts'

/** A disk for tests: it can fail, and lose or tear what was not synced. */
export interface MemoryDisk extends Disk {
  /** What a process sees, synced or not. */
  readonly files: ReadonlyMap<string, Buffer>
  /** The n-th write from now (1 is the next one) writes so many bytes and fails. */
  failWrite(n: number, code: 'ENOSPC' | 'EIO', writtenBytes?: number): void
  failSync(n: number, code: 'ENOSPC' | 'EIO'): void
  /** Syncs wait from here on until `finishSyncs`. */
  holdSyncs(): void
  finishSyncs(): void
  /** The process dies: what it wrote is all there, synced or not. This disk does nothing any more, whatever is still asked of
   *  it; the one that the next process finds is returned. */
  kill(): MemoryDisk
  /** The power goes, and of what was not synced so many bytes of each file happen to be there afterwards. */
  powerCut(kept: (unsyncedBytes: number) => number): MemoryDisk
}

export const memoryDisk = (): MemoryDisk => diskWith(new Map(), new Map())

/** `syncedBytes` says how much of each is on the disk to stay; a file that is not in it has not even its name there. */
function diskWith(files: Map<string, Buffer>, syncedBytes: Map<string, number>): MemoryDisk {
  let used: string | null = null
  let dead = false
  let held: PromiseWithResolvers<void> | null = null
  let write: { left: number; readonly code: string; readonly bytes: number } | null = null
  let sync: { left: number; readonly code: string } | null = null
  const syncFails = () => sync !== null && --sync.left === 0
  /** Now and then it is: both ways are seen. */
  const get = (name: string | null) => {
    const bytes = name === null ? undefined : files.get(name)
    if (bytes === undefined) throw new Error(`No file ${name}`)
    return bytes
  }
  const failure = (code: string) => Object.assign(new Error(`${code}: the disk failed`), { code })
  const alive = () => {
    if (dead) throw new Error('This disk belongs to a process that is dead')
  }
  const writeFails = () => write !== null && --write.left === 0
  const never = new Promise<never>(() => {})

  async function syncFile(name: string): Promise<void> {
    alive()
    const length = get(name).length
    const fails = syncFails()
    await (held?.promise ?? Promise.resolve())
    if (dead) return never
    if (fails) throw failure(sync!.code)
    syncedBytes.set(name, Math.max(length, syncedBytes.get(name) ?? 0))
  }

  return {
    files,
    failWrite: (n, code, bytes = 0) => void (write = { left: n, code, bytes }),
    failSync: (n, code) => void (sync = { left: n, code }),
    holdSyncs: () => void (held ??= Promise.withResolvers()),
    finishSyncs() {
      held?.resolve()
      held = null
    },
    kill() {
      dead = true
      return diskWith(new Map(files), new Map(syncedBytes))
    },
    powerCut(kept) {
      dead = true
      const left = new Map<string, Buffer>()
      for (const [name, bytes] of files) {
        const stays = syncedBytes.get(name)
        const unsynced = bytes.length - (stays ?? 0)
        const more = Math.min(unsynced, kept(unsynced))
        if (stays !== undefined || more > 0) left.set(name, bytes.subarray(0, (stays ?? 0) + more))
      }
      return diskWith(left, new Map([...left].map(([name, bytes]) => [name, bytes.length])))
    },
    list: async () => [...files.keys()],
    use(name, begun) {
      alive()
      if (begun !== undefined && writeFails()) throw failure(write!.code)
      if (begun !== undefined) {
        files.set(name, Buffer.from(begun))
        syncedBytes.delete(name)
      } else if (!files.has(name)) files.set(name, Buffer.alloc(0))
      used = name
    },
    write(bytes) {
      alive()
      const before = get(used)
      const fails = writeFails()
      files.set(used!, Buffer.concat([before, fails ? bytes.subarray(0, write!.bytes) : bytes]))
      if (fails) throw failure(write!.code)
    },
    sync: () => syncFile(used!),
    syncLeft: syncFile,
    read: async (name, from, bytes) => get(name).subarray(from, from + bytes),
    async truncate(name, bytes) {
      alive()
      files.set(name, get(name).subarray(0, bytes))
      if (syncedBytes.has(name)) syncedBytes.set(name, Math.min(bytes, syncedBytes.get(name)!))
    },
    async remove(name) {
      if (dead) return never
      files.delete(name)
      syncedBytes.delete(name)
    },
    async close() {},
  }
}
