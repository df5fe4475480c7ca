import { type IncomingMessage, request as send } from 'node:http'
import type { Socket } from 'node:net'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { authorityOf, type Misnamed, type Target, urlTarget } from '@anchorhold/core/net/target'
import { printable } from '@anchorhold/core/printable'
import type { FetchAnswer } from '@anchorhold/protocol/net-calls'
import type { Scrubber } from '../scrub.ts'
import { howToAsk, type Refusal, type Wanted } from './refusals.ts'

/** What reads a page for an agent stands on. */
export type FetchParts = {
  /** Judges what is wanted and dials it; otherwise says why not, and gives null. What is said there is to be scrubbed. */
  readonly lead: (
    wanted: Wanted & { readonly target: Target; readonly method: string; readonly path: string },
    signal: AbortSignal,
    refuseWith: (refusal: Refusal) => void,
  ) => Promise<{ readonly socket: Socket; readonly scrub: Scrubber | null } | null>
  /** Whom to believe that it is who it says. */
  readonly trust: () => SecureContext
  readonly bytesMax?: number
  /** How long each place may take, from when it was reached to the last byte. */
  readonly timeMs?: number
}

const bytesMaxUsual = 1024 * 1024
const timeMsUsual = 20_000
const redirectsMax = 5
const headerBytesMax = 32 * 1024
const redirects: readonly number[] = [301, 302, 303, 307, 308]

/** Reads a page for an agent. Invariant: every place on the way is named, judged and dialled as a call out of the cell is; nothing of
 *  the gate's own goes along, and what comes back is not looked into here. */
export async function fetchPage(first: string, parts: FetchParts, signal: AbortSignal): Promise<FetchAnswer> {
  let url = first
  for (let hops = 0; hops <= redirectsMax; hops++) {
    const asked = urlTarget(url)
    if ('misnamed' in asked) return unreadable(url, asked)
    const { target, path, isSecure } = asked
    const wanted = { target, method: 'GET', path }
    let refusal: Refusal | null = null
    const led = await parts.lead(wanted, signal, (why) => {
      refusal = why
    })
    url = urlOf(asked)
    if (led === null) return refused(url, refusal)
    const late = AbortSignal.timeout(parts.timeMs ?? timeMsUsual)
    try {
      const got = await get(asked, led, isSecure, parts, AbortSignal.any([signal, late]))
      if (!('to' in got)) return { answer: 'page', url, ...got }
      url = got.to
    } catch (error) {
      const why = late.aborted ? 'it took too long' : wordsOf(error)
      return { answer: 'failed', url, why: `Cannot read "${url}": ${why}` }
    } finally {
      led.socket.destroy()
    }
  }
  return { answer: 'failed', url, why: `Cannot read "${first.slice(0, 500)}": it leads on more than ${redirectsMax} times` }
}

const urlOf = ({ target, path, isSecure }: { target: Target; path: string; isSecure: boolean }): string => {
  const unsaid = isSecure ? ':443' : ':80'
  const authority = authorityOf(target)
  const host = authority.endsWith(unsaid) ? authority.slice(0, -unsaid.length) : authority
  return `${isSecure ? 'https' : 'http'}://${host}${path}`
}

const unreadable = (url: string, { misnamed }: Misnamed): FetchAnswer => ({
  ...{ answer: 'failed', url: printable(url.slice(0, 500)) },
  why: `Cannot tell where this is to go: ${misnamed}`,
})

function refused(url: string, refusal: Refusal | null): FetchAnswer {
  if (refusal?.status === 403) return { answer: 'blocked', url, why: refusal.why, how_to_ask: howToAsk(refusal) }
  return { answer: 'failed', url, why: refusal?.why ?? 'Nobody waits for it any more' }
}

type Got = { readonly status: number; readonly type: string; readonly body: string; readonly truncated: boolean }

async function get(
  { target, path }: { readonly target: Target; readonly path: string },
  { socket, scrub }: { readonly socket: Socket; readonly scrub: Scrubber | null },
  isSecure: boolean,
  { trust, bytesMax = bytesMaxUsual }: FetchParts,
  signal: AbortSignal,
): Promise<Got | { readonly to: string }> {
  const abort = () => socket.destroy(new Error('nobody waits for it any more'))
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    const connection = isSecure ? await secured(socket, target, trust()) : socket
    const answer = await answerOf(connection, target, path, isSecure)
    const { statusCode: status = 0, headers } = answer
    const struck = (text: string) => scrub?.text(text) ?? text
    if (redirects.includes(status) && headers.location !== undefined)
      return { to: resolved(struck(headers.location), target, path, isSecure) }
    const codings = [headers['content-encoding'] ?? 'identity', headers['transfer-encoding'] ?? 'chunked']
    if (codings.join(' ').toLowerCase() !== 'identity chunked')
      throw new Error('the answer is packed, though it was asked for as it is')
    if (status === 206 && scrub !== null) throw new Error('the answer is a piece that nobody asked for')
    const { body: said, truncated } = await bodyOf(answer, bytesMax)
    // Of one that is cut, the end may be the beginning of a secret.
    const strike = scrub?.body('bytes') ?? null
    const body = strike === null ? said : Buffer.concat([strike.chunk(said), ...(truncated ? [] : [strike.end()])])
    const type = printable(struck(headers['content-type'] ?? '').slice(0, 200))
    return { status, type, body: body.toString('base64'), truncated }
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** TLS to the very host that was judged, whose certificate must be for it. */
function secured(socket: Socket, { host, isAddress }: Target, secureContext: SecureContext): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const connection = connectTls({
    socket,
    // Without a server name the certificate is held against this.
    host,
    ...(isAddress ? {} : { servername: host }),
    ALPNProtocols: ['http/1.1'],
    secureContext,
  })
  connection.once('secureConnect', () => resolve(connection))
  connection.once('error', reject)
  connection.once('close', () => reject(new Error('the connection ended')))
  return promise
}

function answerOf(connection: Socket, target: Target, path: string, isSecure: boolean): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const { host } = new URL(urlOf({ target, path: '/', isSecure }))
  const headers = {
    ...{ host, 'user-agent': 'anchorhold-web-fetch', accept: 'text/html, text/*, application/json, */*;q=0.5' },
    ...{ 'accept-encoding': 'identity', connection: 'close' },
  }
  const call = send({
    method: 'GET',
    path,
    headers,
    setHost: false,
    createConnection: () => connection,
    maxHeaderSize: headerBytesMax,
  })
  call.once('response', resolve)
  call.on('error', reject)
  // Nothing else is ever spoken on it.
  call.once('upgrade', (_, socket) => {
    socket.destroy()
    reject(new Error('the server wants to speak another protocol'))
  })
  call.once('close', () => reject(new Error('the connection ended')))
  call.end()
  return promise
}

/** Where a redirect leads, as one URL; it is read and judged as the first one was. A host that it names is left as it is written:
 *  the rules of URLs make addresses of much that is none. */
function resolved(header: string, target: Target, path: string, isSecure: boolean): string {
  const location = Buffer.from(header, 'latin1').toString('utf8').trim()
  if (/^[a-z][a-z0-9+.-]*:/i.test(location)) return location
  if (location.startsWith('//')) return `${isSecure ? 'https' : 'http'}:${location}`
  const here = urlOf({ target, path, isSecure })
  const next = URL.parse(location, here)
  if (next === null || next.host !== new URL(here).host) throw new Error('it leads on to what is no URL')
  return here.slice(0, -path.length) + next.pathname + next.search
}

async function bodyOf(
  answer: IncomingMessage,
  bytesMax: number,
): Promise<{ readonly body: Buffer; readonly truncated: boolean }> {
  const chunks: Buffer[] = []
  let left = bytesMax
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk.subarray(0, left))
    if (chunk.length > left) return { body: Buffer.concat(chunks), truncated: true }
    left -= chunk.length
  }
  return { body: Buffer.concat(chunks), truncated: false }
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return 'it failed'
  const { code } = error as NodeJS.ErrnoException
  return code !== undefined && /CERT|SIGNATURE|ISSUER|ALTNAME/.test(code)
    ? `its certificate is not to be trusted (${printable(code)})`
    : printable(error.message).slice(0, 300)
}
