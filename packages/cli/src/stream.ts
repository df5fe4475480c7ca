import type { Event, LiveFrame } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import { setTimeout as wait } from 'node:timers/promises'
import type { Daemon } from './daemon.ts'

export type Seen = { readonly event: Event } | { readonly live: LiveFrame }

/** Some three minutes of a daemon that is not there. */
const failuresMax = 100

const live = new Set(['text.delta', 'thinking.delta', 'tool.progress'])

/** Everything that happens in a session after a number, without a gap, also across restarts of the daemon. `find` gives the
 *  daemon anew when the connection was lost. */
export async function* watchSession(
  session: SessionId,
  after: number,
  find: () => Promise<Daemon | null>,
  signal: AbortSignal,
): AsyncGenerator<Seen> {
  const { openStream } = await import('@anchorhold/protocol/client')
  let cursor = after
  let daemon = await find()
  let failures = 0
  while (!signal.aborted) {
    try {
      if (daemon === null) throw new Error('It is away')
      const body = await openStream(
        daemon.options,
        'sessionEvents',
        { params: { id: session }, query: { after: cursor } },
        signal,
      )
      const decoder = new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>
      for await (const message of body.pipeThrough(decoder).pipeThrough(new EventSourceParserStream())) {
        failures = 0
        const data = JSON.parse(message.data) as unknown
        if (live.has(message.event ?? '')) yield { live: data as LiveFrame }
        else {
          const event = data as Event
          cursor = event.seq
          yield { event }
        }
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Error && error.name === 'Failure') throw error
      if (++failures > failuresMax)
        throw new Failure('unauthenticated', 'The daemon does not answer any more; the agent may go on without it', {
          hint: `Start it with: anchorhold up --detach, then: anchorhold watch ${session}`,
        })
    }
    if (signal.aborted) return
    await wait(Math.min(2000, 100 * failures + 50))
    daemon = await find()
  }
}
