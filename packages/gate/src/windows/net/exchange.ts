import { type ClientRequest, type IncomingMessage, request as send, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Duplex, PassThrough, Transform, type Writable } from 'node:stream'
import { TLSSocket } from 'node:tls'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import {
  authorityOf,
  hostTarget,
  isSameTarget,
  type Misnamed,
  absoluteTarget,
  originPath,
  type Target,
} from '@anchorhold/core/net/target'
import type { Filled } from './credentials.ts'
import { carry, join } from './join.ts'
import { type ConnectionFailure, type KeptConnections, noAnswer, type Place } from './kept-connections.ts'
import type { Scrubber } from '../scrub.ts'

/** Where a request goes: read once, and judged and sent as it was read. */
export type Asked = { readonly target: Target; readonly path: string }

/** What was read of a request, which stays within the connection that it came by: it is told to the log as it was judged. */
const read = new WeakMap<IncomingMessage, Asked | Misnamed>()

/** Reads a request's target. Within a connection that leads to one host, `within`, it can be no other. */
export function askedOf(request: IncomingMessage, within: Target | null): Asked | Misnamed {
  const known = read.get(request)
  if (known !== undefined) return known
  const asked = readAsked(request, within)
  read.set(request, asked)
  return asked
}

function readAsked(request: IncomingMessage, within: Target | null): Asked | Misnamed {
  const hosts = headersNamed(request.rawHeaders, 'host')
  if (hosts.length > 1) return { misnamed: 'the request names its host twice' }
  if (request.headers.upgrade !== undefined && request.httpVersion !== '1.1')
    return { misnamed: `an upgrade begins with HTTP/1.1, and this is HTTP/${request.httpVersion}` }
  const url = request.url ?? ''
  const asked = within !== null && url.startsWith('/') ? inOriginForm(url, within) : absoluteTarget(url)
  if ('misnamed' in asked) return asked
  const [host] = hosts
  if (host === undefined && within !== null) return { misnamed: 'the request does not name its host' }
  const said = host === undefined ? asked.target : hostTarget(host, within === null ? 80 : within.port)
  if ('misnamed' in said) return said
  if (!isSameTarget(said, asked.target)) return { misnamed: 'the Host header names another place than the request' }
  if (within !== null && !isSameTarget(asked.target, within))
    return { misnamed: 'the request names another place than the connection was opened to' }
  const overrides = request.rawHeaders.find((name, at) => at % 2 === 0 && overriding.has(name.toLowerCase().replaceAll('_', '-')))
  if (overrides !== undefined) return { misnamed: `the header "${overrides.toLowerCase()}" may name another method or path` }
  const [coding, ...further] = headersNamed(request.rawHeaders, 'transfer-encoding')
  if (further.length > 0 || (coding !== undefined && coding.toLowerCase() !== 'chunked'))
    return { misnamed: 'the request has a transfer coding other than chunked' }
  if (coding !== undefined && headersNamed(request.rawHeaders, 'content-length').length > 0)
    return { misnamed: 'the request says its length in two ways' }
  return asked
}

/** What some servers take for the method or the path of a request, whatever its first line says; with `_` for `-` to those of CGI. */
const overriding: ReadonlySet<string> = new Set([
  ...['x-http-method-override', 'x-http-method', 'x-method-override', 'x-original-url', 'x-rewrite-url'],
])

function inOriginForm(url: string, target: Target): Asked | Misnamed {
  const path = originPath(url)
  return typeof path === 'string' ? { target, path } : path
}

/** Sends a request over a connection that leads to its target, and its answer back. Fails with words when there is none. */
export function exchange(
  { target, path }: Asked,
  { rawHeaders, scrub }: Filled,
  socket: Socket,
  request: IncomingMessage,
  response: ServerResponse,
  failed: (why: string) => void,
): void {
  const outgoing = begin({ method: request.method, rawHeaders }, target, path, socket, framing(request))
  const fail = () => failed(noAnswer(target))
  outgoing.once('error', fail)
  outgoing.once('response', (incoming) => answer(incoming, response, fail, scrub))
  response.once('close', () => outgoing.destroy())
  request.once('error', () => outgoing.destroy())
  request.pipe(outgoing)
}

/** The same over TLS, on a connection that is kept for others afterwards. */
export function exchangeOver(
  kept: KeptConnections,
  place: Place,
  { path, rawHeaders, scrub }: Filled,
  request: IncomingMessage,
  response: ServerResponse,
  failed: (why: ConnectionFailure) => void,
): void {
  const { method = 'GET', headers } = request
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  // Between the two, so that ending what is sent does not end the connection that the answer goes back on.
  const body = hasBody ? request.pipe(new PassThrough()) : null
  body
    ?.on('error', () => {})
    .once('close', () => {
      request.unpipe(body)
      request.resume()
    })
  const length = headers['transfer-encoding'] === undefined ? headers['content-length'] : undefined
  const message = {
    method,
    path,
    headers: [...headersFor(rawHeaders, place.target, 443), ...(length === undefined ? [] : ['content-length', length])],
    body,
  }
  const fail = (why: ConnectionFailure) => {
    body?.destroy()
    failed(why)
  }
  let to: Writable = response
  const sent = kept.send(place, message, {
    answered(status, raw) {
      const through = scrub === null ? { headers: raw, to: response } : scrubbed(scrub, status, raw, response)
      if (through === null || !writeHead(response, status, through.headers)) {
        sent.cut()
        return fail({ failed: noAnswer(place.target) })
      }
      to = through.to
      to.on('drain', () => sent.resume())
    },
    data(chunk) {
      if (!to.write(chunk)) sent.pause()
    },
    ended: () => void to.end(),
    failed: fail,
  })
  response.once('close', () => {
    sent.cut()
    body?.destroy()
  })
}

/** The way of an answer that may hold what was put into its request; null when it is packed in a way that cannot be looked into, or is
 *  a piece that nobody asked for: of a secret in pieces none is found. */
function scrubbed(
  scrub: Scrubber,
  status: number,
  raw: readonly string[],
  response: ServerResponse,
): { readonly headers: readonly string[]; readonly to: Writable } | null {
  if (status === 206) return null
  const codings = headersNamed(raw, 'content-encoding').map((coding) => coding.trim().toLowerCase())
  const packed = codings.filter((coding) => coding !== 'identity' && coding !== '')
  const isStream = headersNamed(raw, 'content-type').some((type) =>
    type.trimStart().toLowerCase().startsWith('text/event-stream'),
  )
  const strike = scrubbing(scrub, isStream ? 'events' : 'bytes')
  strike.pipe(response)
  // A cookie that was given for a secret of ours is one as well: a cell has no use for what it may not send.
  const headers = droppedFrom(
    new Set(['set-cookie']),
    raw.map((part) => scrub.text(part)),
  )
  // What has no body is not packed, whatever it says of the one that it would have had.
  const isBare = response.req.method === 'HEAD' || status === 204 || status === 304
  if (packed.length === 0 || isBare) return { headers, to: strike }
  const unpack = packed.length === 1 ? unpackers.get(packed[0]!)?.() : undefined
  if (unpack === undefined) return null
  unpack.on('error', () => response.destroy())
  unpack.pipe(strike)
  // It is longer as it is, and nobody knows by how much.
  return { headers: droppedFrom(new Set(['content-encoding', 'content-length']), headers), to: unpack }
}
const droppedFrom = (names: ReadonlySet<string>, raw: readonly string[]): string[] =>
  pairs(raw).flatMap(([name, value]) => (names.has(name.toLowerCase()) ? [] : [name, value]))
const unpackers: ReadonlyMap<string, () => Duplex> = new Map<string, () => Duplex>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

function scrubbing(scrub: Scrubber, kind: 'bytes' | 'events'): Transform {
  const body = scrub.body(kind)
  return new Transform({
    transform: (chunk: Buffer, _encoding, next) => next(null, body.chunk(chunk)),
    flush: (next) => next(null, body.end()),
  })
}

/** The same for a WebSocket: when the other side agrees, both are joined. */
export function upgrade(
  target: Target,
  { path, rawHeaders, scrub }: Filled,
  socket: Socket,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
  answerOf: () => ServerResponse,
  failed: (why: string) => void,
): void {
  const outgoing = begin({ method: request.method, rawHeaders }, target, path, socket, [
    'connection',
    'Upgrade',
    'upgrade',
    'websocket',
  ])
  const fail = () => failed(noAnswer(target))
  const gone = () => outgoing.destroy()
  client.once('close', gone)
  outgoing.once('error', fail)
  // One that is not joined ends here: what it says beside that could hold what was put in.
  outgoing.once('response', (incoming) => (scrub === null ? answer(incoming, answerOf(), fail) : fail()))
  outgoing.once('upgrade', (incoming, _socket, early) => {
    if (incoming.headers.upgrade?.toLowerCase() !== 'websocket') {
      // From here on the connection is nobody's but ours.
      socket.destroy()
      return fail()
    }
    client.off('close', gone)
    const said = endToEnd(incoming.rawHeaders).map((part) => scrub?.text(part) ?? part)
    const headers = ['connection', 'Upgrade', 'upgrade', 'websocket', ...said]
    client.write(`HTTP/1.1 101 Switching Protocols\r\n${headerLines(headers)}\r\n`)
    socket.write(head)
    if (scrub === null) {
      client.write(early)
      return join(client, socket)
    }
    const strike = scrubbing(scrub, 'bytes')
    strike.write(early)
    carry(client, socket)
    carry(socket, strike)
    carry(strike, client)
  })
  outgoing.end()
}

export const isWebSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket'

function begin(
  { method, rawHeaders }: { readonly method?: string | undefined; readonly rawHeaders: readonly string[] },
  target: Target,
  path: string,
  socket: Socket,
  more: string[],
): ClientRequest {
  const headers = [...headersFor(rawHeaders, target, socket instanceof TLSSocket ? 443 : 80), ...more]
  // Without an agent of any kind: with one, even with `false`, Node dials by itself and leaves this connection aside.
  return send({ method: method ?? 'GET', path, headers, createConnection: () => socket, setHost: false })
}

/** Said anew from what was judged; the port that goes without saying is left out. */
function headersFor(rawHeaders: readonly string[], target: Target, portUnsaid: number): string[] {
  const authority = authorityOf(target)
  const host = target.port === portUnsaid ? authority.slice(0, -`:${portUnsaid}`.length) : authority
  return ['host', host, ...endToEnd(rawHeaders), 'via', '1.1 anchorhold']
}

/** How long the body is, said in one way whatever the client said. */
function framing({ headers, method }: IncomingMessage): string[] {
  if (headers['transfer-encoding'] !== undefined) return ['transfer-encoding', 'chunked', 'connection', 'close']
  const length = headers['content-length'] ?? (method === 'GET' || method === 'HEAD' ? null : '0')
  return [...(length === null ? [] : ['content-length', length]), 'connection', 'close']
}

function answer(incoming: IncomingMessage, response: ServerResponse, fail: () => void, scrub: Scrubber | null = null): void {
  const { statusCode: status = 0, rawHeaders: raw } = incoming
  const through = scrub === null ? { headers: raw, to: response } : scrubbed(scrub, status, raw, response)
  if (through === null || !writeHead(response, status, through.headers)) return fail()
  incoming.once('error', () => response.destroy())
  incoming.pipe(through.to)
}

/** Whether an answer could be begun as another server began it. */
function writeHead(response: ServerResponse, status: number, rawHeaders: readonly string[]): boolean {
  // Only a proxy asks for a password in this way, and this one never does.
  if (status < 200 || status === 407 || response.headersSent) return false
  const lengths = new Set(headersNamed(rawHeaders, 'content-length'))
  if (lengths.size > 1) return false
  // Any other coding would come out as it is here, with nothing that says so.
  if (headersNamed(rawHeaders, 'transfer-encoding').some((coding) => coding.trim().toLowerCase() !== 'chunked')) return false
  try {
    response.writeHead(status, [...endToEnd(rawHeaders), ...[...lengths].flatMap((length) => ['content-length', length])])
    return true
  } catch {
    return false
  }
}

/** What concerns one connection only (RFC 9110, 7.6.1), and what is written anew. */
const hopByHop = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade', 'http2-settings', 'expect', 'host', 'content-length'],
])

/** Names and values by turns, without those that concern one connection, by their own name or by being listed as such. */
function endToEnd(raw: readonly string[]): string[] {
  const listed = headersNamed(raw, 'connection').flatMap((value) => value.split(',').map((name) => name.trim().toLowerCase()))
  return raw.filter((_, at) => {
    const name = raw[at - (at % 2)]!.toLowerCase()
    return !hopByHop.has(name) && !listed.includes(name)
  })
}

const headersNamed = (raw: readonly string[], wanted: string): string[] =>
  raw.filter((_, at) => at % 2 === 1 && raw[at - 1]!.length === wanted.length && raw[at - 1]!.toLowerCase() === wanted)
const pairs = (raw: readonly string[]): [string, string][] =>
  Array.from({ length: raw.length / 2 }, (_, at) => [raw[at * 2]!, raw[at * 2 + 1]!])
const headerLines = (raw: readonly string[]): string =>
  pairs(raw)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')
