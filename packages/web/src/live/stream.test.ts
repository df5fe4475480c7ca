import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { follow, type Heard, parseHeard, type StreamState } from './stream.ts'

const session = 'ses_0000000000000001' as SessionId
const event = (pos: number): Event => ({
  pos,
  seq: pos,
  session,
  at: pos,
  type: 'notice',
  body: { level: 'info', code: 'test', message: String(pos) },
})
const frame = (one: Event) => `id: ${one.pos}\nevent: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`
const body = (text: string) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text))
      controller.close()
    },
  })

/** A daemon that has so many events and gives as many of them at a time as it is told to, then breaks off in the middle of a frame. */
function brokenDaemon(total: number, perConnection: (n: number) => number) {
  const asked: number[] = []
  return {
    asked,
    open(after: number) {
      asked.push(after)
      const give = perConnection(asked.length)
      if (give === 0) return Promise.reject(new TypeError('Failed to fetch'))
      const events = Array.from({ length: Math.min(give, total - after) }, (_, index) => event(after + 1 + index))
      const next = after + events.length < total ? frame(event(after + events.length + 1)).slice(0, -20) : ''
      // The last event is sent twice, as one that came again would be.
      const again = events.length > 0 ? frame(events.at(-1)!) : ''
      return Promise.resolve(body(events.map(frame).join('') + again + next))
    },
  }
}

test('follow() hears every event once and in order over any number of broken connections', async () => {
  const total = 500
  const daemon = brokenDaemon(total, (n) => (n * 7919) % 13)
  const heard: number[] = []
  const states: StreamState[] = []
  const end = new AbortController()
  await new Promise<void>((resolve) => {
    follow(
      {
        start: () => Promise.resolve(0),
        goOn: () => Promise.resolve(),
        open: daemon.open,
        isLoggedOut: () => false,
        hear(list) {
          for (const one of list) if ('event' in one) heard.push(one.event.pos)
          if (heard.length >= total) resolve()
        },
        tell: (state) => void states.push(state),
        turn: () => Promise.resolve(),
        wait: () => Promise.resolve(),
      },
      end.signal,
    )
  })
  end.abort()
  expect(heard).toEqual(Array.from({ length: total }, (_, index) => index + 1))
  expect(daemon.asked.length).toBeGreaterThan(50)
  expect(states[0]).toBe('connecting')
  expect(new Set(states)).toEqual(new Set(['connecting', 'live', 'lost']))
})

test('follow() stops for good when the login is gone', async () => {
  const states: StreamState[] = []
  await new Promise<void>((resolve) => {
    follow(
      {
        start: () => Promise.reject(new Error('401')),
        goOn: () => Promise.resolve(),
        open: () => Promise.reject(new Error('never')),
        isLoggedOut: (error) => error instanceof Error && error.message === '401',
        hear: () => {},
        tell(state) {
          states.push(state)
          if (state === 'logged_out') resolve()
        },
        turn: () => Promise.resolve(),
        wait: () => Promise.resolve(),
      },
      new AbortController().signal,
    )
  })
  expect(states).toEqual(['connecting', 'logged_out'])
})

test('follow() goes on where it was when it is told to connect anew', async () => {
  const opened: number[] = []
  const end = new AbortController()
  const heard: Heard[] = []
  await new Promise<void>((resolve) => {
    const stream = follow(
      {
        start: () => Promise.resolve(41),
        goOn: () => Promise.resolve(),
        // It stays open and says nothing after its first event, as a socket does that nobody is at the other end of.
        open(after, signal) {
          opened.push(after)
          if (opened.length === 2) resolve()
          return Promise.resolve(
            new ReadableStream<Uint8Array>({
              start(controller) {
                controller.enqueue(new TextEncoder().encode(frame(event(after + 1))))
                signal.addEventListener('abort', () => controller.error(new Error('aborted')))
              },
            }),
          )
        },
        isLoggedOut: () => false,
        hear(list) {
          heard.push(...list)
          stream.refresh()
        },
        tell: () => {},
        turn: () => Promise.resolve(),
        wait: () => Promise.resolve(),
      },
      end.signal,
    )
  })
  end.abort()
  expect(opened).toEqual([41, 42])
})

test('follow() asks before each later connection whether it may go on, and makes none when it may not', async () => {
  const asked: string[] = []
  const end = new AbortController()
  await new Promise<void>((resolve) => {
    const over = () => {
      end.abort()
      resolve()
    }
    follow(
      {
        start: () => Promise.resolve(0),
        goOn() {
          asked.push('go on?')
          if (asked.length < 4) return Promise.resolve()
          setTimeout(over)
          return Promise.reject(new Error('somebody else'))
        },
        open(after) {
          asked.push(`open ${after}`)
          if (after === 2) over()
          return Promise.resolve(body(frame(event(after + 1))))
        },
        isLoggedOut: () => false,
        hear: () => {},
        tell: () => {},
        turn: () => Promise.resolve(),
        wait: () => new Promise((soon) => setTimeout(soon, 5)),
      },
      end.signal,
    )
  })
  expect(asked).toEqual(['open 0', 'go on?', 'open 1', 'go on?'])
})

test('parseHeard() tells what is stored, of whatever kind, from what is only being said', () => {
  const future = { pos: 7, seq: 3, session, at: 1, type: 'future.event', body: {} }
  expect(parseHeard(JSON.stringify(future))).toEqual({ event: future })
  const delta = { session, type: 'text.delta', block: 'b', offset: 0, text: 'x' }
  expect(parseHeard(JSON.stringify(delta))).toEqual({ session, live: delta })
})
