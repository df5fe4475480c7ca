import type { IncomingHttpHeaders } from 'node:http'
import buildConnector from 'undici/lib/core/connect.js'
import Client from 'undici/lib/dispatcher/client.js'

/** Connections to providers, kept open between calls. A call has its connection for itself, so that ending one ends no other. */
export type Connections = {
  /** Those to an origin, or to whoever listens on a socket in its place. */
  to(origin: string, socketPath?: string): OriginConnections
  close(): Promise<void>
}

export type OriginConnections = {
  /** Sends a request, and tells what becomes of it. It never follows a redirect. */
  send(request: Outgoing, listener: Listener, connection: 'kept' | 'fresh'): Sent
}

export type Outgoing = {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Either `ended` or `failed` comes last, and nothing after it. */
export type Listener = {
  answered(status: number, headers: IncomingHttpHeaders): void
  data(chunk: Buffer): void
  ended(): void
  failed(failure: Failed): void
}

type Failed = {
  readonly code: string
  /** Something of the request may have reached the other side. */
  readonly sent: boolean
  /** Nobody has read it, surely enough to send it once more. */
  readonly unread: boolean
}

export type Sent = {
  /** Takes no more of the answer than is on its way already. */
  pause(): void
  resume(): void
  /** Ends the request, and its connection with it; nothing when it has ended already. */
  cut(): void
}

/** `answers` that came over the connection as it is open now. */
type Kept = { readonly client: Client; answers: number }

/** Connections that are kept to each origin while nobody uses them, and for how long. */
const idleMax = 64
const idleMs = 5 * 60 * 1000
const connectMs = 30_000
const headerBytesMax = 64 * 1024
/** How long an answer may be silent, before its first byte and between two. */
const quietMs = 15 * 60 * 1000
/** A connection that the other side has given up says so within a round trip. What is silent for longer was being answered. */
const givenUpMs = 2000

export function connections(now: () => number = () => performance.now()): Connections {
  const origins = new Map<string, OriginConnections>()
  const clients = new Set<Client>()

  function connectionsTo(origin: string, socketPath: string | undefined): OriginConnections {
    // One for all connections, so that they share TLS sessions.
    const connect = buildConnector({ socketPath: socketPath ?? null, timeout: connectMs, allowH2: false })
    const free: Kept[] = []

    function open(): Kept {
      const client = new Client(origin, {
        connect,
        maxHeaderSize: headerBytesMax,
        headersTimeout: quietMs,
        bodyTimeout: quietMs,
        keepAliveTimeout: idleMs,
        keepAliveMaxTimeout: idleMs,
      })
      const one = { client, answers: 0 }
      client.on('connect', () => (one.answers = 0))
      clients.add(client)
      return one
    }
    function drop({ client }: Kept): void {
      clients.delete(client)
      void client.destroy()
    }

    return {
      send({ path, headers, body }, listener, connection) {
        const one = (connection === 'kept' ? free.pop() : undefined) ?? open()
        let controller: { pause(): void; resume(): void } | null = null
        let begun = false
        let sentAt: number | null = null
        let done = false
        one.client.dispatch(
          { method: 'POST', path, headers, body },
          {
            onRequestStart(started) {
              controller = started
              sentAt = now()
            },
            onResponseStart(_, status, answer) {
              begun = true
              // What comes before the answer itself (100 to 199) is for nobody.
              if (status >= 200) listener.answered(status, answer)
            },
            onResponseData(_, chunk) {
              listener.data(chunk)
            },
            onResponseEnd() {
              done = true
              one.answers += 1
              if (free.length < idleMax) free.push(one)
              else drop(one)
              listener.ended()
            },
            onResponseError(_, error: NodeJS.ErrnoException) {
              if (done) return
              done = true
              const code = plainCode(error)
              // A kept connection that the other side had just given up: nobody has read the request.
              const unread = one.answers > 0 && !begun && sentAt !== null && isGivenUp(error, now() - sentAt)
              drop(one)
              listener.failed({ code, sent: sentAt !== null, unread })
            },
          },
        )
        return {
          pause: () => controller?.pause(),
          resume: () => controller?.resume(),
          cut() {
            if (done) return
            done = true
            drop(one)
          },
        }
      },
    }
  }

  return {
    to(origin, socketPath) {
      const name = `${origin} ${socketPath ?? ''}`
      const found = origins.get(name) ?? connectionsTo(origin, socketPath)
      origins.set(name, found)
      return found
    },
    async close() {
      await Promise.all([...clients].map((client) => client.destroy()))
      clients.clear()
      origins.clear()
    },
  }
}

/** Whether a request on a kept connection failed so, and so soon after it was sent, that the other side had given the connection up. */
export function isGivenUp(error: NodeJS.ErrnoException, sentForMs: number): boolean {
  const code = plainCode(error)
  return sentForMs < givenUpMs && (code === 'ECONNRESET' || code === 'EPIPE')
}

/** The library's own names for what the system has a name for. */
const systemCodes: Readonly<Record<string, string>> = {
  UND_ERR_SOCKET: 'ECONNRESET',
  UND_ERR_CONNECT_TIMEOUT: 'ETIMEDOUT',
  UND_ERR_HEADERS_TIMEOUT: 'ETIMEDOUT',
  UND_ERR_BODY_TIMEOUT: 'ETIMEDOUT',
}
const plainCode = ({ code }: NodeJS.ErrnoException) =>
  code === undefined ? 'the connection failed' : (systemCodes[code] ?? code)
