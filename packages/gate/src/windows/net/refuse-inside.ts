import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Target } from '@anchorhold/core/net/target'
import { beginning, type NextBytes, notFor } from './first-bytes.ts'
import { openTls } from './open-tls.ts'
import type { Refusal } from './refusals.ts'
import type { SessionCa } from './session-ca.ts'

/** Connections whose client was told that it is connected, so that it reads the refusal as the answer of its own server.
 *  Invariant: nothing is dialled for them, and whatever is asked in one is answered with its refusal. */
export type RefusedInside = {
  /** Speaks TLS in the server's place; null when the client does not, and its connection is gone then. */
  open(client: Duplex, first: NextBytes, refused: Place, signal: AbortSignal): Promise<Socket | null>
  /** Whether this came over such a connection, and was answered. */
  hasAnswered(request: IncomingMessage, answer: (refusal: Refusal) => void): boolean
}
type Place = { readonly target: Target; readonly refusal: Refusal }

export function refusedInside(ca: SessionCa): RefusedInside {
  const refusals = new WeakMap<object, Refusal>()
  return {
    async open(client, first, { target, refusal }, signal) {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      const begun = await beginning(first, signal)
      if (typeof begun === 'string' || notFor(target, begun.tls) !== null) {
        client.destroy()
        return null
      }
      const context = await ca.contextFor(target)
      first.release()
      const secure = await openTls(client as Socket, context, signal)
      if (secure !== null) refusals.set(secure, refusal)
      return secure
    },
    hasAnswered({ socket }, answer) {
      const refusal = refusals.get(socket)
      if (refusal === undefined) return false
      answer(refusal)
      return true
    },
  }
}

/** Whether a client shows the words of a refused CONNECT itself. Python's does (and pip shows no other answer than that one), and so does
 *  our own for SOCKS: they are known by sending nothing but a Host. Of most others nobody would learn why. */
export const showsRefusedConnect = ({ rawHeaders }: IncomingMessage): boolean =>
  rawHeaders.every((part, at) => at % 2 === 1 || part.toLowerCase() === 'host')
