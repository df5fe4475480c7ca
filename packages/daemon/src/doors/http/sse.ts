import type { ServerResponse } from 'node:http'
import type { Seen } from '../../hub.ts'
import { drained } from './drained.ts'
import { type Reply, reply } from './reply.ts'

/** Whoever hears nothing for twice as long knows that the connection is dead, and says so to the person who looks at it. */
const heartbeatMs = 5000

const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' } as const

/** What a watcher sees as server-sent events: stored ones carry their number as id, live frames carry none. The watcher is asked
 *  for more only when the reader has taken what was written: a slow one lags in the log, and holds little memory here. */
export function eventStream(
  seen: AsyncIterable<Seen>,
  idOf: (event: { seq: number; pos: number }) => number,
  end: AbortController,
): Reply {
  return reply({ headers, pour: (response) => void pour(response) })

  async function pour(response: ServerResponse): Promise<void> {
    const cutOff = () => response.destroy()
    // Also for a reader that takes nothing: what waits for it is let go, and its connection ends.
    end.signal.addEventListener('abort', cutOff, { once: true })
    const heartbeat = setInterval(() => {
      if (!response.writableNeedDrain) response.write(': still here\n\n')
    }, heartbeatMs)
    try {
      response.write(': anchorhold\n\n')
      for await (const one of seen) {
        if (end.signal.aborted) break
        if (!response.write(frame(one, idOf))) await drained(response, end)
      }
    } catch {
      end.abort()
    } finally {
      clearInterval(heartbeat)
      end.signal.removeEventListener('abort', cutOff)
      response.end()
    }
  }
}

const openEndMs = 15_000

/** One message, and then nothing for a while: who gets it has a connection that holds nothing back. */
export function openEnd(data: string, signal: AbortSignal): Reply {
  return reply({
    headers,
    pour(response) {
      response.write(`data: ${data}\n\n`)
      const timer = setTimeout(() => response.end(), openEndMs)
      signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
    },
  })
}

function frame(seen: Seen, idOf: (event: { seq: number; pos: number }) => number): string {
  return 'event' in seen
    ? `id: ${idOf(seen.event)}\nevent: ${seen.event.type}\ndata: ${JSON.stringify(seen.event)}\n\n`
    : `event: ${seen.live.type}\ndata: ${JSON.stringify({ session: seen.session, ...seen.live })}\n\n`
}
