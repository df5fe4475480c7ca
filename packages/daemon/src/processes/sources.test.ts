import { memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox } from '@anchorhold/link/outbox'
import { listenAsSource } from '@anchorhold/link/source'
import type { LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { newRequestId, newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import type { OutboxRecord, SourceName } from '@anchorhold/protocol/link'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { hub } from '../hub.ts'
import { sqliteStore } from '../store/sqlite/sqlite-store.ts'
import type { Store } from '../store/store.ts'
import { sources, type Sources } from './sources.ts'

let store: Store
let one: Sources
let said: string[]
let session: SessionId
let keeper: SourceName
let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ah-sources-'))
  store = sqliteStore(':memory:')
  said = []
  one = sources({ store, hub: hub(), log: (message) => void said.push(message) })
  session = newSession()
  keeper = `keeper/${session}`
})
afterEach(() => {
  vi.useRealTimers()
  store.close()
  rmSync(folder, { recursive: true })
})

function newSession(): SessionId {
  const id = newSessionId(randomBytes)
  store.sessions.insert({ id, options: {}, runAs: null, conversation: 'c', conversing: false, grants: [] })
  return id
}
const notice = (message: string): NewEvent => ({ type: 'notice', body: { level: 'info', code: 'test', message } })
const keeperStarted: NewEvent = {
  type: 'keeper.started',
  body: { rung: 'bwrap', agent: 'claude', agent_version: '1', limits: [], resumed: false },
}
const record = (n: number, message: string, after?: OutboxRecord['after']): OutboxRecord => ({
  n,
  at: 0,
  session,
  ...notice(message),
  ...(after === undefined ? {} : { after }),
})
const stored = (id = session) =>
  store.events.after(id, 0, 100).map((event) => (event.type === 'notice' ? event.body.message : event.type))

test('take() stores what a source was alone with for long, however much it is', async () => {
  const count = 150_000
  const body = { call: 'c', nanos: 1, provider: 'p', model: 'm', simulated: true, notional: false }
  const records = Array.from({ length: count }, (_, i) => ({ n: i + 1, at: 1, session, type: 'reservation', body }))
  const taken = sources({ store, hub: hub(), log: () => {} })
  taken.take('gate', records)
  await taken.settled('gate')
  expect(taken.lastOf('gate')).toBe(count)
})

test('take() stores every record once, in order', async () => {
  const records = [record(1, 'one'), record(2, 'two')]
  one.take(keeper, records)
  one.take(keeper, [...records, record(3, 'three')])
  await one.settled(keeper)
  expect(stored()).toEqual(['one', 'two', 'three'])
  expect(store.events.lastOf(keeper)).toBe(3)
})

test('take() counts a record that is no event, and what waits for it goes on', async () => {
  const reservation = { call: 'c', nanos: 5, provider: 'p', model: 'm', simulated: false, notional: false }
  one.take(keeper, [record(1, 'after it', { source: 'gate', n: 2 })])
  one.take('gate', [record(1, 'before it'), { n: 2, at: 0, session, type: 'reservation', body: reservation }])
  await one.settled(keeper)
  expect(stored()).toEqual(['before it', 'after it'])
  expect(store.events.lastOf('gate')).toBe(2)
  expect(said).toEqual([])
})

test('a record that names another source’s waits for it, and those behind it wait too', async () => {
  one.take(keeper, [record(1, 'first'), record(2, 'ended', { source: 'gate', n: 2 }), record(3, 'left')])
  one.flush()
  expect(stored()).toEqual(['first'])
  one.take('gate', [record(1, 'usage 1')])
  one.flush()
  expect(stored()).toEqual(['first', 'usage 1'])
  one.take('gate', [record(2, 'usage 2')])
  await one.settled(keeper)
  expect(stored()).toEqual(['first', 'usage 1', 'usage 2', 'ended', 'left'])
})

test('records of two sources that come together are stored in the order they name', () => {
  one.take(keeper, [record(1, 'ended', { source: 'gate', n: 1 })])
  one.take('gate', [record(1, 'usage')])
  one.flush()
  expect(stored()).toEqual(['usage', 'ended'])
})

test('a record does not wait for ever for one that never comes', async () => {
  vi.useFakeTimers()
  one.take(keeper, [record(1, 'ended', { source: 'gate', n: 9 }), record(2, 'left')])
  let done = false
  const waiting = one.settled(keeper).then(() => (done = true))
  await vi.advanceTimersByTimeAsync(4000)
  expect([done, stored()]).toEqual([false, []])
  await vi.advanceTimersByTimeAsync(4000)
  await waiting
  expect(stored()).toEqual(['ended', 'left'])
})

test('what cannot be stored is not acknowledged, and is stored in order when the disk takes it', async () => {
  vi.useFakeTimers()
  let full = true
  const failing: Store = {
    ...store,
    atomically(work) {
      if (full) throw new Failure('storage_unavailable', 'Cannot write: the disk is full')
      return store.atomically(work)
    },
  }
  one = sources({ store: failing, hub: hub(), log: (message) => void said.push(message) })
  one.take(keeper, [record(1, 'one'), record(2, 'two')])
  await vi.advanceTimersByTimeAsync(3000)
  one.take(keeper, [record(3, 'three')])
  await vi.advanceTimersByTimeAsync(3000)
  expect([stored(), store.events.lastOf(keeper), said]).toEqual([[], 0, ['Cannot write: the disk is full']])
  full = false
  await vi.advanceTimersByTimeAsync(1000)
  await one.settled(keeper)
  expect([stored(), store.events.lastOf(keeper)]).toEqual([['one', 'two', 'three'], 3])
})

test('one source that waits does not hold another back', async () => {
  const other = newSession()
  one.take(keeper, [record(1, 'ended', { source: 'gate', n: 9 })])
  one.take(`keeper/${other}`, [{ ...record(1, 'hello'), session: other }])
  await one.settled(`keeper/${other}`)
  expect([stored(), stored(other)]).toEqual([[], ['hello']])
})

test('a malformed event becomes a notice, so that numbers have no gap', async () => {
  one.take(keeper, [
    { ...record(1, ''), type: 'no.such.type', body: {} },
    { ...record(2, ''), type: 'text', body: { text: 7 } },
    { ...record(3, ''), type: '__proto__', body: null },
    record(4, 'fine'),
  ])
  await one.settled(keeper)
  expect(stored()).toEqual([
    'An event of type "no.such.type" could not be read',
    'An event of type "text" could not be read',
    'An event of type "__proto__" could not be read',
    'fine',
  ])
  expect(store.events.lastOf(keeper)).toBe(4)
})

test('a keeper that speaks for another session is not believed', async () => {
  const other = newSession()
  one.take(keeper, [{ ...record(1, 'I am another'), session: other }, record(2, 'mine')])
  await one.settled(keeper)
  expect([stored(other), stored()]).toEqual([[], ['mine']])
  expect(said).toEqual([expect.stringContaining('spoke for')])
})

test('attach() takes what the source has that is not stored, and acknowledges it', async () => {
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  const trimmed = vi.fn(outbox.trim)
  for (const word of ['one', 'two', 'three']) outbox.append(session, notice(word))
  await outbox.flush()
  one.take(keeper, [record(1, 'one')])
  await one.settled(keeper)
  const socketPath = join(folder, 's')
  await using _ = await listenAsSource({
    socketPath,
    source: keeper,
    outbox: { ...outbox, last: 3, trim: trimmed },
    handle: async () => null,
  })
  const attachment = await one.attach(keeper, socketPath, () => {})
  await vi.waitFor(() => expect(trimmed).toHaveBeenLastCalledWith(3))
  expect(stored()).toEqual(['one', 'two', 'three'])
  attachment.close()
})

test('attach() shows what a keeper says live of its own session only, and what the gate says of any', async () => {
  const other = newSession()
  const frame: LiveFrame = { type: 'text.delta', block: 'b', offset: 0, text: 'x', parent: null }
  const shown: (readonly [SourceName, SessionId])[] = []
  let speaker: SourceName = keeper
  const mine = hub()
  one = sources({
    store,
    hub: { ...mine, live: (about) => void shown.push([speaker, about]) },
    log: (message) => void said.push(message),
  })
  for (speaker of [keeper, 'gate']) {
    const socketPath = join(folder, speaker === 'gate' ? 'g' : 'k')
    const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
    await using far = await listenAsSource({ socketPath, source: speaker, outbox, handle: async () => null })
    const attachment = await one.attach(speaker, socketPath, () => {})
    for (const about of [other, session]) far.live(about, frame)
    // They come in order, so the other one was heard when this one was.
    await vi.waitFor(() => expect(shown).toContainEqual([speaker, session]))
    attachment.close()
  }
  expect(shown).toEqual([
    [keeper, session],
    ['gate', other],
    ['gate', session],
  ])
})

test('attach() refuses the keeper of another session, and takes nothing of it', async () => {
  const other = newSession()
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  outbox.append(other, notice('of the other'))
  await outbox.flush()
  const socketPath = join(folder, 's')
  await using _ = await listenAsSource({ socketPath, source: `keeper/${other}`, outbox, handle: async () => null })
  await expect(one.attach(keeper, socketPath, () => {})).rejects.toMatchObject({ code: 'keeper_unavailable' })
  one.flush()
  expect([stored(), stored(other), store.events.lastOf(keeper)]).toEqual([[], [], 0])
})

test('attach() tells of a source that starts over, and takes what it has to tell from then on', async () => {
  one.take(keeper, [record(1, 'one'), record(2, 'two'), record(3, 'three')])
  await one.settled(keeper)
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  outbox.append(session, notice('anew'))
  await outbox.flush()
  const socketPath = join(folder, 's')
  await using _ = await listenAsSource({ socketPath, source: keeper, outbox, handle: async () => null })
  const attachment = await one.attach(keeper, socketPath, () => {})
  const lost = expect.stringContaining('they end at 1, and 3 are stored') as string
  await vi.waitFor(() => expect(stored()).toEqual(['one', 'two', 'three', lost, 'anew']))
  expect([store.events.lastOf(keeper), said]).toEqual([4, [lost]])
  attachment.close()
  // From here on all is as it should be.
  ;(await one.attach(keeper, socketPath, () => {})).close()
  expect(said).toHaveLength(1)
})

test('attach() tells everybody who has an agent at work of a gate that starts over', async () => {
  const resting = newSession()
  store.events.append(session, 'daemon', [{ n: null, at: 0, event: keeperStarted }])
  one.take('gate', [record(1, 'one'), record(2, 'two')])
  await one.settled('gate')
  const socketPath = join(folder, 's')
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 0 })
  await using _ = await listenAsSource({ socketPath, source: 'gate', outbox, handle: async () => null })
  ;(await one.attach('gate', socketPath, () => {})).close()
  expect(stored().at(-1)).toContain('The gate has lost its records')
  expect(stored(resting)).toEqual([])
})

test('attach() fails, and nothing else does, when the other end closes before it said who it is', async () => {
  const socketPath = join(folder, 's')
  const server = createServer((socket) => socket.destroy())
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  const closed = vi.fn()
  await expect(one.attach(keeper, socketPath, closed)).rejects.toMatchObject({ code: 'keeper_unavailable' })
  expect(closed).toHaveBeenCalledOnce()
  server.close()
})

test('take() stores of a source what is theirs to tell, and says so in the place of the rest', () => {
  const tell = (n: number, { type, body }: NewEvent): OutboxRecord => ({ n, at: 0, session, type, body })
  const answer = (decision: 'allow' | 'withdrawn'): NewEvent => ({
    type: 'request.answered',
    body: { id: newRequestId(randomBytes), answer: { decision }, actor: 'owner', door: 'http' },
  })
  const raised: NewEvent = { type: 'session.changed', body: { budget_nanos: null, actor: 'owner', door: 'http' } }
  one.take(
    keeper,
    [raised, answer('allow'), keeperStarted].map((event, index) => tell(index + 1, event)),
  )
  one.take(
    'gate',
    [raised, answer('allow'), keeperStarted, notice('mine')].map((event, index) => tell(index + 1, event)),
  )
  one.flush()
  const refused = (type: string) => `An event of type "${type}" could not be read`
  expect(stored()).toEqual([
    ...[refused('session.changed'), refused('request.answered'), 'keeper.started', 'session.state'],
    ...[refused('session.changed'), refused('request.answered'), refused('keeper.started'), 'mine'],
  ])
})
