import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** A connection that carries nothing for so long is given up. */
const idleMs = 30 * 60 * 1000

/** Joins two connections, each no faster than the other takes it, until both sides have ended or one is gone. */
export function join(client: Duplex, upstream: Socket): void {
  for (const [one, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    one.pipe(other)
    one.on('error', () => {})
    one.once('close', () => {
      // What it still owes the other is under way; nothing more comes.
      if (other.writableFinished || other.errored !== null) other.destroy()
      else other.once('finish', () => other.destroy()).end()
    })
  }
  upstream.setTimeout(idleMs, () => upstream.destroy())
}

/** How long a client that was told the last word may take to go. */
const lingerMs = 2000

/** Says a last word. What the client still sends is let go, so that it reads this before its connection is gone. */
export function sayLast(client: Duplex, words: string | Buffer): void {
  const destroy = () => client.destroy()
  client.resume()
  client.once('end', () => (client.writableFinished ? destroy() : client.once('finish', destroy)))
  setTimeout(destroy, lingerMs).unref()
  client.end(words)
}
