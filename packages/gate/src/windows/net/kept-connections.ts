import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { checkServerIdentity, connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls'
import { authorityOf, type Target } from '@anchorhold/core/net/target'
import Client from 'undici/lib/dispatcher/client.js'
import { isGivenUp } from '../../providers/connections.ts'
import type { Dialled } from './dial.ts'

/** TLS connections to the hosts that a session's requests are for, kept between requests.
 *  Invariant: whoever is at the other end has shown a certificate for the very name that was judged. */
export type KeptConnections = {
  /** Sends a request, and tells what becomes of it. A request has its connection for itself. */
  send(place: Place, message: Outgoing, listener: Listener): Sent
  /** A connection for a WebSocket's own. */
  dial(place: Place, signal: AbortSignal): Promise<Reached>
  close(): void
}

export type Place = { readonly target: Target; readonly ownNetwork: boolean }
export type Outgoing = {
  readonly method: string
  readonly path: string
  /** Names and values by turns. */
  readonly headers: string[]
  /** Null when there is none. */
  readonly body: Readable | null
}

/** Either `ended` or `failed` comes last, and nothing after it. */
export type Listener = {
  answered(status: number, rawHeaders: readonly string[]): void
  data(chunk: Buffer): void
  ended(): void
  failed(failure: ConnectionFailure): void
}
export type ConnectionFailure = { readonly blocked: string; readonly instead?: string } | { readonly failed: string }
export type Reached = { readonly socket: TLSSocket } | ConnectionFailure

export type Sent = {
  /** Takes no more of the answer than is on its way already. */
  pause(): void
  resume(): void
  /** Ends the request, and its connection with it; nothing when it has ended already. */
  cut(): void
}

export type KeptConnectionsParts = {
  readonly dial: (place: Place, signal: AbortSignal) => Promise<Dialled>
  /** Whom to believe that it is who it says. */
  readonly trust: () => SecureContext
  readonly signal: AbortSignal
  /** Milliseconds that only go forward. */
  readonly elapsed?: () => number
}

type Kept = { readonly client: Client; answers: number }

const idleMax = 32
const idleMs = 15_000
const handshakeMs = 15_000
const headerBytesMax = 64 * 1024
/** How long an answer may be silent, before its first byte and between two. */
const quietMs = 30 * 60 * 1000

export function keptConnections({
  dial,
  trust,
  signal: closing,
  elapsed = () => performance.now(),
}: KeptConnectionsParts): KeptConnections {
  const idle = new Map<string, Kept[]>()
  const clients = new Set<Client>()

  async function secure(place: Place, given: AbortSignal): Promise<Reached> {
    const dialled = await dial(place, given)
    if (!('socket' in dialled)) return dialled
    const late = AbortSignal.timeout(handshakeMs)
    return shakeHands(place.target, dialled.socket, trust(), AbortSignal.any([given, late]))
  }

  function open(place: Place): Kept {
    const client = new Client(`https://${authorityOf(place.target)}`, {
      connect(_, tell) {
        secure(place, closing).then(
          (reached) => ('socket' in reached ? tell(null, reached.socket) : tell(new NotReached(reached), null)),
          (error: Error) => tell(error, null),
        )
      },
      maxHeaderSize: headerBytesMax,
      headersTimeout: quietMs,
      bodyTimeout: quietMs,
      keepAliveTimeout: idleMs,
      keepAliveMaxTimeout: idleMs,
    })
    const one: Kept = { client, answers: 0 }
    client.on('connect', () => (one.answers = 0))
    client.on('disconnect', () => forget(place, one))
    clients.add(client)
    return one
  }
  /** One that stands idle, if there is one. */
  function take(place: Place): Kept | undefined {
    const key = keyOf(place)
    const free = idle.get(key)
    const one = free?.pop()
    if (free?.length === 0) idle.delete(key)
    return one
  }
  /** One that stands idle and has lost its connection is of no use to anybody. */
  function forget(place: Place, one: Kept): void {
    const key = keyOf(place)
    const free = idle.get(key)
    if (free === undefined || !free.includes(one)) return
    if (free.length === 1) idle.delete(key)
    else free.splice(free.indexOf(one), 1)
    drop(one)
  }
  function drop({ client }: Kept): void {
    clients.delete(client)
    void client.destroy()
  }
  function keep(place: Place, one: Kept): void {
    if (clients.size > idleMax) return drop(one)
    const free = idle.get(keyOf(place))
    if (free === undefined) idle.set(keyOf(place), [one])
    else free.push(one)
  }

  function sendOver(one: Kept, place: Place, message: Outgoing, listener: Listener, tell: (sent: Sent) => void): void {
    let controller: { pause(): void; resume(): void } | null = null
    let begun = false
    let sentAt: number | null = null
    let done = false
    tell({
      pause: () => controller?.pause(),
      resume: () => controller?.resume(),
      cut() {
        if (done) return
        done = true
        drop(one)
      },
    })
    one.client.dispatch(message, {
      onRequestStart(started) {
        controller = started
        sentAt = elapsed()
      },
      onResponseStart(started, status) {
        begun = true
        // What comes before the answer itself (100 to 199) is for nobody.
        if (!done && status >= 200) listener.answered(status, rawOf(started.rawHeaders))
      },
      onResponseData(_, chunk) {
        if (!done) listener.data(chunk)
      },
      onResponseEnd() {
        if (done) return
        done = true
        one.answers += 1
        keep(place, one)
        listener.ended()
      },
      onResponseError(_, error: NodeJS.ErrnoException) {
        if (done) return
        done = true
        drop(one)
        // A kept connection that the other side had just given up: nobody has read the request.
        const isUnread = one.answers > 0 && !begun && sentAt !== null && isGivenUp(error, elapsed() - sentAt)
        if (isUnread && isRepeatable(message)) return sendOver(open(place), place, message, listener, tell)
        listener.failed(error instanceof NotReached ? error.why : { failed: noAnswer(place.target) })
      },
    })
  }

  return {
    send(place, message, listener) {
      // What cannot be said again goes over a connection that nobody has used.
      const kept = isRepeatable(message) ? take(place) : undefined
      let now: Sent | null = null
      sendOver(kept ?? open(place), place, message, listener, (sent) => (now = sent))
      return { pause: () => now?.pause(), resume: () => now?.resume(), cut: () => now?.cut() }
    },
    dial: (place, signal) => secure(place, AbortSignal.any([signal, closing])),
    close() {
      for (const client of clients) void client.destroy()
      clients.clear()
      idle.clear()
    },
  }
}

/** What changes nothing at the other side, so that it may arrive there twice where it was allowed once. */
const isRepeatable = ({ method, body }: Outgoing) => body === null && ['GET', 'HEAD', 'OPTIONS'].includes(method)

/** A connection of the owner's own network is for requests that a rule opens it for. */
const keyOf = ({ target, ownNetwork }: Place) => `${authorityOf(target)} ${ownNetwork}`

export const noAnswer = ({ host }: Target) => `"${host}" gave no answer that can be passed on`

class NotReached extends Error {
  readonly why: ConnectionFailure
  constructor(why: ConnectionFailure) {
    super('not reached')
    this.why = why
  }
}

function shakeHands(target: Target, socket: Socket, secureContext: SecureContext, signal: AbortSignal): Promise<Reached> {
  const { promise, resolve } = Promise.withResolvers<Reached>()
  const secure = connectTls({
    socket,
    secureContext,
    host: target.host,
    servername: target.isAddress ? '' : target.host,
    ALPNProtocols: ['http/1.1'],
    minVersion: 'TLSv1.2',
    // Said here so that it is this name whatever the library makes of the rest.
    checkServerIdentity: (_, certificate) => checkServerIdentity(target.host, certificate),
  })
  const fail = (why: string) => {
    secure.destroy()
    resolve({ failed: `Cannot speak TLS to "${target.host}" on port ${target.port}: ${why}` })
  }
  const abort = () => fail('it took too long')
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  secure.once('secureConnect', () => {
    signal.removeEventListener('abort', abort)
    if (secure.authorized) resolve({ socket: secure })
    else fail('its certificate is not to be trusted')
  })
  secure.on('error', (error: NodeJS.ErrnoException) => {
    signal.removeEventListener('abort', abort)
    fail(wordsOf(error))
  })
  return promise
}

/** Of a certificate that is not to be trusted, why; never what the other side wrote in it. */
function wordsOf({ code = '' }: NodeJS.ErrnoException): string {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return 'its certificate is for another name'
  if (code === 'CERT_HAS_EXPIRED') return 'its certificate has expired'
  if (/CERT|ISSUER|SIGNATURE/.test(code)) return `its certificate is not to be trusted (${code})`
  return code === '' ? 'the connection failed' : code
}

const rawOf = (raw: unknown): string[] =>
  Array.isArray(raw) ? raw.map((one: unknown) => (Buffer.isBuffer(one) ? one.toString('latin1') : String(one))) : []
