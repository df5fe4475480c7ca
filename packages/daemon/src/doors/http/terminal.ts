import { apiRoot } from '@anchorhold/protocol/api/addresses'
import { Failure, failureCodes } from '@anchorhold/protocol/failures'
import { SessionId } from '@anchorhold/protocol/ids'
import { type FromTerminal, terminalBytesMax, TerminalQuery, terminalUnseenMax, ToTerminal } from '@anchorhold/protocol/terminal'
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { stillMay } from '../../app/people/access.ts'
import type { Parts } from '../../app/parts.ts'
import { openTerminal, type Terminal } from '../../app/workspace/terminal.ts'
import type { Callers } from './api.ts'
import { checkOrigin, credentialOf, fromOf, urlOf } from './guard.ts'

export type TerminalDoorOptions = Callers & { readonly parts: Parts }

/** A listener for `upgrade` of a server of `node:http`. */
export type TerminalDoor = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

const pingMs = 30_000
/** What may be typed or shown and not be taken yet. */
const pendingBytesMax = 1024 * 1024
const openMs = 60_000

const terminalPath = new RegExp(`^${apiRoot}/sessions/([^/]+)/terminal$`)

/** Terminals over WebSockets. Who asks is found out as everywhere else before anything is opened; a browser must say which page it is
 *  that asks, since cookies go along with what any page opens. */
export function terminalDoor({ address, whoIs, trustedProxies, parts }: TerminalDoorOptions): TerminalDoor {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: terminalBytesMax, perMessageDeflate: false })

  async function open(request: IncomingMessage, signal: AbortSignal) {
    checkOrigin(request, address())
    checkHandshake(request)
    const credential = credentialOf(request.headers, address())
    const known =
      credential === null ? null : whoIs(credential.secret, credential.role, fromOf(request, credential, trustedProxies))
    if (credential === null || known === null)
      throw new Failure('unauthenticated', 'No valid token or cookie came with the request')
    if (credential.role === 'cookie' && request.headers.origin === undefined)
      throw new Failure('foreign_origin', 'A browser must say which page opens a terminal')
    const url = urlOf(request)
    const session = SessionId.safeParse(terminalPath.exec(url.pathname)?.[1])
    const query = TerminalQuery.safeParse(Object.fromEntries(url.searchParams))
    if (!session.success) throw new Failure('not_found', 'There is nothing under this path')
    if (!query.success) throw new Failure('bad_request', 'A terminal has cols and rows')
    const { shell = null, ...size } = query.data
    const terminal = await openTerminal(parts, known.actor, session.data, { size, shell })
    const end = parts.watches.open(() => stillMay(parts, known, 'session.shell', session.data), signal)
    const again = terminal.shell === shell
    if (end.signal.aborted) {
      // A shell that nobody has seen yet is not left standing for whoever learns its name.
      if (!again) await terminal.close().catch(() => {})
      throw new Failure('unauthenticated', 'Cannot open the terminal: the right to it ended while it was being opened')
    }
    return { terminal, end, again }
  }

  return (request, socket, head) => {
    const client = new AbortController()
    const gone = () => client.abort()
    socket.on('error', gone).once('close', gone)
    // Who has not got a terminal by then gets none.
    const late = setTimeout(() => socket.destroy(), openMs)
    open(request, client.signal)
      .then(async ({ terminal, end, again }) => {
        let isJoined = false
        sockets.handleUpgrade(request, socket, head, (ws) => {
          isJoined = true
          void serve(ws, terminal, end, again)
        })
        if (isJoined) return
        // The handshake failed after all, and has been answered: nobody would ever see this shell.
        end.abort()
        if (!again) await terminal.close().catch(() => {})
      })
      .catch((error: unknown) => refuse(socket, error, parts.log))
      .finally(() => clearTimeout(late))
  }
}

/** Refuses what can become no WebSocket, before anything is opened for it (https://www.rfc-editor.org/rfc/rfc6455#section-4.2.1). */
function checkHandshake({ method, httpVersion, headers }: IncomingMessage): void {
  const refuse = (why: string) => {
    throw new Failure('bad_request', `Cannot open a terminal: ${why}`)
  }
  if (httpVersion !== '1.1') refuse(`a WebSocket begins with HTTP/1.1, and this is HTTP/${httpVersion}`)
  if (method !== 'GET') refuse('a WebSocket begins with GET')
  if (!/^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '')) refuse('Sec-WebSocket-Key is no key')
  if (headers['sec-websocket-version'] !== '13') refuse('Sec-WebSocket-Version is not 13')
}

async function serve(ws: WebSocket, terminal: Terminal, end: AbortController, again: boolean): Promise<void> {
  const say = (what: FromTerminal) => ws.send(JSON.stringify(what))
  const cutOff = () => ws.terminate()
  end.signal.addEventListener('abort', cutOff, { once: true })
  let heard = true
  const heartbeat = setInterval(() => {
    if (!heard) return ws.terminate()
    heard = false
    ws.ping()
  }, pingMs)
  ws.on('pong', () => (heard = true))
  ws.once('close', () => end.abort())
  ws.on('error', () => ws.terminate())
  const credit = creditOf()
  let pending = 0
  ws.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) pending += data.length
    if (pending > pendingBytesMax) ws.pause()
    hear(terminal, data, isBinary, credit)
      // A shell that has ended says so by its output.
      .catch((error: unknown) => !(error instanceof Failure) && ws.close(1008))
      .finally(() => {
        if (isBinary) pending -= data.length
        if (pending <= pendingBytesMax && ws.isPaused) ws.resume()
      })
  })
  say({ t: 'shell', shell: terminal.shell, again })
  try {
    const output = terminal.output(end.signal)
    for (let next = await output.next(); ; next = await output.next()) {
      if (next.done) {
        say({ t: 'ended', why: next.value })
        break
      }
      // More is asked for when this has been taken: a slow reader holds little here, and its shell waits.
      await new Promise<void>((resolve) => ws.send(next.value, { binary: true }, () => resolve()))
      credit.sent(next.value.length)
      await credit.enough(end.signal)
    }
  } catch {
    if (ws.readyState === ws.OPEN) say({ t: 'ended', why: 'The cell was ended' })
  } finally {
    clearInterval(heartbeat)
    end.signal.removeEventListener('abort', cutOff)
    ws.close(1000)
  }
}

async function hear(terminal: Terminal, data: Buffer, isBinary: boolean, credit: Credit): Promise<void> {
  if (isBinary) return terminal.write(data)
  const said = ToTerminal.parse(JSON.parse(data.toString('utf8')))
  if (said.t === 'seen') return credit.seen(said.bytes)
  return said.t === 'close' ? terminal.close() : terminal.resize({ cols: said.cols, rows: said.rows })
}

/** A page cannot hold back what comes on a WebSocket, so it says what it has shown. */
type Credit = {
  sent(bytes: number): void
  seen(bytes: number): void
  /** Resolves when more may be sent. */
  enough(signal: AbortSignal): Promise<void>
}
function creditOf(): Credit {
  let unseen = 0
  let tell = () => {}
  return {
    sent: (bytes) => void (unseen += bytes),
    seen(bytes) {
      unseen = Math.max(0, unseen - bytes)
      if (unseen <= terminalUnseenMax) tell()
    },
    async enough(signal) {
      if (unseen <= terminalUnseenMax || signal.aborted) return
      const { promise, resolve } = Promise.withResolvers<void>()
      const goOn = () => resolve()
      tell = goOn
      signal.addEventListener('abort', goOn)
      await promise
      signal.removeEventListener('abort', goOn)
    },
  }
}

function refuse(socket: Duplex, error: unknown, log: (message: string) => void): void {
  if (!(error instanceof Failure)) log(`bug: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  const { code, message } = error instanceof Failure ? error : { code: 'internal' as const, message: 'Something went wrong' }
  const { status } = failureCodes[code]
  const body = JSON.stringify({ error: { code, message } })
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    'content-type: application/json',
    'x-content-type-options: nosniff',
    'connection: close',
    `content-length: ${Buffer.byteLength(body)}`,
  ]
  // What it still sends is read by nobody, and nothing else would end it.
  socket.once('finish', () => socket.destroy())
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`)
}
