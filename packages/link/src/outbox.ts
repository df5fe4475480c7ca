import type { OutboxRecord } from '@anchorhold/protocol/link'
import { OutboxRecord as OutboxRecordSchema } from '@anchorhold/protocol/link'
import type { NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { crc32 } from 'node:zlib'
import type { Disk } from './disk.ts'

/** What a process has to tell, kept on disk until the daemon has stored it.
 *  Invariant: nothing is announced (`onDurable`, `read`) before it is on the disk, and numbers have no gap. */
export interface Outbox {
  /** The number of the last record that is on the disk. */
  readonly last: number
  /** Takes the next number. The record is on the disk when `flush` has resolved. */
  append(session: SessionId, event: NewEvent, after?: OutboxRecord['after']): number
  flush(): Promise<void>
  /** Records on the disk after `n`, in order, at most `limit`. */
  read(n: number, limit: number): Promise<readonly OutboxRecord[]>
  /** The daemon has stored everything up to `n`: what holds only such records is removed. */
  trim(n: number): Promise<void>
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
  const segments = (await disk.list())
    .map(firstOf)
    .filter((first) => first !== null)
    .toSorted((a, b) => a - b)
  if (segments.length === 0) {
    await disk.create(nameOf(1))
    segments.push(1)
  }
  let active = segments.at(-1)!
  const found = await repair(disk, active)
  let durable = found.last
  let activeBytes = found.bytes
  let next = durable + 1
  let pending: OutboxRecord[] = []
  /** The newest records, so that a daemon that keeps up is served without reading the disk. */
  let recent: OutboxRecord[] = []
  let writing: Promise<void> | null = null
  let broken: Error | null = null
  let trimming: Promise<void> = Promise.resolve()
  const listeners: ((last: number) => void)[] = []

  async function writeOut(): Promise<void> {
    // Everything appended while the disk was busy goes out together: one sync for the whole group.
    while (pending.length > 0) {
      const group = pending
      pending = []
      const last = next - 1
      const bytes = Buffer.from(group.map(lineOf).join(''))
      await disk.append(nameOf(active), bytes)
      activeBytes += bytes.length
      durable = last
      recent.push(...group)
      if (recent.length > 2 * recentMax) recent = recent.slice(-recentMax)
      if (activeBytes >= segmentBytes) {
        active = durable + 1
        activeBytes = 0
        await disk.create(nameOf(active))
        segments.push(active)
      }
      for (const listener of listeners) listener(durable)
    }
  }

  function flush(): Promise<void> {
    if (broken !== null) return Promise.reject(broken)
    writing ??= writeOut()
      .catch((error: unknown) => {
        // A write or sync that failed may have left anything behind: this process must not number on.
        broken = error instanceof Error ? error : new Error(String(error))
        throw broken
      })
      .finally(() => {
        writing = null
      })
    return writing
  }

  return {
    get last() {
      return durable
    },
    append(session, event, after) {
      if (broken !== null) throw broken
      const n = next++
      pending.push({ n, at: now(), session, type: event.type, body: event.body, ...(after ? { after } : {}) })
      return n
    },
    async flush() {
      while (pending.length > 0 || writing !== null) await flush()
    },
    async read(n, limit) {
      const oldest = recent[0]?.n
      if (oldest !== undefined && n + 1 >= oldest) return recent.slice(n + 1 - oldest, n + 1 - oldest + limit)
      const records: OutboxRecord[] = []
      for (const [index, first] of segments.entries()) {
        const end = segments[index + 1] ?? Infinity
        if (end <= n + 1) continue
        for (const record of parse(await disk.read(nameOf(first))).records) {
          if (record.n > n && record.n <= durable) records.push(record)
          if (records.length >= limit) return records
        }
      }
      return records
    },
    trim(n) {
      trimming = trimming
        .catch(() => {})
        .then(async () => {
          while (segments.length > 1 && segments[1]! <= n + 1) {
            await disk.remove(nameOf(segments[0]!))
            segments.shift()
          }
        })
      return trimming
    },
    onDurable(listener) {
      listeners.push(listener)
    },
    async close() {
      if (broken === null) while (pending.length > 0 || writing !== null) await flush()
      await trimming.catch(() => {})
      await disk.close()
    },
  }
}

const recentMax = 1000

const nameOf = (first: number) => `${String(first).padStart(16, '0')}.log`
function firstOf(name: string): number | null {
  const match = /^(\d{16})\.log$/.exec(name)
  return match === null ? null : Number(match[1])
}

function lineOf(record: OutboxRecord): string {
  const json = JSON.stringify(record)
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
}

/** Reads whole, unspoilt lines from the start; stops at the first that is torn. */
function parse(bytes: Buffer): { readonly records: OutboxRecord[]; readonly soundBytes: number } {
  const records: OutboxRecord[] = []
  let start = 0
  while (start < bytes.length) {
    const end = bytes.indexOf(0x0a, start)
    if (end === -1) break
    const json = bytes.toString('utf8', start + 9, end)
    if (crc32(json).toString(16).padStart(8, '0') !== bytes.toString('latin1', start, start + 8)) break
    records.push(OutboxRecordSchema.parse(JSON.parse(json)))
    start = end + 1
  }
  return { records, soundBytes: start }
}

/** A crash may tear the last line of the last segment: it was never announced, so it is cut off. */
async function repair(disk: Disk, active: number): Promise<{ last: number; bytes: number }> {
  const bytes = await disk.read(nameOf(active))
  const { records, soundBytes } = parse(bytes)
  if (soundBytes < bytes.length) await disk.truncate(nameOf(active), soundBytes)
  return { last: records.at(-1)?.n ?? active - 1, bytes: soundBytes }
}

/** Reads the outbox of a process that is dead, without opening it for writing. */
export async function readDeadOutbox(disk: Disk, after: number): Promise<readonly OutboxRecord[]> {
  const firsts = (await disk.list())
    .map(firstOf)
    .filter((first) => first !== null)
    .toSorted((a, b) => a - b)
  const records: OutboxRecord[] = []
  for (const first of firsts)
    for (const record of parse(await disk.read(nameOf(first))).records) if (record.n > after) records.push(record)
  return records
}
