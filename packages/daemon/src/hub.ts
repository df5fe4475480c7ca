import { type OpenBlocks, openBlocks } from '@anchorhold/core/open-blocks'
import type { Event, LiveFrame } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { setImmediate as immediate } from 'node:timers/promises'

/** What a watcher sees: stored events in order, and between them what is being said right now. */
export type Seen = { readonly event: Event } | { readonly session: SessionId; readonly live: LiveFrame }

/** Tells watchers that there is something new. Stored events are not queued here: a watcher reads them from the log when
 *  it is ready for them, so that a slow one costs nothing. */
export interface Hub {
  /** Their transaction is committed. */
  stored(events: readonly Event[]): void
  /** Tells of every event that is stored from here on. */
  listen(heard: (events: readonly Event[]) => void): void
  live(session: SessionId, frame: LiveFrame): void
  /** What the session's agent is saying and has not finished. */
  saying(session: SessionId): readonly LiveFrame[]
  watch(options: WatchOptions): AsyncIterable<Seen>
}

export type WatchOptions = {
  /** Null for all sessions. */
  readonly session: SessionId | null
  /** `seq` of the session, or `pos` over all. */
  readonly after: number
  readonly read: (after: number, limit: number) => readonly Event[]
  /** Over all sessions: the last event that there is, whether `read` gives it or not. What it passes over is not looked at again. */
  readonly end?: () => number
  readonly signal: AbortSignal
}

const pageSize = 500
const liveFramesMax = 2000

/** A frame, and the last stored event before it. */
type Frame = { readonly session: SessionId; readonly live: LiveFrame; readonly pos: number }
type Watcher = {
  readonly session: SessionId | null
  readonly frames: Frame[]
  /** Whether something was stored since it looked. */
  isBehind: boolean
  wake: () => void
}

/** `lastPos` is the last event that is stored already. */
export function hub(lastPos = 0): Hub {
  const watchers = new Set<Watcher>()
  const listeners = new Set<(events: readonly Event[]) => void>()
  /** What each session's open blocks hold so far, for those who begin to watch in the middle of one. */
  const open = new Map<SessionId, OpenBlocks>()

  const wake = (session: SessionId) => {
    for (const watcher of watchers) {
      if (watcher.session !== null && watcher.session !== session) continue
      watcher.isBehind = true
      watcher.wake()
    }
  }

  return {
    stored(events) {
      for (const event of events) {
        lastPos = event.pos
        const blocks = open.get(event.session)
        blocks?.stored(event)
        if (blocks?.frames().length === 0) open.delete(event.session)
      }
      for (const session of new Set(events.map((event) => event.session))) wake(session)
      for (const heard of listeners) heard(events)
    },
    listen: (heard) => void listeners.add(heard),
    live(session, frame) {
      if (frame.type !== 'tool.progress') {
        const blocks = open.get(session) ?? openBlocks()
        open.set(session, blocks)
        blocks.live(frame)
      }
      for (const watcher of watchers) {
        if (watcher.session !== null && watcher.session !== session) continue
        // Who lags so far gets the finished block instead.
        if (watcher.frames.length >= liveFramesMax) watcher.frames.length = 0
        watcher.frames.push({ session, live: frame, pos: lastPos })
        watcher.wake()
      }
    },
    saying: (session) => open.get(session)?.frames() ?? [],
    async *watch({ session, after, read, end, signal }) {
      let cursor = after
      let waiting = Promise.withResolvers<void>()
      const watcher: Watcher = { session, frames: [], isBehind: true, wake: () => waiting.resolve() }
      const stop = () => waiting.resolve()
      signal.addEventListener('abort', stop, { once: true })
      watchers.add(watcher)
      for (const [owner, blocks] of open) {
        if (session !== null && owner !== session) continue
        for (const live of blocks.frames()) watcher.frames.push({ session: owner, live, pos: lastPos })
      }
      try {
        while (!signal.aborted) {
          waiting = Promise.withResolvers<void>()
          // What is only being said is in no log.
          const passed = watcher.isBehind ? end?.() : undefined
          const page = watcher.isBehind ? read(cursor, pageSize) : []
          watcher.isBehind = page.length === pageSize
          for (const event of page) {
            // What was said before an event was stored is shown before it.
            while (watcher.frames.length > 0 && watcher.frames[0]!.pos < event.pos) yield watcher.frames.shift()!
            cursor = session === null ? event.pos : event.seq
            yield { event }
            if (signal.aborted) return
          }
          if (page.length === pageSize) {
            // Who reads as fast as it comes is not alone.
            await immediate()
            continue
          }
          if (passed !== undefined) cursor = Math.max(cursor, passed)
          const shown = page.at(-1)?.pos ?? lastPos
          // What was said after an event of another session has nothing to wait for here.
          const mayShow = ({ pos }: Frame) => pos <= shown || !watcher.isBehind
          while (watcher.frames.length > 0 && mayShow(watcher.frames[0]!)) yield watcher.frames.shift()!
          if (watcher.frames.length === 0) await waiting.promise
        }
      } finally {
        watchers.delete(watcher)
        signal.removeEventListener('abort', stop)
      }
    },
  }
}
