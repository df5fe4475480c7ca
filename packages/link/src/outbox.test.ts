import type { NewEvent } from '@anchorhold/protocol/events'
import { newSessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { folderDisk } from './disk.ts'
import { memoryDisk } from './memory-disk.ts'
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

  test('cuts off a torn tail and keeps everything that was announced', async () => {
    const disk = memoryDisk()
    const outbox = await open(disk, 1e6)
    const announced: number[] = []
    outbox.onDurable((last) => announced.push(last))
    outbox.append(session, notice('kept'))
    await outbox.flush()
    outbox.append(session, notice('torn'))
    disk.tearNextAppend(40)
    await expect(outbox.flush()).rejects.toThrow('The disk failed')
    expect(() => outbox.append(session, notice('more'))).toThrow('The disk failed')
    expect(announced).toEqual([1])
    const again = await open(disk, 1e6)
    expect(again.last).toBe(1)
    expect(messages(await again.read(0, 10))).toEqual(['kept'])
    expect(again.append(session, notice('new'))).toBe(2)
  })

  test('reads across segments from the disk what is no longer in memory', async () => {
    const disk = memoryDisk()
    const first = await open(disk)
    for (let i = 0; i < 50; i++) first.append(session, notice(`m${i}`))
    await first.close()
    const second = await open(disk)
    expect(messages(await second.read(0, 100))).toHaveLength(50)
    expect(messages(await readDeadOutbox(disk, 48))).toEqual(['m48', 'm49'])
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
