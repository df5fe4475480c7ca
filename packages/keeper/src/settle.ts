import { type Clock, pause } from '@anchorhold/link/clock'
import { Settlement, settlePath } from '@anchorhold/protocol/link'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'

/** Longer than the gate waits for calls that outlive their turn. */
const settleMs = 10_000
/** How long a gate that died may take to be there again. */
const gateBackMs = 2000
const retryMs = 100

/** Asks the gate, on the session's own window, to settle what is open; null when it does not answer. */
export async function settle({
  socketPath,
  clock,
}: {
  readonly socketPath: string
  readonly clock: Clock
}): Promise<Settlement | null> {
  for (const end = clock.elapsed() + gateBackMs; ; await pause(clock, retryMs)) {
    const settled = await ask(socketPath)
    if (settled !== 'nobody listens') return settled
    if (clock.elapsed() >= end) return null
  }
}

function ask(socketPath: string): Promise<Settlement | null | 'nobody listens'> {
  return new Promise((resolve) => {
    const call = request({ socketPath, path: settlePath, method: 'POST', timeout: settleMs, agent: false }, (response) => {
      text(response)
        .then((body) => Settlement.parse(JSON.parse(body)))
        .then(resolve, () => resolve(null))
    })
    call.on('timeout', () => call.destroy())
    call.on('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED' ? 'nobody listens' : null))
    call.end()
  })
}
