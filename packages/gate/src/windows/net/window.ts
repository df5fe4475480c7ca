import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { join as joinPath } from 'node:path'
import type { Duplex } from 'node:stream'
import type { SecureContext } from 'node:tls'
import { authorityOf, connectTarget } from '@anchorhold/core/net/target'
import type { NewEvent } from '@anchorhold/protocol/events'
import { requestHeadersMax } from '@anchorhold/protocol/http-limits'
import type { SessionId } from '@anchorhold/protocol/ids'
import { listenAt, type Stands } from '../listen.ts'
import type { CallLine } from '../call-line.ts'
import { type CallsParts, netCalls } from './calls.ts'
import { netConnects } from './connects.ts'
import { type Asked, askedOf, exchange, exchangeOver, isWebSocket, upgrade } from './exchange.ts'
import type { Screened } from './forge-calls.ts'
import { keptConnections } from './kept-connections.ts'
import { ownCalls, type OwnCallsParts } from './own-calls.ts'
import { owedAnswers } from './owed.ts'
import { answerRefused } from './push.ts'
import { nothing, refuse, refuseRaw } from './refusals.ts'
import { refusedInside } from './refuse-inside.ts'
import type { SessionCa } from './session-ca.ts'
import { traffic } from './traffic.ts'
import { type Destroyable, type Refuse, waysOut, type WaysParts } from './ways.ts'
import type { Within } from './within.ts'

/** A session's window to everything but its model: an HTTP proxy that leads only where the rules say.
 *  Invariant: nothing is looked up or dialled for a target before it was judged, and no byte of a client goes to a place that it
 *  did not name in the one way that was judged. */
export type NetWindow = {
  readonly stands: Stands
  /** Writes down what has left so far. */
  flush(): void
  /** Rules or terms have changed: they hold from here on, and what stands and is not allowed by them any more is cut. */
  look(): void
  /** Ends every connection at once, and takes the socket away. */
  close(): Promise<void>
}

export type NetWindowParts = WaysParts &
  CallsParts & {
    readonly session: SessionId
    /** Who may enter the folder may use the window. */
    readonly folder: string
    /** Whether nobody is there to be asked. */
    readonly alone?: boolean
    /** Looks into a request where its method and path do not say enough. What is never sent, whatever rules say, is answered; what rules
     *  decide by what is in it is judged by another path. Null for the rest. */
    readonly screen?: (asked: Asked, request: IncomingMessage) => Promise<Screened | null>
    /** Judges a call that is yet to be made: what is allowed is kept for it. */
    readonly askAhead: OwnCallsParts['askAhead']
    /** How many times longer than beside it everything takes in the cell. */
    readonly slowness: () => number
    /** How long whoever asks ahead waits for a person. */
    readonly aheadMs?: number
    /** Whom the cell trusts, where TLS is opened. */
    readonly ca: SessionCa
    /** Whom the gate trusts at the other end. */
    readonly trust: () => SecureContext
    readonly note: (event: NewEvent) => void
    readonly log: (line: CallLine) => void
    readonly now: () => number
  }

const connectionsMax = 1024
const headerBytesMax = 64 * 1024
const headersMs = 30_000
const keepAliveMs = 60_000

export async function netWindow(parts: NetWindowParts): Promise<NetWindow> {
  const { session, now } = parts
  const path = joinPath(parts.folder, 'net.sock')
  const passed = traffic(parts.note)
  const closing = new AbortController()
  const clients = new Set<Socket>()
  const within: Within = new WeakMap()
  const owed = owedAnswers()
  const ways = waysOut(parts, passed)
  const answer = netCalls(parts, ways, within)
  const inside = refusedInside(parts.ca)
  const kept = keptConnections({ dial: ways.reach, trust: parts.trust, signal: closing.signal })

  const server = createServer({
    maxHeaderSize: headerBytesMax,
    headersTimeout: headersMs * parts.slowness(),
    requestTimeout: 0,
    keepAliveTimeout: keepAliveMs,
    // Whatever else could be spoken in place of HTTP/1.1 is not: such a request is answered as one that did not ask for it.
    shouldUpgradeCallback: isWebSocket,
  })
  server.maxConnections = connectionsMax
  server.maxHeadersCount = requestHeadersMax
  server.on('connection', (client: Socket) => {
    if (clients.has(client)) return
    // What was opened within a connection takes no descriptor of its own.
    if (!within.has(client)) {
      const leave = parts.crowd.enter()
      if (leave === null) return void client.destroy()
      client.once('close', leave)
    }
    clients.add(client)
    client.on('error', () => {}).once('close', () => clients.delete(client))
  })
  const answerConnect = netConnects({
    ...{ ways, passed, within, inside, ca: parts.ca, slowness: parts.slowness },
    serve: (connection) => void server.emit('connection', connection),
  })
  const own = ownCalls({ ...parts, isOpenedTo: ways.isOpenedTo, lead: ways.leadToPage })
  server.on('request', (request, response) => {
    if (!owed.add(request.socket, response)) return
    const tell = telling(request)
    response.once('close', () => tell(response.statusCode))
    if (inside.hasAnswered(request, (refusal) => refuse(response, refusal, parts))) return
    if (!within.has(request.socket) && own.isOne(request))
      return void own.answer(request, response, goneSignal(response)).catch(() => response.destroy())
    const gone = goneSignal(response)
    const ends: Destroyable[] = [response]
    void answer(
      request,
      { gone, ends },
      (refusal) => refuse(response, refusal, parts),
      async (asked, place, filled, secure, fail) => {
        if (secure) {
          passed.called(place.target, filled.used)
          return exchangeOver(kept, place, filled, request, response, fail)
        }
        const reached = await ways.reach(place, gone)
        if (!('socket' in reached)) return fail(reached)
        passed.called(place.target)
        exchange(asked, filled, reached.socket, request, response, (failed) => fail({ failed }))
      },
      async (asked) => {
        const screened = (await parts.screen?.(asked, request)) ?? null
        if (screened === null || 'judgedAs' in screened) return screened
        passed.blocked(asked.target, screened.why)
        answerRefused(request, response, screened)
        return 'answered'
      },
    )
  })
  server.on('upgrade', (request, client, head) => {
    if (owed.has(client)) return void client.destroy()
    const answerOf = () => {
      const response = new ServerResponse(request)
      response.shouldKeepAlive = false
      response.assignSocket(client as Socket)
      response.once('finish', () => client.end())
      return response
    }
    const refuseWith = refusing(request, client, 101)
    if (inside.hasAnswered(request, refuseWith)) return
    const gone = goneSignal(client)
    const ends: Destroyable[] = [client]
    void answer(request, { gone, ends }, refuseWith, async (asked, place, filled, secure, fail) => {
      const reached = await (secure ? kept.dial(place, gone) : ways.reach(place, gone))
      if (!('socket' in reached)) return fail(reached)
      ends.push(reached.socket)
      passed.called(place.target, filled.used)
      upgrade(asked.target, filled, reached.socket, request, client, head, answerOf, (failed) => fail({ failed }))
    })
  })
  server.on('connect', (request, client, head) => {
    if (owed.has(client)) return void client.destroy()
    void answerConnect(request, client, head, goneSignal(client), refusing(request, client, 200)).catch(() => client.destroy())
  })
  server.on('clientError', (error: NodeJS.ErrnoException, client) => {
    // Whoever went in the middle of something was kept from nothing.
    if (error.code?.startsWith('HPE_') !== true) return void client.destroy()
    if (error.code === 'HPE_HEADER_OVERFLOW') {
      const why = `The request has more than ${requestHeadersMax} headers, or more than ${headerBytesMax / 1024} KiB of them`
      passed.blocked(null, why)
      return refuseRaw(client, { status: 431, wanted: nothing, why })
    }
    const why = 'This is no HTTP/1.1 that can be read in one way only'
    passed.blocked(null, why)
    refuseRaw(client, { status: 400, wanted: nothing, why })
  })

  /** Its client is gone: for good, or because the window closes, which ends every one. */
  function goneSignal(client: Duplex | ServerResponse): AbortSignal {
    const gone = new AbortController()
    const abort = () => gone.abort(hasGone)
    client.once('close', abort)
    if (client.destroyed) abort()
    return gone.signal
  }

  /** How a call is refused that no answer of the server's belongs to; the log is told when its connection has ended. */
  function refusing(request: IncomingMessage, client: Duplex, statusOtherwise: number): Refuse {
    let status = statusOtherwise
    const tell = telling(request)
    client.once('close', () => tell(status))
    return (refusal) => {
      status = refusal.status
      refuseRaw(client, refusal, parts)
    }
  }

  /** Tells the log of a call: never more of it than where it went. */
  function telling(request: IncomingMessage): (status: number) => void {
    const startedAt = now()
    const { socket } = request
    const before = socket.bytesWritten
    return (status) => {
      const asked =
        request.method === 'CONNECT' ? connectTarget(request.url ?? '') : askedOf(request, within.get(socket)?.target ?? null)
      const target = 'misnamed' in asked ? null : 'target' in asked ? asked.target : asked
      const where = target !== null ? authorityOf(target) : own.isOne(request) ? request.url! : '?'
      const bytes = socket.bytesWritten - before
      parts.log({ session, method: request.method ?? '', path: where, status, bytes, ms: now() - startedAt })
    }
  }

  const stands = await listenAt(server, path)

  return {
    stands,
    flush: passed.flush,
    look() {
      server.headersTimeout = headersMs * parts.slowness()
      ways.look()
    },
    async close() {
      closing.abort()
      kept.close()
      const closed = new Promise<void>((done) => server.close(() => done()))
      // The server does not wait for what is done when a connection has ended: the log is told then.
      const outer = [...clients].filter((client) => !within.has(client))
      const told = outer.map((client) => new Promise((done) => client.once('close', done)))
      ways.close()
      for (const socket of clients) socket.destroy()
      await Promise.all([closed, ...told])
      passed.flush()
    },
  }
}

/** Made once: a reason of its own for each connection would cost a stack trace at the end of every one. */
const hasGone = new Error('Nobody waits for it any more')
