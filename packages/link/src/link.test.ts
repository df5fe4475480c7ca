import { Failure } from '@anchorhold/protocol/failures'
import { newSessionId } from '@anchorhold/protocol/ids'
import type { LiveFrame } from '@anchorhold/protocol/events'
import { linkVersion } from '@anchorhold/protocol/link'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { attachTo } from './attach.ts'
import { takeLock } from './lock.ts'
import { memoryDisk } from './memory-disk.ts'
import { openOutbox } from './outbox.ts'
import { listenAsSource } from './source.ts'
import type { Connection, Heard, Wire } from './wire.ts'

const session = newSessionId(randomBytes)
let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'anchorhold-link-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

async function source(handle: (command: unknown) => Promise<unknown> = async (command) => command) {
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 1 })
  const socketPath = join(folder, 'k.sock')
  const end = await listenAsSource({ socketPath, source: 'gate', outbox, handle })
  const say = (message: string) => outbox.append(session, { type: 'notice', body: { level: 'info', code: 'x', message } })
  return { outbox, socketPath, end, say, [Symbol.asyncDispose]: () => end[Symbol.asyncDispose]() }
}
function attach(socketPath: string, after = 0) {
  const seen: number[] = []
  const frames: LiveFrame[] = []
  const closed = vi.fn()
  const end = attachTo({
    socketPath,
    source: 'gate',
    after,
    onRecord: (record) => seen.push(record.n),
    onLive: (_, frame) => frames.push(frame),
    onClose: closed,
  })
  return end.then((attachment) => ({ attachment, seen, frames, closed }))
}

test('attachTo() gets every record once, from where it left off, while new ones come', async () => {
  await using far = await source()
  far.say('one')
  far.say('two')
  await far.outbox.flush()
  const first = await attach(far.socketPath)
  far.say('three')
  await far.outbox.flush()
  await vi.waitFor(() => expect(first.seen).toEqual([1, 2, 3]))
  first.attachment.close()
  far.say('four')
  await far.outbox.flush()
  const second = await attach(far.socketPath, 3)
  await vi.waitFor(() => expect(second.seen).toEqual([4]))
})

test('tell() sends what is being gathered', async () => {
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 1 })
  const socketPath = join(folder, 'k.sock')
  const gather = vi.fn()
  await using end = await listenAsSource({ socketPath, source: 'gate', outbox, handle: async () => null, gather })
  const { seen } = await attach(socketPath)
  for (const message of ['one', 'two']) {
    outbox.append(session, { type: 'notice', body: { level: 'info', code: 'x', message } })
    await outbox.flush()
  }
  expect(gather).toHaveBeenCalledTimes(1)
  expect(seen).toEqual([])
  end.tell()
  await vi.waitFor(() => expect(seen).toEqual([1, 2]))
})

test('a daemon that was away is sent what it has missed in writes of bounded size, the next when the one before is taken', async () => {
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 1, segmentBytes: 1_000_000 })
  for (let n = 0; n < 30; n++) {
    outbox.append(session, { type: 'notice', body: { level: 'info', code: 'x', message: 'm'.repeat(500_000) } })
    await outbox.flush()
  }
  const writes: { readonly records: number; readonly bytes: number }[] = []
  let taken = Promise.withResolvers<void>()
  const connection: Connection = {
    open: true,
    backlogBytes: 0,
    send: (...frames) => void writes.push({ records: frames.length, bytes: JSON.stringify(frames).length }),
    drained: () => taken.promise,
    close: () => expect.unreachable(),
  }
  let heard: Heard | null = null
  const wire: Wire = {
    connect: () => expect.unreachable(),
    async listen(_, onConnection) {
      heard = onConnection(connection)
      return { close: async () => {} }
    },
  }
  await using _ = await listenAsSource({ wire, socketPath: '', source: 'gate', outbox, handle: async () => null })
  heard!.frame({ t: 'hello', version: linkVersion, after: 0 })
  for (let at = 2; writes.reduce((sum, { records }) => sum + records, -1) < 30; at++) {
    await vi.waitFor(() => expect(writes).toHaveLength(at))
    const before = taken
    taken = Promise.withResolvers()
    before.resolve()
  }
  expect(writes.slice(1).map(({ records }) => records)).toEqual([8, 8, 8, 6])
  for (const { bytes } of writes) expect(bytes).toBeLessThan(5_000_000)
})

test('a daemon that has forgotten more than is kept gets what there is', async () => {
  const disk = memoryDisk()
  disk.use('0000000000000100.log')
  const outbox = await openOutbox({ disk, now: () => 1 })
  const socketPath = join(folder, 'k.sock')
  await using _ = await listenAsSource({ socketPath, source: 'gate', outbox, handle: async () => null })
  const { seen } = await attach(socketPath)
  outbox.append(session, { type: 'notice', body: { level: 'info', code: 'x', message: 'm' } })
  await outbox.flush()
  await vi.waitFor(() => expect(seen).toEqual([100]))
})

test('a source whose files were emptied goes on behind what the daemon has, and nothing that it tells is taken for old', async () => {
  await using far = await source()
  far.say('one')
  far.say('two')
  await far.outbox.flush()
  const { attachment, seen } = await attach(far.socketPath, 50)
  expect(attachment.last).toBe(2)
  await vi.waitFor(() => expect(seen).toEqual([51, 52]))
  far.say('three')
  await far.outbox.flush()
  await vi.waitFor(() => expect(seen).toEqual([51, 52, 53]))
})

test('do() gives the result of a command, or the failure that it met', async () => {
  await using far = await source(async (command) => {
    if (command === 'bad') throw new Failure('wrong_state', 'Cannot', { hint: 'Do otherwise' })
    return { heard: command }
  })
  const { attachment } = await attach(far.socketPath)
  expect(await attachment.do('good')).toEqual({ heard: 'good' })
  await expect(attachment.do('bad')).rejects.toMatchObject({ code: 'wrong_state', hint: 'Do otherwise' })
})

test('a command in flight fails when the process behind it goes', async () => {
  const far = await source(() => new Promise(() => {}))
  const { attachment, closed } = await attach(far.socketPath)
  const answer = attachment.do('wait')
  answer.catch(() => {})
  await far.end[Symbol.asyncDispose]()
  await expect(answer).rejects.toMatchObject({ code: 'keeper_unavailable' })
  expect(closed).toHaveBeenCalledOnce()
})

test('live() reaches who is attached', async () => {
  await using far = await source()
  const { frames } = await attach(far.socketPath)
  far.end.live(session, { type: 'text.delta', block: 'b', offset: 0, text: 'hi' })
  await vi.waitFor(() => expect(frames).toHaveLength(1))
})

test.each([
  [linkVersion, 'is understood'],
  [linkVersion - 1, 'is understood: it may finish its turn under a newer daemon'],
  [linkVersion - 2, 'is refused'],
  [linkVersion + 1, 'is refused'],
])('a process that speaks version %i of the link %s', async (version, verdict) => {
  const socketPath = join(folder, 'other')
  const record = { n: 1, at: 0, session, type: 'of_another_release', body: { unknown: true } }
  const hello = { t: 'hello', version, source: 'gate', pid: 2, last: 1, of_another_release: true }
  const server = createServer((socket) => {
    socket.on('error', () => {})
    for (const frame of [hello, { t: 'record', record }]) socket.write(`${JSON.stringify(frame)}\n`)
  })
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  const attaching = attach(socketPath)
  if (verdict === 'is refused')
    await expect(attaching).rejects.toMatchObject({ code: 'keeper_unavailable', message: expect.stringContaining('version') })
  else {
    const { attachment, seen } = await attaching
    await vi.waitFor(() => expect(seen).toEqual([1]))
    attachment.close()
  }
  server.close()
})

/** Somebody who says these frames to whoever connects. */
async function speaker(...frames: unknown[]) {
  const socketPath = join(folder, 'other')
  const server = createServer((socket) => {
    socket.on('error', () => {}).resume()
    socket.write(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(''))
  })
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  return { socketPath, [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())) }
}
const greeting = { t: 'hello', version: linkVersion, source: 'gate', pid: 2, last: 1 }
const firstRecord = { t: 'record', record: { n: 1, at: 0, session, type: 'notice', body: {} } }

test.each([
  ['has another name', { ...greeting, source: `keeper/${session}` }, /should$/],
  ['names every process as its own', { ...greeting, pid: -1 }, /has gone$/],
  ['names its group of processes as its own', { ...greeting, pid: 0 }, /has gone$/],
  ['names the first process as its own', { ...greeting, pid: 1 }, /has gone$/],
])('attachTo() refuses one that %s, and hears nothing that it says', async (_, hello, message) => {
  await using far = await speaker(hello, firstRecord)
  const onRecord = vi.fn()
  const closed = Promise.withResolvers<void>()
  const how = { socketPath: far.socketPath, source: 'gate', after: 0, onRecord, onLive() {}, onClose: closed.resolve }
  await expect(attachTo(how)).rejects.toMatchObject({ code: 'keeper_unavailable', message: expect.stringMatching(message) })
  await closed.promise
  expect(onRecord).not.toHaveBeenCalled()
})

test('attachTo() hears nothing of one that has not said who it is', async () => {
  await using far = await speaker(firstRecord, greeting)
  const onRecord = vi.fn()
  const how = { socketPath: far.socketPath, source: 'gate', after: 0, onRecord, onLive() {}, onClose() {} }
  await expect(attachTo(how)).rejects.toMatchObject({ code: 'keeper_unavailable' })
  expect(onRecord).not.toHaveBeenCalled()
})

test('attachTo() follows no link to where somebody listens', async () => {
  await using far = await source()
  const link = join(folder, 'link')
  await symlink(far.socketPath, link)
  await expect(attach(link)).rejects.toThrow('it is no socket')
})

test('takeLock() is held by one only, and is free again after release', () => {
  const path = join(folder, 'lock')
  const lock = takeLock(path)
  expect(lock).not.toBeNull()
  lock?.release()
  const again = takeLock(path)
  expect(again).not.toBeNull()
  again?.release()
})

test('attachTo() does not wait for ever for a process that does not say who it is', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const socketPath = join(folder, 'silent')
  const server = createServer((socket) => socket.on('error', () => {}))
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  const connected = once(server, 'connection')
  const attaching = attach(socketPath)
  attaching.catch(() => {})
  await connected
  // The waiting begins when this end has connected, too.
  await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(0))
  await vi.advanceTimersByTimeAsync(10_000)
  vi.useRealTimers()
  await expect(attaching).rejects.toMatchObject({ code: 'keeper_unavailable' })
  server.close()
})

test('listenAsSource() ends though somebody connected and never said a word', async () => {
  const far = await source()
  const idle = createConnection(far.socketPath)
  await once(idle, 'connect')
  await far.end[Symbol.asyncDispose]()
  idle.destroy()
})
