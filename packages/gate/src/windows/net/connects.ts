import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connectTarget, hostTarget, isSameTarget, type Target } from '@anchorhold/core/net/target'
import { beginning, type NextBytes, nextBytes, notAgainFor, notFor, wantsItAgain } from './first-bytes.ts'
import { carry, join, sayLast } from './join.ts'
import { openTls } from './open-tls.ts'
import { nothing, type Refusal } from './refusals.ts'
import { type RefusedInside, showsRefusedConnect } from './refuse-inside.ts'
import type { SessionCa } from './session-ca.ts'
import type { Traffic } from './traffic.ts'
import type { Refuse, Ways } from './ways.ts'
import type { Within } from './within.ts'

export type ConnectsParts = {
  readonly ways: Ways
  readonly passed: Traffic
  readonly within: Within
  readonly inside: RefusedInside
  /** Whom the cell trusts, where TLS is opened. */
  readonly ca: SessionCa
  /** How many times longer the cell takes for everything. */
  readonly slowness: () => number
  /** Takes a connection whose requests are judged one by one. */
  readonly serve: (connection: Duplex) => void
}

/** How long a client may take to begin, and to come to terms where TLS is opened. */
const helloMs = 30_000

/** Answers a CONNECT: a tunnel to one place, whose first message must name it, or a connection whose requests are judged by themselves.
 *  Invariant: no byte of a client goes to a place that it did not name in the one way that was judged. */
export function netConnects({ ways, passed, within, inside, ca, slowness, serve }: ConnectsParts) {
  return answer

  async function answer(
    request: IncomingMessage,
    client: Duplex,
    head: Buffer,
    gone: AbortSignal,
    refuseWith: Refuse,
  ): Promise<void> {
    if (inside.hasAnswered(request, refuseWith)) return
    // A connection within a connection would be one to somebody else's proxy.
    if (within.has(request.socket)) return ways.misnamed('a CONNECT within a connection', nothing, refuseWith)
    const target = connectTarget(request.url ?? '')
    if ('misnamed' in target) return ways.misnamed(target.misnamed, nothing, refuseWith)
    const wanted = { target, method: null, path: null }
    if ((request.headersDistinct.host?.length ?? 0) > 1)
      return ways.misnamed('the CONNECT names its host twice', wanted, refuseWith)
    const said = request.headers.host === undefined ? target : hostTarget(request.headers.host, target.port)
    if ('misnamed' in said || !isSameTarget(said, target))
      return ways.misnamed('the Host header names another place than the CONNECT', wanted, refuseWith)
    const first = nextBytes(client, head)
    const isOpened = ways.isOpenedTo(target)
    // Where plain HTTP is spoken, or TLS is opened, each request is judged by itself.
    const isJudgedInside = target.port === 80 || isOpened
    let refusal = null as Refusal | null
    // A client that says its last word before it is answered has gone: nothing is used up for one that is dead.
    const left = new AbortController()
    const leave = () => left.abort()
    client.once('end', leave)
    const waits = AbortSignal.any([gone, left.signal])
    const upstream = isJudgedInside ? null : await ways.lead(wanted, waits, (said) => (refusal = said), [client])
    client.off('end', leave)
    if (left.signal.aborted) {
      upstream?.destroy()
      return void client.destroy()
    }
    const slow = AbortSignal.any([gone, AbortSignal.timeout(helloMs * slowness())])
    if (refusal !== null) return refuseConnect(request, client, first, { target, refusal }, refuseWith, slow)
    if (upstream === null && !isJudgedInside) return
    client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
    const begun = await beginning(first, slow)
    if (begun === 'nothing' || client.destroyed) {
      upstream?.destroy()
      return void client.destroy()
    }
    if (begun === 'other') {
      upstream?.destroy()
      within.set(client, { target, secure: false })
      first.release()
      serve(client)
      return void client.resume()
    }
    const why = notFor(target, begun.tls)
    if (why !== null) {
      passed.blocked(target, why)
      upstream?.destroy()
      return sayLast(client, accessDenied)
    }
    if (isOpened) {
      const context = await ca.contextFor(target)
      first.release()
      const secure = await openTls(client as Socket, context, slow)
      if (secure === null) return
      within.set(secure, { target, secure: true })
      return serve(secure)
    }
    const socket = upstream ?? (await ways.lead(wanted, gone, () => sayLast(client, accessDenied), [client]))
    if (socket === null) return
    socket.write(first.take(begun.tls.length))
    const again = await wantsItAgain(socket, gone)
    if (again === null) {
      // It went without a word, as those do that are told by name whom to turn away.
      socket.destroy()
      return void client.destroy()
    }
    if (!again) {
      first.release()
      return join(client, socket)
    }
    // The client learns of it, and what it then says must be for the same place.
    carry(socket, client)
    const other = await notAgainFor(target, first, slow)
    if (other === null) {
      first.release()
      return carry(client, socket)
    }
    passed.blocked(target, other)
    socket.destroy()
    client.destroy()
  }

  /** Says why where the client's user reads it: most programs show nothing of a refused CONNECT, and all of them what a server answers. */
  async function refuseConnect(
    request: IncomingMessage,
    client: Duplex,
    first: NextBytes,
    refused: { readonly target: Target; readonly refusal: Refusal },
    refuseWith: Refuse,
    signal: AbortSignal,
  ): Promise<void> {
    if (refused.refusal.status !== 403 || showsRefusedConnect(request)) return refuseWith(refused.refusal)
    const secure = await inside.open(client, first, refused, signal)
    if (secure === null) return
    // The log knows of each request inside by its place.
    within.set(secure, { target: refused.target, secure: true })
    serve(secure)
  }
}

/** What a TLS client understands (RFC 8446, 6.2). */
const accessDenied = Buffer.from([21, 3, 3, 0, 2, 2, 49])
