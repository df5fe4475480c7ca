import { parseFrame } from './parse-frame.ts'
import type { LinkRecord, OutboxRecord } from '@anchorhold/protocol/link'
import { frameBytesMax, OutboxRecord as OutboxRecordSchema } from '@anchorhold/protocol/link'
import type { NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { crc32 } from 'node:zlib'
import type { Disk } from './disk.ts'
import { sharedRuns } from './shared-runs.ts'

/** What a process has to tell, kept on disk until the daemon has stored it.
 *  Invariant: nothing is announced (`onDurable`, `read`) before it is on the disk, and numbers have no gap.
 *  Does not stop: a disk that reports a failed sync once and then claims to hold what it does not. */
export interface Outbox {
  /** The number of the last record that is on the disk. */
  readonly last: number
  /** The number of the last record that is written, on the disk or not yet. */
  readonly written: number
  /** Takes the next number and writes. The record survives the death of this process from here on, and a power cut from when
   *  `flush` has resolved. Throws when it could not be written, and then for ever: numbers never go on behind a gap. */
  append(session: SessionId, entry: NewEvent | LinkRecord, after?: OutboxRecord['after']): number
  /** Resolves when all that was appended before is on the disk. */
  flush(): Promise<void>
  /** Records on the disk after `n`, in order, at most `limit`, and behind the first no more than are so many bytes together. */
  read(n: number, limit: number, bytesMax?: number): Promise<readonly OutboxRecord[]>
  /** The daemon has stored more of this source, up to `n`, than there is here: its files were emptied, or older ones put back. Numbers go on
   *  behind `n`, and what this process has written by then is written once more there: under its old numbers it would be taken for
   *  what is stored. */
  goOnBehind(n: number): Promise<void>
  /** The daemon has stored everything up to `n`: what holds only such records, and is needed for nothing else, is removed. */
  trim(n: number): Promise<void>
  /** Asked before anything is removed: the last record, up to `n`, that this process does not need any more. One before `least` frees nothing,
   *  so that nothing has to be done for it. */
  onTrim(release: (n: number, least: number) => Promise<number>): void
  /** Called when this process's records have gone on behind a number: what came after `after` is numbered so many higher from here on. */
  onMoved(listener: (after: number, by: number) => void): void
  /** Called with the new `last` after each group that reached the disk. */
  onDurable(listener: (last: number) => void): void
  close(): Promise<void>
}

export type OutboxOptions = {
  readonly disk: Disk
  readonly now: () => number
  /** A segment that has grown past this is closed and a new one begun. */
  readonly segmentBytes?: number
}

export async function openOutbox({ disk, now, segmentBytes = 1024 * 1024 }: OutboxOptions): Promise<Outbox> {
  const segments = await segmentsOn(disk)
  if (segments.length === 0) {
    disk.use(nameOf(1))
    segments.push(1)
  }
  const found = await repair(disk, segments.at(-1)!)
  // What a process that died had written is announced by this one: it has to be on the disk by then.
  await disk.sync()
  /** What comes after this was written by this process, under numbers that are nobody else's. */
  let foundTo = found.last
  let durable = foundTo
  let activeBytes = found.bytes
  let next = durable + 1
  /** Written, and not part of a sync yet. */
  let unsynced: Written[] = []
  /** The newest records that are not acknowledged, so that a daemon that keeps up is served without reading the disk. */
  let recent: Kept[] = []
  let recentBytes = 0
  let syncing: Promise<void> | null = null
  /** The sync after the one under way: it takes all that is written until then. */
  let following: Promise<void> | null = null
  let broken: Error | null = null
  let trimming: Promise<void> = Promise.resolve()
  /** The last record that is acknowledged and was not looked at by a trim that has begun. */
  let trimTo = 0
  let release = async (n: number, _least: number) => n
  const listeners: ((last: number) => void)[] = []
  const movedListeners: ((after: number, by: number) => void)[] = []

  /** A write or sync that failed may have left anything behind: this process must not number on. */
  function breakOn(error: unknown): Error {
    broken ??= error instanceof Error ? error : new Error(String(error))
    return broken
  }

  /** Forgets all up to `n`, which are on the disk or of no use any more. */
  function forget(n: number): void {
    const kept = recent.findIndex(({ record }) => record.n > n)
    const gone = recent.slice(0, kept === -1 ? recent.length : kept)
    if (gone.length === 0) return
    recent = kept === -1 ? [] : recent.slice(kept)
    for (const { bytes } of gone) recentBytes -= bytes
  }

  /** At most half of it at once, so that one record more does not move all the others. */
  function forgetOldest(): void {
    if (recentBytes <= recentBytesMax) return
    let bytes = recentBytes
    const last = recent.find((one) => (bytes -= one.bytes) <= recentBytesMax / 2)
    forget(last?.record.n ?? durable)
  }

  async function syncGroup(group: readonly Written[]): Promise<void> {
    try {
      await disk.sync()
    } catch (error) {
      throw breakOn(error)
    } finally {
      syncing = null
    }
    synced(group)
  }

  function synced(group: readonly Written[]): void {
    durable = group.at(-1)!.record.n
    for (const { record, line } of group) {
      recent.push({ record, bytes: line.length })
      recentBytes += line.length
    }
    forgetOldest()
    if (activeBytes >= segmentBytes) rotate()
    for (const listener of listeners) listener(durable)
  }

  /** Only the last segment can be torn, because one is left only when all that counts in it is on the disk. What is not is written once more
   *  to the new one: waited for, it might never be nothing. */
  function rotate(): void {
    const carried = Buffer.concat(unsynced.map(({ line }) => line))
    if (activeBytes - carried.length < segmentBytes) return
    const first = next - unsynced.length
    try {
      disk.use(nameOf(first), carried.length === 0 ? undefined : carried)
    } catch {
      // The old one serves until a new one can be made.
      return
    }
    segments.push(first)
    activeBytes = carried.length
  }

  function flush(): Promise<void> {
    if (broken !== null) return Promise.reject(broken)
    if (syncing === null) {
      if (unsynced.length === 0) return Promise.resolve()
      const group = unsynced
      unsynced = []
      syncing = syncGroup(group)
      return syncing
    }
    if (unsynced.length === 0) return syncing
    following ??= syncing.then(() => {
      following = null
      return flush()
    })
    return following
  }

  function write(entry: Omit<OutboxRecord, 'n'>): number {
    if (broken !== null) throw broken
    const written = writtenAs({ n: next, ...entry })
    try {
      disk.write(written.line)
    } catch (error) {
      throw breakOn(error)
    }
    activeBytes += written.line.length
    unsynced.push(written)
    return next++
  }

  async function read(n: number, limit: number, bytesMax = Infinity): Promise<readonly OutboxRecord[]> {
    if (n >= durable) return []
    const records: OutboxRecord[] = []
    let bytes = 0
    /** The first always, so that whoever reads gets on. */
    const take = (one: Kept): boolean => {
      bytes += one.bytes
      if (records.length >= limit || (records.length > 0 && bytes > bytesMax)) return false
      return records.push(one.record) > 0
    }
    const oldest = recent[0]?.record.n
    if (oldest !== undefined && n + 1 >= oldest) {
      for (let index = n + 1 - oldest; index < recent.length && take(recent[index]!);) index++
      return records
    }
    // Segments may be removed while others are read.
    const now = [...segments]
    for (const [index, first] of now.entries()) {
      if ((now[index + 1] ?? Infinity) <= n + 1 || !segments.includes(first)) continue
      for await (const one of linesOf(disk, now, index))
        if (one.record.n > n && one.record.n <= durable && !take(one)) return records
    }
    return records
  }

  /** The first segment can go when nobody needs this record and those before it any more. */
  const leastFreed = () => (segments[1] ?? Infinity) - 1

  const trimShared = sharedRuns(async () => {
    const n = trimTo
    trimTo = 0
    if (n < leastFreed()) return
    const free = Math.min(n, await release(n, leastFreed()))
    if (free < leastFreed()) return
    // The last segment says where numbers go on: its name has to be on the disk before the one before it goes.
    await disk.sync().catch((error: unknown) => {
      throw breakOn(error)
    })
    while (free >= leastFreed()) {
      await disk.remove(nameOf(segments[0]!))
      segments.shift()
    }
  })

  return {
    get last() {
      return durable
    },
    get written() {
      return next - 1
    },
    append: (session, { type, body }, after) => write({ at: now(), session, type, body, ...(after ? { after } : {}) }),
    flush,
    read,
    async goOnBehind(n) {
      for (;;) {
        await flush()
        if (n <= durable) return
        const mine = await read(foundTo, Infinity)
        // What came meanwhile belongs to them too.
        if (durable + 1 !== next || (mine.at(-1)?.n ?? foundTo) !== durable) continue
        const moved = mine.map((record, index) => writtenAs({ ...record, n: n + 1 + index }))
        const bytes = Buffer.concat(moved.map(({ line }) => line))
        try {
          // All of them or none: what stayed behind would keep a number that counts as stored, and be told to nobody.
          disk.use(nameOf(n + 1), bytes)
        } catch (error) {
          throw breakOn(error)
        }
        segments.push(n + 1)
        activeBytes = bytes.length
        recent = []
        recentBytes = 0
        const after = foundTo
        foundTo = n
        durable = n
        next = n + 1 + moved.length
        unsynced = moved
        for (const listener of movedListeners) listener(after, n - after)
        return flush()
      }
    },
    trim(n) {
      forget(n)
      // Hardly any acknowledgement frees a segment.
      if (n < leastFreed()) return Promise.resolve()
      trimTo = Math.max(trimTo, n)
      trimming = trimShared()
      return trimming
    },
    onTrim(asked) {
      release = asked
    },
    onMoved(listener) {
      movedListeners.push(listener)
    },
    onDurable(listener) {
      listeners.push(listener)
    },
    async close() {
      if (broken === null) await flush()
      await trimming.catch(() => {})
      await disk.close()
    },
  }
}

type Written = { readonly record: OutboxRecord; readonly line: Buffer }
type Kept = { readonly record: OutboxRecord; readonly bytes: number }

/** A daemon that is away longer reads the rest from the disk. */
const recentBytesMax = 1024 * 1024

const nameOf = (first: number) => `${String(first).padStart(16, '0')}.log`
function firstOf(name: string): number | null {
  const match = /^(\d{16})\.log$/.exec(name)
  return match === null ? null : Number(match[1])
}

function writtenAs(record: OutboxRecord): Written {
  const json = JSON.stringify(record)
  return { record, line: Buffer.from(`${crc32(json).toString(16).padStart(8, '0')} ${json}\n`) }
}

/** What counts in a segment: whole, unspoilt lines from the start to the first that is torn, with numbers below the next segment's. */
async function* linesOf(disk: Disk, segments: readonly number[], index: number): AsyncGenerator<Kept> {
  const end = segments[index + 1] ?? Infinity
  for await (const one of linesIn(disk, nameOf(segments[index]!))) {
    if (one.record.n >= end) return
    yield one
  }
}

/** Reads a piece at a time: no more of a segment has to fit into memory, however long it is. */
async function* linesIn(disk: Disk, name: string): AsyncGenerator<Kept> {
  let from = 0
  let rest: Buffer = Buffer.alloc(0)
  for (;;) {
    const piece = await disk.read(name, from + rest.length, pieceBytes)
    const bytes: Buffer = rest.length === 0 ? piece : Buffer.concat([rest, piece])
    let start = 0
    for (let end = bytes.indexOf(0x0a, rest.length); end !== -1; end = bytes.indexOf(0x0a, start)) {
      const json = bytes.toString('utf8', start + 9, end)
      if (crc32(json).toString(16).padStart(8, '0') !== bytes.toString('latin1', start, start + 8)) return
      yield { record: OutboxRecordSchema.parse(parseFrame(bytes.subarray(start + 9, end))), bytes: end + 1 - start }
      start = end + 1
    }
    if (piece.length < pieceBytes || bytes.length - start > frameBytesMax) return
    from += start
    rest = bytes.subarray(start)
  }
}
const pieceBytes = 4 * 1024 * 1024

async function segmentsOn(disk: Disk): Promise<number[]> {
  return (await disk.list())
    .map(firstOf)
    .filter((first) => first !== null)
    .toSorted((a, b) => a - b)
}

/** A crash may tear the last line of the last segment: it was never announced, so it is cut off. */
async function repair(disk: Disk, active: number): Promise<{ last: number; bytes: number }> {
  const { last, soundBytes } = await soundIn(disk, active)
  const torn = await disk.read(nameOf(active), soundBytes, 1)
  if (torn.length > 0) await disk.truncate(nameOf(active), soundBytes)
  disk.use(nameOf(active))
  return { last, bytes: soundBytes }
}

async function soundIn(disk: Disk, segment: number): Promise<{ readonly last: number; readonly soundBytes: number }> {
  let last = segment - 1
  let soundBytes = 0
  for await (const { record, bytes } of linesIn(disk, nameOf(segment))) {
    last = record.n
    soundBytes += bytes
  }
  return { last, soundBytes }
}

/** What a process that is dead had to tell after a number, some of it at a time, and the number of its last record; null where it has left
 *  no file. */
export type DeadOutbox = { readonly records: AsyncIterable<readonly OutboxRecord[]>; readonly last: number | null }

/** Reads what a process that is dead had to tell after `n`. What it had written and not synced is on the disk to stay when this
 *  resolves: otherwise a power cut could take it back, and the next process would give its numbers to something else. */
export async function readDeadOutbox(disk: Disk, n: number): Promise<DeadOutbox> {
  const segments = await segmentsOn(disk)
  const newest = segments.at(-1)
  const last = newest === undefined ? null : (await soundIn(disk, newest)).last
  if (last !== null && last > n) await disk.syncLeft(nameOf(newest!))
  return { records: inPieces(disk, segments, n), last }
}

async function* inPieces(disk: Disk, segments: readonly number[], n: number): AsyncGenerator<readonly OutboxRecord[]> {
  let some: OutboxRecord[] = []
  let bytes = 0
  for (const index of segments.keys()) {
    if ((segments[index + 1] ?? Infinity) <= n + 1) continue
    for await (const one of linesOf(disk, segments, index)) {
      if (one.record.n <= n) continue
      some.push(one.record)
      bytes += one.bytes
      if (bytes < pieceBytes) continue
      yield some
      some = []
      bytes = 0
    }
  }
  if (some.length > 0) yield some
}
