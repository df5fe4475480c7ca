import { apiRoot } from '@anchorhold/protocol/api/addresses'
import type { Event } from '@anchorhold/protocol/events'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setImmediate as immediate } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import { createToken } from '../../app/people/access.ts'
import { createSession } from '../../app/sessions/create-session.ts'
import { owner, record } from '../../app/test-parts.ts'
import { testDoor } from './test-door.ts'

afterEach(() => vi.useRealTimers())

const seqs = (events: readonly Event[]) => events.map(({ seq }) => seq)

/** Somebody at the other end of a stream of events. */
async function watcher(port: number, path: string, token: string) {
  const headers = { host: 'localhost:7777', authorization: `Bearer ${token}`, accept: 'text/event-stream' }
  const [answer] = (await once(request({ port, path: `${apiRoot}${path}`, agent: false, headers }).end(), 'response')) as [
    IncomingMessage,
  ]
  /** Of all that arrived, what is whole. */
  const events: Event[] = []
  let rest = ''
  answer.setEncoding('utf8').on('data', (more: string) => {
    const frames = (rest + more).split('\n\n')
    rest = frames.pop()!
    for (const frame of frames) if (frame.startsWith('id: ')) events.push(JSON.parse(/^data: (.*)$/m.exec(frame)![1]!) as Event)
  })
  answer.on('error', () => {})
  return { answer, events }
}

test('a watcher that takes nothing is cut off after a minute and goes on from its last number without a gap; nobody else is delayed', async () => {
  await using door = await testDoor()
  const { parts, port } = door
  const { id } = await createSession(parts, owner, {})
  const { secret } = createToken(parts, owner, { name: 'watcher' })
  // Nobody waits for the minute; sockets and heartbeats are real.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const path = (after: number) => `/sessions/${id}/events?after=${after}`
  const [quick, stalled] = [await watcher(port, path(0), secret), await watcher(port, path(0), secret)]
  await vi.waitUntil(() => stalled.events.length > 0)
  stalled.answer.pause()
  // More than all buffers on the way hold.
  const message = 'x'.repeat(128 * 1024)
  const say = () => record(parts, id, { type: 'notice', body: { level: 'info', code: 'x', message } })
  for (let i = 0; i < 160; i++) {
    say()
    await immediate()
  }
  const all = parts.all(id)
  while (quick.events.length < all.length) await immediate()
  expect(seqs(quick.events)).toEqual(seqs(all))
  expect(stalled.answer.closed).toBe(false)

  await vi.advanceTimersByTimeAsync(60_000)
  vi.useRealTimers()
  stalled.answer.resume()
  if (!stalled.answer.closed) await new Promise((resolve) => stalled.answer.once('close', resolve))
  const had = stalled.events
  expect(seqs(had)).toEqual(seqs(all).slice(0, had.length))
  expect(had.length).toBeLessThan(all.length)
  say()
  const again = await watcher(port, path(had.at(-1)!.seq), secret)
  const now = parts.all(id)
  while (had.length + again.events.length < now.length) await immediate()
  expect(seqs([...had, ...again.events])).toEqual(seqs(now))
  // The other one is still there.
  while (quick.events.length < now.length) await immediate()
  expect(seqs(quick.events)).toEqual(seqs(now))
})
