import type { Event, LiveFrame } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { EventSourceParserStream } from 'eventsource-parser/stream'

/** One thing that came over the stream. */
export type Heard = { readonly event: Event } | { readonly session: SessionId; readonly live: LiveFrame }

export type StreamState = 'connecting' | 'live' | 'lost' | 'logged_out'

export type StreamOptions = {
  /** The last event of the house that is known already, asked for anew at each try until it is known. */
  readonly start: (signal: AbortSignal) => Promise<number>
  /** Before each later connection, which is made only if this resolves: somebody else may have logged in meanwhile. */
  readonly goOn: (signal: AbortSignal) => Promise<void>
  readonly open: (after: number, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>
  readonly isLoggedOut: (error: unknown) => boolean
  /** Called with all that came in one piece, in order. */
  readonly hear: (heard: readonly Heard[]) => void
  readonly tell: (state: StreamState) => void
  /** Resolves when this page may hold a connection: a browser has few of them for all its tabs. */
  readonly turn: () => Promise<void>
  /** Resolves after so long, or earlier when it is worth trying again at once. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>
}

export interface Stream {
  /** The network or the page has come back: whatever the connection seems to be, make another one. */
  refresh(): void
}

/** The daemon says something every five seconds, so a stream that is silent for longer is dead, whatever the socket says. */
const silentMs = 12_000
/** Who looks at the page is caught up soon after the daemon is back: trying costs little where nobody answers. */
const backoffMs = { first: 250, most: 1000 } as const
/** How long news are gathered before the page is told: often enough to look continuous. */
const gatherMs = 40

/** Follows everything that happens in the house, for good: after each loss it goes on behind the last event that it heard.
 *  Invariant: each stored event is heard once and in order, whatever happens to the connection. */
export function follow(options: StreamOptions, signal: AbortSignal): Stream {
  let cursor: number | null = null
  let connection = new AbortController()
  let failures = 0

  void (async () => {
    options.tell('connecting')
    for (;;) {
      await options.turn()
      if (signal.aborted) return
      connection = new AbortController()
      const end = AbortSignal.any([signal, connection.signal])
      try {
        const soon = AbortSignal.any([end, AbortSignal.timeout(silentMs)])
        if (cursor === null) cursor = await options.start(soon)
        else await options.goOn(soon)
        await read(end)
      } catch (error) {
        if (signal.aborted) return
        if (options.isLoggedOut(error)) {
          options.tell('logged_out')
          return
        }
      }
      connection.abort()
      if (signal.aborted) return
      options.tell('lost')
      await options.wait(Math.min(backoffMs.most, backoffMs.first * 2 ** failures++), signal)
    }
  })()

  async function read(end: AbortSignal): Promise<void> {
    let watchdog = setTimeout(() => connection.abort(), silentMs)
    const alive = () => {
      clearTimeout(watchdog)
      watchdog = setTimeout(() => connection.abort(), silentMs)
    }
    let gathered: Heard[] = []
    let telling: ReturnType<typeof setTimeout> | undefined
    const tell = () => {
      clearTimeout(telling)
      telling = undefined
      const all = gathered
      gathered = []
      if (all.length > 0) options.hear(all)
    }
    try {
      const body = await options.open(cursor!, end)
      failures = 0
      options.tell('live')
      const decoder = new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>
      const parser = new EventSourceParserStream({ onComment: alive })
      const reader = body.pipeThrough(decoder, { signal: end }).pipeThrough(parser).getReader()
      for (;;) {
        const { done, value } = await reader.read()
        if (done) return
        alive()
        const heard = parseHeard(value.data)
        if ('event' in heard) {
          if (heard.event.pos <= cursor!) continue
          cursor = heard.event.pos
        }
        gathered.push(heard)
        telling ??= setTimeout(tell, gatherMs)
      }
    } finally {
      clearTimeout(watchdog)
      // What was counted as heard is told, also when the connection broke right behind it.
      tell()
    }
  }

  return {
    refresh() {
      failures = 0
      connection.abort()
    },
  }
}

/** What a frame of the stream says. Its kind may be one that this page does not know yet: whoever shows it decides what to do with it. */
export function parseHeard(data: string): Heard {
  const frame = JSON.parse(data) as Event | (LiveFrame & { readonly session: SessionId })
  // Only what is stored has a position.
  return 'pos' in frame ? { event: frame } : { session: frame.session, live: frame }
}
