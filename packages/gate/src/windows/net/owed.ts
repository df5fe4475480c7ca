import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/** What is owed to clients: they may send their next requests before they have an answer (apt sends ten). */
export type OwedAnswers = {
  /** False where a connection, or all of them together, want more at once than anybody does: the connection is ended. */
  add(client: Duplex, response: ServerResponse): boolean
  /** Whether a connection waits for answers, which so cannot become something else. */
  has(client: Duplex): boolean
}

/** Each may hold as much as headers may be long. */
const perClientMax = 16
const perWindowMax = 2048

export function owedAnswers(): OwedAnswers {
  const open = new WeakMap<Duplex, Set<ServerResponse>>()
  let all = 0

  function openTo(client: Duplex): Set<ServerResponse> {
    const known = open.get(client)
    if (known !== undefined) return known
    const its = new Set<ServerResponse>()
    open.set(client, its)
    client.once('close', () => setImmediate(() => its.forEach(abandon)))
    return its
  }

  return {
    add(client, response) {
      const its = openTo(client)
      if (its.size >= perClientMax || all >= perWindowMax) {
        client.destroy()
        return false
      }
      its.add(response)
      all++
      response.once('close', () => {
        its.delete(response)
        all--
      })
      return true
    },
    has: (client) => (open.get(client)?.size ?? 0) > 0,
  }
}

/** Node does not tell every answer whose turn had not come that its client has gone. */
function abandon(response: ServerResponse): void {
  if (response.closed) return
  response.destroy()
  response.emit('close')
}
