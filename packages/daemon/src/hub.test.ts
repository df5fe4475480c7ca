import type { Event, LiveFrame, NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { hub, type Hub, type Seen } from './hub.ts'

const session = 'ses_0000000000000000' as SessionId
const other = 'ses_0000000000000001' as SessionId

/** A log in memory with a hub over it, as the daemon has them. */
function log() {
  const events: Event[] = []
  const one: Hub = hub()
  const watchOf = (of: SessionId | null, after: number, signal: AbortSignal) => {
    const mine = (event: Event, from: number) => (of === null ? event.pos > from : event.session === of && event.seq > from)
    const read = (from: number, limit: number) => events.filter((event) => mine(event, from)).slice(0, limit)
    return one.watch({ session: of, after, read, signal })[Symbol.asyncIterator]()
  }
  const put = (of: SessionId, event: NewEvent) => {
    const seq = events.filter((each) => each.session === of).length + 1
    events.push({ pos: events.length + 1, seq, session: of, at: 0, ...event })
    one.stored(events.slice(-1))
  }
  return {
    store: (of: SessionId, block: string, text = '') => put(of, { type: 'text', body: { block, text } }),
    end: (of: SessionId) => put(of, { type: 'turn.ended', body: { reason: 'done', why: null, duration_ms: 0 } }),
    leave: (of: SessionId) => put(of, { type: 'keeper.left', body: { why: 'idle', failed: false } }),
    live: (of: SessionId, block: string, offset: number, text: string) =>
      one.live(of, { type: 'text.delta', block, offset, text } satisfies LiveFrame),
    watch: (of: SessionId | null = session, after = 0, signal = new AbortController().signal) => watchOf(of, after, signal),
  }
}
const word = (seen: Seen) =>
  'event' in seen ? `#${seen.event.seq}` : seen.live.type === 'text.delta' ? `${seen.live.offset}:${seen.live.text}` : ''
async function take(watcher: AsyncIterator<Seen>, count: number): Promise<string[]> {
  const words: string[] = []
  while (words.length < count) {
    const { value, done } = await watcher.next()
    if (done === true) break
    words.push(word(value))
  }
  return words
}

test('watch() shows stored events and what is said between them, in the order they happened', async () => {
  const { store, live, watch } = log()
  const watcher = watch()
  store(session, 'a')
  expect(await take(watcher, 1)).toEqual(['#1'])
  live(session, 'b', 0, 'Hel')
  live(session, 'b', 3, 'lo')
  store(session, 'b', 'Hello')
  live(session, 'c', 0, 'Next')
  store(session, 'c', 'Next')
  expect(await take(watcher, 5)).toEqual(['0:Hel', '3:lo', '#2', '0:Next', '#3'])
})

test('watch() reads the log when something was stored, not for what is only said, and nothing twice that it passed over', async () => {
  const one = hub()
  const events: Event[] = []
  const store = (of: SessionId) => {
    const pos = events.length + 1
    events.push({ pos, seq: pos, session: of, at: 0, type: 'text', body: { block: `b${pos}`, text: '' } })
    one.stored(events.slice(-1))
  }
  const asked: number[] = []
  const read = (after: number, limit: number) => {
    asked.push(after)
    return events.filter(({ pos, session: of }) => pos > after && of === session).slice(0, limit)
  }
  const { signal } = new AbortController()
  const watcher = one.watch({ session: null, after: 0, read, end: () => events.length, signal })[Symbol.asyncIterator]()
  store(session)
  store(other)
  expect(await take(watcher, 1)).toEqual(['#1'])
  for (let n = 0; n < 5; n++) {
    const next = take(watcher, 1)
    one.live(session, { type: 'text.delta', block: 'c', offset: n, text: 'x' })
    expect(await next).toEqual([`${n}:x`])
  }
  expect(asked).toEqual([0])
  const next = take(watcher, 1)
  store(session)
  expect(await next).toEqual(['#3'])
  expect(asked).toEqual([0, 2])
})

test('watch() resumes after the event that was seen last', async () => {
  const { store, watch } = log()
  for (let index = 0; index < 3; index++) store(session, 'a')
  expect(await take(watch(session, 2), 1)).toEqual(['#3'])
})

test('watch() reads a log of many pages to its end', async () => {
  const { store, watch } = log()
  for (let index = 0; index < 1200; index++) store(session, 'a')
  const words = await take(watch(), 1200)
  expect(words).toEqual(words.map((_, index) => `#${index + 1}`))
})

test('watch() gives who comes in the middle of a block all that was said of it, after the log', async () => {
  const { store, live, watch } = log()
  store(session, 'a')
  live(session, 'b', 0, 'Hel')
  live(session, 'b', 3, 'lo')
  expect(await take(watch(), 2)).toEqual(['#1', '0:Hello'])
})

test('watch() shows who comes later what the next turn began to say before the turn before it was stored as ended', async () => {
  const { live, end, watch } = log()
  live(session, 'b', 0, 'Hel')
  end(session)
  live(session, 'b', 3, 'lo')
  expect(await take(watch(), 2)).toEqual(['#1', '0:Hello'])
})

test('watch() shows no block again that is stored, or whose keeper has left', async () => {
  const { store, live, leave, watch } = log()
  live(session, 'b', 0, 'Hello')
  store(session, 'b', 'Hello')
  live(session, 'c', 0, 'cut')
  leave(session)
  const watcher = watch()
  expect(await take(watcher, 2)).toEqual(['#1', '#2'])
  store(session, 'd')
  expect(await take(watcher, 1)).toEqual(['#3'])
})

test('watch() of one session shows nothing of another, and watch() of all shows both', async () => {
  const { store, live, watch } = log()
  store(other, 'x')
  live(other, 'y', 0, 'not for you')
  store(session, 'a')
  const watcher = watch()
  expect(await take(watcher, 1)).toEqual(['#1'])
  store(session, 'b')
  expect(await take(watcher, 1)).toEqual(['#2'])
  expect(await take(watch(null), 4)).toEqual(['#1', '#1', '#2', '0:not for you'])
})

test('watch() drops what is being said for a watcher that lags, and never an event', async () => {
  const { store, live, watch } = log()
  const watcher = watch()
  store(session, 'a')
  expect(await take(watcher, 1)).toEqual(['#1'])
  for (let index = 0; index < 2500; index++) live(session, 'b', index, 'x')
  store(session, 'b', 'x'.repeat(2500))
  const words = await take(watcher, 501)
  expect(words[0]).toBe('2000:x')
  expect(words.at(-1)).toBe('#2')
})

test('watch() ends when it is aborted, waiting or not', async () => {
  const { store, watch } = log()
  const end = new AbortController()
  const watcher = watch(session, 0, end.signal)
  store(session, 'a')
  await watcher.next()
  const waiting = watcher.next()
  end.abort()
  expect((await waiting).done).toBe(true)
  expect((await watch(session, 0, AbortSignal.abort()).next()).done).toBe(true)
})

test('hub() that begins over a full log shows what is said after what is stored', async () => {
  const one = hub(7)
  one.live(session, { type: 'text.delta', block: 'b', offset: 0, text: 'now' })
  const stored: Event = { pos: 7, seq: 1, session, at: 0, type: 'text', body: { block: 'a', text: 'then' } }
  const read = (after: number) => (after === 0 ? [stored] : [])
  const watcher = one.watch({ session, after: 0, read, signal: new AbortController().signal })[Symbol.asyncIterator]()
  expect(await take(watcher, 2)).toEqual(['#1', '0:now'])
})
