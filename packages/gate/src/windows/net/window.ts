import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { join as joinPath } from 'node:path'
import type { Duplex } from 'node:stream'
import type { SecureContext } from 'node:tls'
import type { Route } from '@anchorhold/core/net/routes'
import { authorityOf, connectTarget, hostTarget, isSameTarget, type Target } from '@anchorhold/core/net/target'
import type { NetAction } from '@anchorhold/protocol/actions'
import type { NewEvent } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { CallLine } from '../model/window.ts'
import type { Fill, Filled } from './credentials.ts'
import type { Crowd } from './crowd.ts'
import type { Dialled, Dialler } from './dial.ts'
import { type Asked, askedOf, exchange, exchangeOver, isWebSocket, upgrade } from './exchange.ts'
import { carry, join, sayLast } from './join.ts'
import { ownCalls, type OwnCallsParts } from './own-calls.ts'
import { type LineFailure, lines, type Place } from './lines.ts'
import { openTls } from './open-tls.ts'
import { type Refusal, refuse, refuseRaw, type Wanted } from './refusals.ts'
import { refusedInside, showsRefusedConnect } from './refuse-inside.ts'
import type { SessionCa } from './session-ca.ts'
import { type Let, standing } from './standing.ts'
import { traffic } from './traffic.ts'
import type { Screened } from './forge-calls.ts'
import { answerRefused } from './push.ts'
import { beginning, type NextBytes, nextBytes, notAgainFor, notFor, wantsItAgain } from './first-bytes.ts'
import { listenAt } from '../listen.ts'

/** A session's window to everything but its model: an HTTP proxy that leads only where the rules say.
 *  Invariant: nothing is looked up or dialled for a target before it was judged, and no byte of a client goes to a place that it
 *  did not name in the one way that was judged. */
export type NetWindow = {
  /** Writes down what has left so far. */
  flush(): void
  /** Rules or terms have changed: what stands and is not allowed by them any more is cut. */
  look(): void
  /** Ends every connection at once, and takes the socket away. */
  close(): Promise<void>
}

export type Judged = { readonly allow: true; readonly by: string } | { readonly allow: false; readonly why: string }

export type NetWindowParts = {
  readonly session: SessionId
  /** Who may enter the folder may use the window. */
  readonly folder: string
  /** Whether that may happen; waits for a person where the policy says so, as long as the signal lets it. */
  readonly judge: (action: NetAction, signal: AbortSignal) => Promise<Judged>
  /** Why a rule forbids it, without anybody being asked; null where none does. */
  readonly denies: (action: NetAction) => string | null
  /** By what is in force now: why what was let out, and what allowed it then, may not go on; null when it may. Nobody is asked. */
  readonly stands: () => (action: NetAction, by: string) => string | null
  /** How a target is reached that may be. */
  readonly routeOf: (target: Target) => Route
  readonly dialler: Dialler
  /** Looks into a request where its method and path do not say enough. What is never sent, whatever rules say, is answered; what rules
   *  decide by what is in it is judged by another path. Null for the rest. */
  readonly screen?: (asked: Asked, request: IncomingMessage) => Promise<Screened | null>
  /** What puts secrets into calls that they are for. */
  readonly credentials: Fill
  /** The same for a call that is yet to be made: what is allowed is kept for it. */
  readonly askAhead: OwnCallsParts['askAhead']
  /** How long whoever asks ahead waits for a person. */
  readonly aheadMs?: number
  /** Whom the cell trusts, where TLS is opened. */
  readonly authority: SessionCa
  /** Whom the gate trusts at the other end. */
  readonly trust: () => SecureContext
  /** All connections of all windows. */
  readonly crowd: Crowd
  readonly note: (event: NewEvent) => void
  readonly log: (line: CallLine) => void
  readonly now: () => number
  /** How long a connection waits for a person. */
  readonly askMs?: number
}

const connectionsMax = 1024
const headerBytesMax = 64 * 1024
const headersMs = 30_000
const helloMs = 30_000
const keepAliveMs = 60_000
const askMsUsual = 30_000
/** A connection that carries nothing for so long is given up. */
const idleMs = 30 * 60 * 1000

export async function netWindow(parts: NetWindowParts): Promise<NetWindow> {
  const { session, judge, routeOf, dialler, now, askMs = askMsUsual } = parts
  const path = joinPath(parts.folder, 'net.sock')
  const passed = traffic(parts.note)
  const closing = new AbortController()
  const clients = new Set<Socket>()
  const upstreams = new Set<Socket>()
  /** Connections that were opened to one place, and what is spoken to it: plain HTTP, or HTTP over TLS that ends here. */
  const within = new WeakMap<object, { readonly target: Target; readonly secure: boolean }>()
  const held = standing(
    () => {
      const stands = parts.stands()
      return ({ wanted, by, differs }) => {
        const { ownNetwork } = routeOf(wanted.target)
        return dialler.refuses(wanted.target, { ownNetwork }) ?? stands(actionOf(wanted), by) ?? differs()
      }
    },
    ({ wanted }, why) => passed.blocked(wanted.target, inWords(wanted, `It was cut, because rules have changed. ${why}`)),
  )
  const isOpenedTo = (target: Target) => parts.credentials.speaksOf(target) || routeOf(target).how === 'open'
  const inside = refusedInside(parts.authority)
  const kept = lines({ dial: (place, signal) => reach(place, signal), trust: parts.trust, signal: closing.signal })

  const server = createServer({
    maxHeaderSize: headerBytesMax,
    headersTimeout: headersMs,
    requestTimeout: 0,
    keepAliveTimeout: keepAliveMs,
    // Whatever else could be spoken in place of HTTP/1.1 is not: such a request is answered as one that did not ask for it.
    shouldUpgradeCallback: isWebSocket,
  })
  server.maxConnections = connectionsMax
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
  const own = ownCalls({ ...parts, lead: leadToPage })
  server.on('request', (request, response) => {
    const tell = telling(request)
    response.once('close', () => tell(response.statusCode))
    if (inside.hasAnswered(request, (refusal) => refuse(response, refusal))) return
    if (!within.has(request.socket) && own.isOne(request))
      return void own.answer(request, response, goneSignal(response)).catch(() => response.destroy())
    const gone = goneSignal(response)
    const ends: Destroyable[] = [response]
    void answerOn(
      request,
      { gone, ends },
      (refusal) => refuse(response, refusal),
      async (asked, place, filled, secure, fail) => {
        if (secure) {
          passed.called(place.target, filled.used)
          return exchangeOver(kept, place, filled, request, response, fail)
        }
        const reached = await reach(place, gone)
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
    void answerOn(request, { gone, ends }, refuseWith, async (asked, place, filled, secure, fail) => {
      const reached = await (secure ? kept.dial(place, gone) : reach(place, gone))
      if (!('socket' in reached)) return fail(reached)
      ends.push(reached.socket)
      passed.called(place.target, filled.used)
      upgrade(asked.target, filled, reached.socket, request, client, head, answerOf, (failed) => fail({ failed }))
    })
  })
  server.on('connect', (request, client, head) => {
    void answerConnect(request, client, head).catch(() => client.destroy())
  })
  server.on('clientError', (_error, client) => {
    const why = 'This is no HTTP/1.1 that can be read in one way only'
    passed.blocked(null, why)
    refuseRaw(client, { status: 400, wanted: nothing, why })
  })

  /** Judges what is wanted; null when that was refused, and said so. What is let out stands only as long as it would be again. */
  async function allow(
    wanted: Wanted & { readonly target: Target },
    { gone, ends }: Caller,
    differs: Let['differs'],
    refuseWith: (refusal: Refusal) => void,
  ): Promise<Place | null> {
    const { target } = wanted
    const block = (why: string) => {
      passed.blocked(target, inWords(wanted, why))
      refuseWith({ status: 403, wanted, why })
      return null
    }
    const { ownNetwork } = routeOf(target)
    // Nobody is asked for what would not happen anyway.
    const never = dialler.refuses(target, { ownNetwork })
    if (never !== null) return block(never)
    const late = AbortSignal.timeout(askMs)
    const { looked } = held
    const verdict = await judge(actionOf(wanted), AbortSignal.any([gone, late]))
    if (gone.aborted) return null
    if (verdict.allow) {
      held.hold({ wanted, by: verdict.by, gone, differs, ends }, looked)
      return { target, ownNetwork }
    }
    return block(
      late.aborted ? `A person was asked, and has not answered within ${askMs / 1000} s: try again when they have` : verdict.why,
    )
  }

  /** Dials a place that may be reached. */
  async function reach({ target, ownNetwork }: Place, gone: AbortSignal): Promise<Dialled> {
    const leave = parts.crowd.enter()
    if (leave === null) return { failed: 'The gate holds as many connections as it may: try again later' }
    const dialled = await dialler.dial(target, { ownNetwork }, gone)
    if (!('socket' in dialled)) {
      leave()
      return dialled
    }
    const { socket } = dialled
    socket.once('close', leave)
    socket.on('error', () => {})
    if (gone.aborted) {
      socket.destroy()
      return { failed: 'Nobody waits for it any more' }
    }
    socket.setTimeout(idleMs, () => socket.destroy())
    upstreams.add(socket)
    socket.once('close', () => upstreams.delete(socket))
    passed.follow(target, socket)
    return dialled
  }

  /** The words for a place that could not be reached. */
  function failing(
    wanted: Wanted & { readonly target: Target },
    gone: AbortSignal,
    refuseWith: (refusal: Refusal) => void,
  ): (why: LineFailure) => void {
    return (why) => {
      if (gone.aborted) return
      if ('failed' in why) return refuseWith({ status: 502, wanted, why: why.failed })
      passed.blocked(wanted.target, inWords(wanted, why.blocked))
      refuseWith({ status: 403, wanted, why: why.blocked })
    }
  }

  /** Judges what is wanted and dials it; null when that was refused, and said so. */
  async function lead(
    wanted: Wanted & { readonly target: Target },
    gone: AbortSignal,
    refuseWith: (refusal: Refusal) => void,
    ends: Destroyable[] = [],
  ) {
    const isUnread = wanted.method === null
    const differs = () => (isUnread && isOpenedTo(wanted.target) ? 'What goes there is looked into' : null)
    const place = await allow(wanted, { gone, ends }, differs, refuseWith)
    if (place === null) return null
    const reached = await reach(place, gone)
    if ('socket' in reached) {
      ends.push(reached.socket)
      passed.called(place.target)
      return reached.socket
    }
    failing(wanted, gone, refuseWith)(reached)
    return null
  }

  /** The same for a page that is read for the agent: no secret is put into what asks for it, and what a cell may not send is not sent here. */
  async function leadToPage(
    wanted: Wanted & { readonly target: Target; readonly method: string; readonly path: string },
    gone: AbortSignal,
    refuseWith: (refusal: Refusal) => void,
  ) {
    const seen = parts.credentials.putInto({ ...wanted, rawHeaders: [], secure: false })
    if ('refused' in seen) {
      failing(wanted, gone, refuseWith)({ blocked: seen.refused })
      return null
    }
    const socket = await lead(wanted, gone, refuseWith)
    return socket === null ? null : { socket, scrub: seen.scrub }
  }

  async function answerOn(
    request: IncomingMessage,
    caller: Caller,
    refuseWith: (refusal: Refusal) => void,
    goOn: (asked: Asked, place: Place, filled: Filled, secure: boolean, fail: (why: LineFailure) => void) => Promise<void>,
    look: (asked: Asked) => Promise<'answered' | { readonly judgedAs: string } | null> = async () => null,
  ): Promise<void> {
    const method = request.method ?? ''
    const { target: only = null, secure = false } = within.get(request.socket) ?? {}
    const asked = askedOf(request, only)
    if ('misnamed' in asked) return misnamed(asked.misnamed, { ...nothing, method }, refuseWith)
    const wanted = { target: asked.target, method, path: asked.path }
    const fail = failing(wanted, caller.gone, refuseWith)
    try {
      const seen = await look(asked)
      if (seen === 'answered') return
      const call = { ...wanted, rawHeaders: request.rawHeaders, secure }
      // Nobody is asked for what would not happen anyway.
      const before = parts.credentials.putInto(call)
      if ('refused' in before) return fail({ blocked: before.refused })
      const differs = () => {
        const again = parts.credentials.putInto(call)
        if ('refused' in again) return again.refused
        return before.used.every((name) => again.used.includes(name)) ? null : 'A secret is in it that is for something else now'
      }
      const judged = seen === null ? wanted : { ...wanted, path: seen.judgedAs }
      // A rule against the path itself holds for all that is in it.
      const denied = judged.path === wanted.path ? null : parts.denies(actionOf(wanted))
      if (denied !== null) return fail({ blocked: denied })
      const place = await allow(judged, caller, differs, refuseWith)
      if (place === null) return
      // What is in force may be another by now.
      const filled = parts.credentials.putInto(call)
      if ('refused' in filled) return fail({ blocked: filled.refused })
      await goOn(asked, place, filled, secure, fail)
    } catch {
      // A bug. Its words stay here.
      refuseWith({ status: 503, wanted, why: 'The window failed' })
    }
  }

  async function answerConnect(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    const refuseWith = refusing(request, client, 200)
    if (inside.hasAnswered(request, refuseWith)) return
    // A connection within a connection would be one to somebody else's proxy.
    if (within.has(request.socket)) return misnamed('a CONNECT within a connection', nothing, refuseWith)
    const target = connectTarget(request.url ?? '')
    if ('misnamed' in target) return misnamed(target.misnamed, nothing, refuseWith)
    const wanted = { target, method: null, path: null }
    const said = request.headers.host === undefined ? target : hostTarget(request.headers.host, target.port)
    if ('misnamed' in said || !isSameTarget(said, target))
      return misnamed('the Host header names another place than the CONNECT', wanted, refuseWith)
    const first = nextBytes(client, head)
    const gone = goneSignal(client)
    const isOpened = isOpenedTo(target)
    // Where plain HTTP is spoken, or TLS is opened, each request is judged by itself.
    const isJudgedInside = target.port === 80 || isOpened
    let refusal = null as Refusal | null
    const upstream = isJudgedInside ? null : await lead(wanted, gone, (said) => (refusal = said), [client])
    const slow = AbortSignal.any([gone, AbortSignal.timeout(helloMs)])
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
      server.emit('connection', client)
      return void client.resume()
    }
    const why = notFor(target, begun.tls)
    if (why !== null) {
      passed.blocked(target, why)
      upstream?.destroy()
      return sayLast(client, accessDenied)
    }
    if (isOpened) {
      const context = await parts.authority.contextFor(target)
      first.release()
      const secure = await openTls(client as Socket, context, slow)
      if (secure === null) return
      within.set(secure, { target, secure: true })
      return void server.emit('connection', secure)
    }
    const socket = upstream ?? (await lead(wanted, gone, () => sayLast(client, accessDenied), [client]))
    if (socket === null) return
    socket.write(first.take(begun.tls.length))
    const again = await wantsItAgain(socket, gone)
    if (again !== true) {
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
    refuseWith: (refusal: Refusal) => void,
    signal: AbortSignal,
  ): Promise<void> {
    if (refused.refusal.status !== 403 || showsRefusedConnect(request)) return refuseWith(refused.refusal)
    const secure = await inside.open(client, first, refused, signal)
    if (secure === null) return
    // The log knows of each request inside by its place.
    within.set(secure, { target: refused.target, secure: true })
    server.emit('connection', secure)
  }

  function misnamed(why: string, wanted: Wanted, refuseWith: (refusal: Refusal) => void): void {
    const sentence = `Cannot tell where this is to go: ${why}`
    passed.blocked(wanted.target, sentence)
    refuseWith({ status: 400, wanted, why: sentence })
  }

  /** Its client is gone, or the window. */
  function goneSignal(client: Duplex | ServerResponse): AbortSignal {
    const gone = new AbortController()
    const abort = () => gone.abort(hasGone)
    client.once('close', abort)
    if (client.destroyed) abort()
    return AbortSignal.any([gone.signal, closing.signal])
  }

  /** How a call is refused that no answer of the server's belongs to; the log is told when its connection has ended. */
  function refusing(request: IncomingMessage, client: Duplex, statusOtherwise: number): (refusal: Refusal) => void {
    let status = statusOtherwise
    const tell = telling(request)
    client.once('close', () => tell(status))
    return (refusal) => {
      status = refusal.status
      refuseRaw(client, refusal)
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

  await listenAt(server, path)

  return {
    flush: passed.flush,
    look: held.look,
    async close() {
      closing.abort()
      kept.close()
      const closed = new Promise<void>((done) => server.close(() => done()))
      for (const socket of [...clients, ...upstreams]) socket.destroy()
      await closed
      passed.flush()
      await rm(path, { force: true })
    },
  }
}

type Destroyable = { destroy(): unknown }
/** Who makes a call: that they have gone, and what to end where they must. */
type Caller = { readonly gone: AbortSignal; readonly ends: Destroyable[] }

const actionOf = ({ target, method, path }: Wanted & { readonly target: Target }): NetAction => ({
  ...{ kind: 'net', host: target.host, port: target.port, method, path },
})

/** Of what was blocked, its method and path; never a query, which may hold what is nobody's business. */
const inWords = ({ method, path }: Wanted, why: string): string =>
  method === null || path === null ? why : `${method} ${path.replace(/\?.*/s, '')}: ${why}`

/** Made once: a reason of its own for each connection would cost a stack trace at the end of every one. */
const hasGone = new Error('Nobody waits for it any more')
const nothing: Wanted = { target: null, method: null, path: null }
/** What a TLS client understands (RFC 8446, 6.2). */
const accessDenied = Buffer.from([21, 3, 3, 0, 2, 2, 49])
