import type { Seen } from '../../hub.ts'

const heartbeatMs = 15_000
/** A reader that takes nothing for so long is cut off; it comes back with the number it has. */
const stalledMs = 60_000

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
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controller.enqueue(encoder.encode(': anchorhold\n\n'))
        timer = setInterval(() => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(': still here\n\n'))
          else stalled ??= setTimeout(() => end.abort(), stalledMs)
        }, heartbeatMs)
      },
      // Called only when the reader has room: a slow one lags in the log, and holds no memory here.
      async pull(controller) {
        clearTimeout(stalled)
        stalled = undefined
        const { value, done } = await iterator.next()
        if (done === true) {
          clearInterval(timer)
          controller.close()
        } else controller.enqueue(encoder.encode(frame(value, idOf)))
      },
      async cancel() {
        clearInterval(timer)
        clearTimeout(stalled)
        end.abort()
        await iterator.return?.()
      },
    },
    { highWaterMark: 64 },
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
