import { runs } from '@anchorhold/protocol/test-runs'
import type { NewEvent } from '@anchorhold/protocol/events'
import { newSessionId } from '@anchorhold/protocol/ids'
import type { OutboxRecord } from '@anchorhold/protocol/link'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { type Disk, folderDisk } from './disk.ts'
import { type MemoryDisk, memoryDisk } from './memory-disk.ts'
import { openOutbox, readDeadOutbox } from './outbox.ts'

const session = newSessionId(randomBytes)
const notice = (message: string): NewEvent => ({ type: 'notice', body: { level: 'info', code: 'test', message } })
const open = (disk = memoryDisk(), segmentBytes = 300) => openOutbox({ disk, now: () => 5, segmentBytes })
const messages = (records: readonly { body: unknown }[]) => records.map((record) => (record.body as { message: string }).message)
/** What the dead one that wrote to this disk had to tell. */
const left = async (disk: Disk, n: number) => (await piecesOf(disk, n)).flat()
async function piecesOf(disk: Disk, n: number): Promise<(readonly OutboxRecord[])[]> {
  const pieces: (readonly OutboxRecord[])[] = []
  for await (const piece of (await readDeadOutbox(disk, n)).records) pieces.push(piece)
  return pieces
}
const ids = (records: readonly { n: number }[]) => records.map(({ n }) => n)
const upTo = (n: number) => Array.from({ length: n }, (_, index) => index + 1)

describe('openOutbox()', () => {
  test('numbers records from 1 and reads them after any number', async () => {
    const outbox = await open()
    for (const message of ['a', 'b', 'c']) outbox.append(session, notice(message))
    expect(outbox.last).toBe(0)
    await outbox.flush()
    expect(outbox.last).toBe(3)
    expect(messages(await outbox.read(1, 10))).toEqual(['b', 'c'])
    expect(messages(await outbox.read(0, 2))).toEqual(['a', 'b'])
  })

  test('goes on with the next number after it was closed, also when all was trimmed', async () => {
    const disk = memoryDisk()
    const first = await open(disk)
    for (let i = 0; i < 20; i++) {
      first.append(session, notice(`m${i}`))
      await first.flush()
    }
    await first.trim(20)
    await first.close()
    expect(disk.files.size).toBe(1)
    const second = await open(disk)
    expect(second.append(session, notice('next'))).toBe(21)
  })

  test('holds no more in memory than its newest megabyte, and nothing that is acknowledged', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk, 1e9)
    for (let i = 0; i < 40; i++) {
      outbox.append(session, notice('x'.repeat(60_000)))
      await outbox.flush()
    }
    let reads = 0
    const { read } = disk
    disk.read = (...asked) => (reads++, read(...asked))
    expect((await outbox.read(38, 10)).map(({ n }) => n)).toEqual([39, 40])
    expect(reads).toBe(0)
    expect((await outbox.read(0, 2)).map(({ n }) => n)).toEqual([1, 2])
    expect(reads).toBe(1)
    await outbox.trim(39)
    expect((await outbox.read(38, 10)).map(({ n }) => n)).toEqual([39, 40])
    expect(reads).toBe(2)
    expect((await outbox.read(39, 10)).map(({ n }) => n)).toEqual([40])
    await outbox.trim(40)
    expect(await outbox.read(40, 10)).toEqual([])
    expect(reads).toBe(2)
  })

  test('goes on behind a number, with what this process has written and nothing from before it, also after a restart', async () => {
    const disk = memoryDisk()
    const before = await open(disk, 1e6)
    before.append(session, notice('put back'))
    await before.flush()
    const left = disk.kill()
    const outbox = await open(left, 1e6)
    outbox.append(session, notice('a'))
    const moving = outbox.goOnBehind(100)
    // Also what is written while it is being done.
    outbox.append(session, notice('b'))
    await moving
    expect([outbox.last, messages(await outbox.read(100, 10))]).toEqual([102, ['a', 'b']])
    expect(outbox.append(session, notice('c'))).toBe(103)
    await outbox.flush()
    // What there is already is no reason to go anywhere.
    await outbox.goOnBehind(7)
    await outbox.trim(102)
    expect([...left.files.keys()]).toEqual(['0000000000000101.log'])
    const again = await open(left.kill(), 1e6)
    expect([again.last, messages(await again.read(100, 10))]).toEqual([103, ['a', 'b', 'c']])
  })

  test('goes on behind a number with all that it has written or with nothing, wherever its process dies', async () => {
    for (let failing = 1; failing <= 4; failing++) {
      const disk = memoryDisk()
      const outbox = await open(disk, 1e6)
      for (const message of ['a', 'b', 'c']) outbox.append(session, notice(message))
      await outbox.flush()
      disk.failWrite(failing, 'EIO')
      const whole = await outbox.goOnBehind(100).then(
        () => true,
        () => false,
      )
      const again = await open(disk.kill(), 1e6)
      expect([again.last, messages(await again.read(100, 10))]).toEqual(whole ? [103, ['a', 'b', 'c']] : [3, []])
    }
  })

  test('goes on behind two numbers, and writes nothing twice behind the second', async () => {
    const outbox = await open(memoryDisk(), 1e6)
    for (const message of ['a', 'b']) outbox.append(session, notice(message))
    await outbox.goOnBehind(100)
    outbox.append(session, notice('c'))
    await outbox.goOnBehind(200)
    expect([outbox.last, messages(await outbox.read(200, 10))]).toEqual([203, ['a', 'b', 'c']])
  })

  test('cuts off a torn tail and keeps everything that was announced', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk, 1e6)
    const announced: number[] = []
    outbox.onDurable((last) => announced.push(last))
    outbox.append(session, notice('kept'))
    await outbox.flush()
    outbox.append(session, notice('torn'))
    const again = await open(
      disk.powerCut(() => 40),
      1e6,
    )
    expect(announced).toEqual([1])
    expect(again.last).toBe(1)
    expect(messages(await again.read(0, 10))).toEqual(['kept'])
    expect(again.append(session, notice('new'))).toBe(2)
  })

  test('keeps what was appended when its process dies, and announces it once it is synced', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk)
    outbox.append(session, notice('a'))
    const left = disk.kill()
    left.holdSyncs()
    const opening = open(left)
    await Promise.race([opening.then(() => expect.unreachable()), new Promise(setImmediate)])
    left.finishSyncs()
    expect(messages(await (await opening).read(0, 10))).toEqual(['a'])
  })

  test.each([
    ['a full disk', (disk: MemoryDisk) => disk.failWrite(1, 'ENOSPC', 30)],
    ['a sync that fails', (disk: MemoryDisk) => disk.failSync(1, 'EIO')],
  ])('says so and numbers no further after %s', async (_, breakDisk) => {
    const disk = memoryDisk()
    const outbox = await open(disk)
    outbox.append(session, notice('kept'))
    await outbox.flush()
    breakDisk(disk)
    const failing = async () => {
      outbox.append(session, notice('lost'))
      await outbox.flush()
    }
    await expect(failing()).rejects.toThrow('the disk failed')
    expect(() => outbox.append(session, notice('more'))).toThrow('the disk failed')
    await expect(outbox.flush()).rejects.toThrow('the disk failed')
    expect(outbox.last).toBe(1)
    const again = await open(disk.powerCut(() => 0))
    expect(messages(await again.read(0, 10))).toEqual(['kept'])
  })

  test('syncs in groups: what comes during a sync waits for the next, and for no later one', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk)
    const announced: number[] = []
    outbox.onDurable((last) => announced.push(last))
    disk.holdSyncs()
    outbox.append(session, notice('a'))
    const first = outbox.flush()
    outbox.append(session, notice('b'))
    outbox.append(session, notice('c'))
    const second = outbox.flush()
    disk.finishSyncs()
    await first
    expect(announced).toEqual([1])
    await second
    expect(announced).toEqual([1, 3])
  })

  test('removes no segment that its process still needs', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk)
    for (let i = 0; i < 20; i++) {
      outbox.append(session, notice(`m${i}`))
      await outbox.flush()
    }
    let floor = 4
    outbox.onTrim(async (n) => Math.min(n, floor))
    await outbox.trim(20)
    expect((await left(disk, 0)).map(({ n }) => n)).toContain(5)
    floor = 20
    await outbox.trim(20)
    expect(disk.files.size).toBe(1)
  })

  test('asks for one trim at a time what may go, the next for all that was acknowledged meanwhile, and syncs for none that frees nothing', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk, 100)
    for (let i = 0; i < 20; i++) {
      outbox.append(session, notice(`m${i}`))
      await outbox.flush()
    }
    let syncs = 0
    const { sync } = disk
    disk.sync = () => (syncs++, sync())
    const asked: { readonly about: readonly number[]; readonly answer: PromiseWithResolvers<number> }[] = []
    outbox.onTrim((...about) => {
      const answer = Promise.withResolvers<number>()
      asked.push({ about, answer })
      return answer.promise
    })
    const first = outbox.trim(5)
    await vi.waitUntil(() => asked.length === 1)
    const later = [7, 20, 9].map((n) => outbox.trim(n))
    asked[0]!.answer.resolve(0)
    await first
    expect([syncs, disk.files.size]).toEqual([0, 21])
    await vi.waitUntil(() => asked.length === 2)
    asked[1]!.answer.resolve(20)
    await Promise.all(later)
    expect(asked.map(({ about }) => about)).toEqual([
      [5, 1],
      [20, 1],
    ])
    expect([syncs, disk.files.size]).toEqual([1, 1])
  })

  test('reads all segments although the first is removed meanwhile', async () => {
    const disk = memoryDisk()
    const first = await open(disk, 100)
    for (let i = 0; i < 12; i++) {
      first.append(session, notice(`m${i}`))
      await first.flush()
    }
    const second = await open(disk.kill(), 100)
    const trimmed = second.trim(1)
    const read = await second.read(1, Infinity)
    expect(read.map(({ n }) => n)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    await trimmed
  })

  test('loses nothing that was announced and leaves no gap, wherever processes die, power goes or the disk fails', async () => {
    const step = fc.oneof(
      { weight: 8, arbitrary: fc.record({ do: fc.constant('append' as const), chars: fc.nat({ max: 120 }) }) },
      { weight: 4, arbitrary: fc.constant({ do: 'flush' as const }) },
      { weight: 2, arbitrary: fc.constant({ do: 'hold' as const }) },
      { weight: 2, arbitrary: fc.constant({ do: 'tick' as const }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('trim' as const), part: fc.double({ min: 0, max: 1, noNaN: true }) }) },
      { weight: 1, arbitrary: fc.constant({ do: 'kill' as const }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('cut' as const), kept: fc.double({ min: 0, max: 1, noNaN: true }) }) },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constant('fail' as const),
          what: fc.constantFrom('write', 'sync'),
          at: fc.integer({ min: 1, max: 4 }),
        }),
      },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async (steps) => {
        let disk = memoryDisk()
        let outbox = await open(disk, 400)
        /** What a daemon was told, and may rely upon for ever. */
        const told = new Map<number, string>()
        let acknowledged = 0
        const reopen = async (next: MemoryDisk) => {
          disk = next
          outbox = await open(disk, 400)
          expect(outbox.last).toBeGreaterThanOrEqual(Math.max(0, ...told.keys()))
        }
        const check = async () => {
          const { last } = outbox
          const records = await outbox.read(acknowledged, Infinity)
          expect(records.map(({ n }) => n)).toEqual(records.map((_, index) => acknowledged + 1 + index))
          expect(records.at(-1)?.n ?? acknowledged).toBeGreaterThanOrEqual(last)
          for (const record of records) {
            const [message] = messages([record])
            expect(told.get(record.n) ?? message).toBe(message)
            told.set(record.n, message!)
          }
        }
        for (const [index, one] of steps.entries()) {
          if (one.do === 'append') {
            try {
              outbox.append(session, notice(`${index} ${'x'.repeat(one.chars)}`))
            } catch {
              await reopen(disk.kill())
            }
          } else if (one.do === 'flush') void outbox.flush().catch(() => {})
          else if (one.do === 'hold') disk.holdSyncs()
          else if (one.do === 'tick') {
            disk.finishSyncs()
            await new Promise(setImmediate)
          } else if (one.do === 'trim') {
            acknowledged = Math.max(acknowledged, Math.floor(outbox.last * one.part))
            outbox.trim(acknowledged).catch(() => {})
          } else if (one.do === 'kill') await reopen(disk.kill())
          else if (one.do === 'cut') await reopen(disk.powerCut((bytes) => Math.floor(bytes * one.kept)))
          else if (one.what === 'write') disk.failWrite(one.at, 'ENOSPC', 17)
          else disk.failSync(one.at, 'EIO')
          await check()
        }
        await reopen(disk.powerCut(() => 0))
        await check()
      }),
      { numRuns: runs(500) },
    )
  })

  /** Never is all on the disk that was written: more comes during each sync. */
  async function steadily(disk: MemoryDisk, count: number) {
    const outbox = await open(disk)
    for (let n = 1; n <= count; n++) {
      disk.holdSyncs()
      outbox.append(session, notice(`m${n}`))
      const group = outbox.flush()
      if (n < count) outbox.append(session, notice(`m${++n}`))
      disk.finishSyncs()
      await group
      await outbox.trim(outbox.last)
    }
    return outbox
  }

  test('begins new segments while something is always being written, and removes those that are acknowledged', async () => {
    const disk = memoryDisk()
    let most = 0
    const { write } = disk
    disk.write = (bytes) => {
      write(bytes)
      most = Math.max(
        most,
        [...disk.files.values()].reduce((sum, file) => sum + file.length, 0),
      )
    }
    const outbox = await steadily(disk, 400)
    expect(outbox.written).toBe(400)
    expect(most).toBeLessThan(2000)
  })

  test('a segment that was begun in the middle of writing holds what was not synced, wherever the process dies or power goes', async () => {
    for (let count = 1; count < 40; count++) {
      const disk = memoryDisk()
      const outbox = await steadily(disk, count)
      const { last, written } = outbox
      const killed = disk.kill()
      expect(ids(await left(killed, last))).toEqual(upTo(written).slice(last))
      const again = await open(killed)
      expect([again.last, again.append(session, notice('next'))]).toEqual([written, written + 1])
      for (const kept of [0, 0.3, 0.8, 1]) {
        const cut = await open(killed.powerCut((bytes) => Math.floor(bytes * kept)))
        expect(cut.last).toBeGreaterThanOrEqual(written)
        expect(ids(await cut.read(last, 100))).toEqual(upTo(cut.last).slice(last))
      }
    }
  })

  test('reads what a process wrote twice once: at the end of a segment, and at the beginning of the next', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk)
    for (let n = 1; n <= 30; n++) {
      disk.holdSyncs()
      outbox.append(session, notice(`m${n}`))
      const group = outbox.flush()
      outbox.append(session, notice(`m${++n}`))
      disk.finishSyncs()
      await group
    }
    await outbox.flush()
    expect(disk.files.size).toBeGreaterThan(3)
    const killed = disk.kill()
    expect(ids(await left(killed, 0))).toEqual(upTo(30))
    const second = await open(killed)
    expect(ids(await second.read(0, Infinity))).toEqual(upTo(30))
    expect(ids(await second.read(7, 5))).toEqual([8, 9, 10, 11, 12])
  })

  test('a segment that cannot be begun is begun later, and nothing is lost meanwhile', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk)
    for (let n = 1; n <= 3; n++) outbox.append(session, notice('x'.repeat(200)))
    disk.holdSyncs()
    const group = outbox.flush()
    outbox.append(session, notice('carried'))
    disk.failWrite(1, 'ENOSPC')
    disk.finishSyncs()
    await group
    expect(disk.files.size).toBe(1)
    outbox.append(session, notice('more'))
    await outbox.flush()
    expect([disk.files.size, ids(await left(disk, 0))]).toEqual([2, [1, 2, 3, 4, 5]])
  })

  test('reads no more bytes at a time than it is asked for, and always one record', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk, 1e9)
    for (let n = 1; n <= 12; n++) outbox.append(session, notice('x'.repeat(n === 6 ? 100_000 : 10_000)))
    await outbox.flush()
    const fromDisk = await open(disk.kill(), 1e9)
    for (const one of [outbox, fromDisk]) {
      expect(ids(await one.read(0, 100, 35_000))).toEqual([1, 2, 3])
      expect(ids(await one.read(3, 100, 35_000))).toEqual([4, 5])
      expect(ids(await one.read(5, 100, 35_000))).toEqual([6])
      expect(ids(await one.read(6, 2, 35_000))).toEqual([7, 8])
    }
  })

  test('what a dead process had to tell is read in pieces, also records that are longer than one', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'anchorhold-outbox-'))
    try {
      const outbox = await openOutbox({ disk: folderDisk(folder), now: () => 1 })
      const lengths = [1, 9_000_000, 3, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_000_000, 5]
      for (const length of lengths) outbox.append(session, notice('x'.repeat(length)))
      await outbox.close()
      const pieces = await piecesOf(folderDisk(folder), 0)
      expect(pieces.map(ids)).toEqual([
        [1, 2],
        [3, 4, 5, 6, 7, 8],
        [9, 10],
      ])
      expect(pieces.flatMap(messages).map(({ length }) => length)).toEqual(lengths)
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('goes on after a crash that left the last segment longer than a file that can be read at once', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'anchorhold-outbox-'))
    try {
      const outbox = await openOutbox({ disk: folderDisk(folder), now: () => 1 })
      outbox.append(session, notice('a'))
      await outbox.close()
      const [name] = await readdir(folder)
      await truncate(join(folder, name!), 3 * 2 ** 30)
      expect(messages(await left(folderDisk(folder), 0))).toEqual(['a'])
      const again = await openOutbox({ disk: folderDisk(folder), now: () => 1 })
      expect(again.append(session, notice('b'))).toBe(2)
      await again.close()
      expect(messages(await left(folderDisk(folder), 0))).toEqual(['a', 'b'])
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('reads across segments from the disk what is no longer in memory', async () => {
    const disk = memoryDisk()
    const first = await open(disk)
    for (let i = 0; i < 50; i++) first.append(session, notice(`m${i}`))
    await first.close()
    const second = await open(disk)
    expect(messages(await second.read(0, 100))).toHaveLength(50)
    expect(messages(await left(disk, 48))).toEqual(['m48', 'm49'])
  })

  test('keeps its records in a real folder', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'anchorhold-outbox-'))
    try {
      const first = await openOutbox({ disk: folderDisk(join(folder, 'o')), now: () => 1 })
      first.append(session, notice('a'))
      await first.close()
      const second = await openOutbox({ disk: folderDisk(join(folder, 'o')), now: () => 1 })
      expect(messages(await second.read(0, 10))).toEqual(['a'])
      await second.close()
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})

test('readDeadOutbox() puts nothing to use, and may be asked again where it could not be synced', async () => {
  const disk = memoryDisk()
  const outbox = await open(disk)
  outbox.append(session, notice('a'))
  const found = disk.kill()
  const use = vi.spyOn(found, 'use')
  found.failSync(1, 'EIO')
  await expect(readDeadOutbox(found, 0)).rejects.toThrow('EIO')
  expect(messages(await left(found, 0))).toEqual(['a'])
  expect(use).not.toHaveBeenCalled()
})
