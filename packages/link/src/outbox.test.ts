import type { NewEvent } from '@anchorhold/protocol/events'
import { newSessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { folderDisk } from './disk.ts'
import { type MemoryDisk, memoryDisk } from './memory-disk.ts'
import { openOutbox, readDeadOutbox } from './outbox.ts'

const session = newSessionId(randomBytes)
const notice = (message: string): NewEvent => ({ type: 'notice', body: { level: 'info', code: 'test', message } })
const open = (disk = memoryDisk(), segmentBytes = 300) => openOutbox({ disk, now: () => 5, segmentBytes })
const messages = (records: readonly { body: unknown }[]) => records.map((record) => (record.body as { message: string }).message)

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
    disk.read = (name) => (reads++, read(name))
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
    expect((await readDeadOutbox(disk, 0)).records.map(({ n }) => n)).toContain(5)
    floor = 20
    await outbox.trim(20)
    expect(disk.files.size).toBe(1)
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
      { numRuns: 500 },
    )
  })

  test('reads across segments from the disk what is no longer in memory', async () => {
    const disk = memoryDisk()
    const first = await open(disk)
    for (let i = 0; i < 50; i++) first.append(session, notice(`m${i}`))
    await first.close()
    const second = await open(disk)
    expect(messages(await second.read(0, 100))).toHaveLength(50)
    expect(messages((await readDeadOutbox(disk, 48)).records)).toEqual(['m48', 'm49'])
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
