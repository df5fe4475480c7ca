import type { SessionId } from '@anchorhold/protocol/ids'
import { afterEach, expect, test, vi } from 'vitest'
import { ownerPlace } from './hands.ts'
import { house } from './house.ts'

const session = 'ses_0000000000000001' as SessionId

/** A tab of a browser whose login is `state.user`; the daemon ends each stream when it is told to. */
function tab() {
  const state = { user: 'ann', room: true, streams: true, log: 'the same' }
  const notices = new Set<string>()
  const kept = new Map<string, string>()
  const window = new EventTarget()
  const reload = vi.fn<() => void>()
  const sent: string[] = []
  const streams: ReadableStreamDefaultController[] = []
  vi.stubGlobal('localStorage', {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem(name: string, value: string) {
      if (!state.room) throw new DOMException('full', 'QuotaExceededError')
      kept.set(name, value)
    },
    removeItem: (name: string) => void kept.delete(name),
    key: (index: number) => [...kept.keys()][index] ?? null,
    get length() {
      return kept.size
    },
  })
  vi.stubGlobal('addEventListener', window.addEventListener.bind(window))
  vi.stubGlobal('document', Object.assign(new EventTarget(), { visibilityState: 'visible' }))
  const getNotifications = () => Promise.resolve([...notices].map((tag) => ({ tag, close: () => void notices.delete(tag) })))
  const getRegistration = () => Promise.resolve({ getNotifications })
  vi.stubGlobal('navigator', { onLine: true, serviceWorker: { getRegistration } })
  vi.stubGlobal('location', { reload })
  vi.stubGlobal('fetch', (url: string, { method, headers = {} }: { method: string; headers?: Record<string, string> }) => {
    if ('accept' in headers && !state.streams) return Promise.reject(new TypeError('Failed to fetch'))
    const ahead = { error: { code: 'conflict', message: 'Nothing is known up to event 9' } }
    if ('accept' in headers && state.log === 'another') return Promise.resolve(Response.json(ahead, { status: 409 }))
    if ('accept' in headers) return Promise.resolve(new Response(new ReadableStream({ start: (one) => void streams.push(one) })))
    if (method === 'POST') sent.push(url)
    const said = url.endsWith('/whoami') ? { user: { id: state.user } } : { events: [], id: 'prm_1' }
    return Promise.resolve(Response.json(said))
  })
  const made = house()
  made.goLive()
  const stored = (key: string, newValue: string | null) =>
    window.dispatchEvent(Object.assign(new Event('storage'), { key, newValue }))
  return { ...made, state, kept, notices, reload, sent, streams, window, stored }
}

afterEach(() => void vi.unstubAllGlobals())

test('house() opens the page anew when somebody else is logged in after a lost connection, and sends them nothing', async () => {
  const { connection, outbox, state, reload, sent, streams, window } = tab()
  await expect.poll(connection).toBe('live')
  state.user = 'bob'
  window.dispatchEvent(new Event('online'))
  outbox.add(session, 'hello', 'steer')
  await expect.poll(() => reload.mock.calls.length).toBe(1)
  expect(streams).toHaveLength(1)
  expect(sent).toEqual([])
})

test('house() goes on after a lost connection for who was there before', async () => {
  const { connection, outbox, reload, sent, streams, window } = tab()
  await expect.poll(connection).toBe('live')
  window.dispatchEvent(new Event('online'))
  await expect.poll(() => streams.length).toBe(2)
  outbox.add(session, 'hello', 'steer')
  await expect.poll(() => sent.length).toBe(1)
  expect(reload).not.toHaveBeenCalled()
})

test('house() opens the page anew when the daemon has another log than before', async () => {
  const { connection, state, reload, window } = tab()
  await expect.poll(connection).toBe('live')
  state.log = 'another'
  window.dispatchEvent(new Event('online'))
  await expect.poll(() => reload.mock.calls.length).toBe(1)
})

test('house() sends what was written while nobody was known also where no stream gets through', async () => {
  const { connection, outbox, state, sent, window } = tab()
  await expect.poll(connection).toBe('live')
  state.streams = false
  window.dispatchEvent(new Event('online'))
  outbox.add(session, 'hello', 'steer')
  expect(sent).toEqual([])
  await expect.poll(() => sent.length).toBe(1)
})

test('house() opens the page anew when another tab gives the device to somebody else', async () => {
  const { connection, kept, reload, stored } = tab()
  await expect.poll(connection).toBe('live')
  expect(kept.get(ownerPlace)).toBe('ann')
  stored(ownerPlace, 'ann')
  expect(reload).not.toHaveBeenCalled()
  stored(ownerPlace, 'bob')
  expect(reload).toHaveBeenCalledOnce()
})

test('house() takes back at a logout what the device was told, and what it had no room to keep', async () => {
  const { connection, forget, outbox, drafts, state, notices } = tab()
  await expect.poll(connection).toBe('live')
  for (const tag of ['req_1', session]) notices.add(tag)
  state.room = false
  outbox.add(session, 'hello', 'steer')
  drafts.write(session, 'half')
  forget()
  await expect.poll(() => notices.size).toBe(0)
  expect([outbox.list(), drafts.read(session)]).toEqual([[], ''])
})

test('house() takes back what somebody else was told whose login ended before the page was opened', async () => {
  const { connection, kept, notices, goLive } = tab()
  kept.set(ownerPlace, 'bob')
  notices.add('req_1')
  goLive()
  await expect.poll(connection).toBe('live')
  await expect.poll(() => notices.size).toBe(0)
})
