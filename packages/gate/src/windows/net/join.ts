import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { pour } from './pour.ts'

/** How long a client that was told the last word may take to go. */
const lingerMs = 2000

/** Joins two connections, each no faster than the other takes it, until both sides have ended or one is gone. */
export function join(client: Duplex, upstream: Socket): void {
  carry(client, upstream)
  carry(upstream, client)
}

/** Carries what comes from one connection to the other. */
export function carry(from: Duplex, to: Duplex): void {
  pour(from, to)
  from.on('error', () => {})
  from.once('close', () => {
    // What it still owes the other is under way; nothing more comes.
    if (to.writableFinished || to.errored !== null) to.destroy()
    else to.once('finish', () => to.destroy()).end()
  })
}

/** Says a last word. What the client still sends is let go, so that it reads this before its connection is gone. */
export function sayLast(client: Duplex, words: string | Buffer): void {
  const destroy = () => client.destroy()
  client.resume()
  client.once('end', () => (client.writableFinished ? destroy() : client.once('finish', destroy)))
  setTimeout(destroy, lingerMs).unref()
  client.end(words)
}
