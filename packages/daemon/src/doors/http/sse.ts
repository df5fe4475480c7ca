import type { Seen } from '../../hub.ts'

const heartbeatMs = 15_000
/** A reader that takes nothing for so long is cut off; it comes back with the number it has. */
const stalledMs = 60_000
/** What is read ahead of the reader. */
const waitingBytesMax = 64 * 1024

/** Why a stream ends when its reader has closed the connection. */
export const readerGone = 'The reader is gone'

/** Writes what a watcher sees as server-sent events: stored ones carry their number as id, live frames carry none. */
export function eventStream(
  seen: AsyncIterable<Seen>,
  idOf: (event: { seq: number; pos: number }) => number,
  end: AbortController,
): Response {
  const encoder = new TextEncoder()
  const iterator = seen[Symbol.asyncIterator]()
  let timer: NodeJS.Timeout
  let stalled: NodeJS.Timeout | undefined
  const still = () => {
    clearInterval(timer)
    clearTimeout(stalled)
  }
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controller.enqueue(encoder.encode(': anchorhold\n\n'))
        timer = setInterval(() => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(': still here\n\n'))
          else stalled ??= setTimeout(() => end.abort(), stalledMs)
        }, heartbeatMs)
        // Also for a reader that takes nothing: what waits for it is let go, and its connection ends.
        end.signal.addEventListener('abort', () => {
          still()
          // A reader that went by itself needs no telling.
          if (end.signal.reason !== readerGone) controller.error(new Error('The stream was ended'))
        })
      },
      // Called only when the reader has room: a slow one lags in the log, and holds little memory here.
      async pull(controller) {
        clearTimeout(stalled)
        stalled = undefined
        try {
          const { value, done } = await iterator.next()
          if (end.signal.aborted) return
          if (done !== true) return controller.enqueue(encoder.encode(frame(value, idOf)))
          controller.close()
          still()
        } catch (error) {
          still()
          throw error
        }
      },
      async cancel() {
        still()
        end.abort(readerGone)
        await iterator.return?.()
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: waitingBytesMax }),
  )
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
  })
}

function frame(seen: Seen, idOf: (event: { seq: number; pos: number }) => number): string {
  return 'event' in seen
    ? `id: ${idOf(seen.event)}\nevent: ${seen.event.type}\ndata: ${JSON.stringify(seen.event)}\n\n`
    : `event: ${seen.live.type}\ndata: ${JSON.stringify({ session: seen.session, ...seen.live })}\n\n`
}
