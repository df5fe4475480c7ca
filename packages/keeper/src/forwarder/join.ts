import type { Socket } from 'node:net'

/** Carries what comes from one connection to the other. */
export function join(from: Socket, to: Socket): void {
  from.pipe(to)
  from.once('error', () => to.destroy())
  // What it has sent is under way; one that ended without a word ends the other.
  from.once('close', () => to.destroySoon())
}
