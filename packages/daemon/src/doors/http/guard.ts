import { cliAgent } from '@anchorhold/protocol/api/route'
import { Failure } from '@anchorhold/protocol/failures'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/** What the door knows of its own address. */
export type Address = { readonly port: number; readonly publicUrl: string | null }

/** Refuses a request that was meant for another site (DNS rebinding) or that another site's page makes. */
export function checkOrigin({ method, headers, headersDistinct }: IncomingMessage, { port, publicUrl }: Address): void {
  // Node reads the first of them; whoever stands in front of this may have read another.
  if ((headersDistinct.host?.length ?? 0) > 1) throw new Failure('bad_request', 'The request names its host twice')
  const names = ['localhost', '127.0.0.1', '[::1]'].map((name) => `${name}:${port}`)
  const own = new Set([...names, ...(publicUrl === null ? [] : [new URL(publicUrl).host])])
  const { host, origin } = headers
  if (host === undefined || !own.has(host.toLowerCase())) {
    throw new Failure('foreign_host', 'The Host header does not name this daemon', {
      hint: `Use http://localhost:${port}, or set public_url in config.yaml`,
    })
  }
  const origins = new Set([...names.map((name) => `http://${name}`), ...(publicUrl === null ? [] : [new URL(publicUrl).origin])])
  if (origin !== undefined && !origins.has(origin.toLowerCase()))
    throw new Failure('foreign_origin', 'This request comes from a page of another site')
  // A link on another site may open our page, which shows nothing by itself; nothing else from there is let in.
  if (headers['sec-fetch-site'] === 'cross-site' && !(method === 'GET' && headers['sec-fetch-mode'] === 'navigate')) {
    throw new Failure('foreign_origin', 'This request comes from a page of another site')
  }
}

/** Where a request is to go. */
export function urlOf({ url = '/' }: IncomingMessage): URL {
  try {
    return new URL(url, 'http://door')
  } catch {
    throw new Failure('bad_request', 'The address is malformed')
  }
}

const safe = new Set(['GET', 'HEAD'])

/** A cookie comes along whoever made the browser ask: it counts only for what our own page asks for. Browsers that do not say where a
 *  request comes from name at least the origin of one that changes something. */
export function checkCookieUse({ method = '', headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site']
  const ownPage = site === 'same-origin' || (site === undefined && headers.origin !== undefined)
  const reads = safe.has(method) && (site === undefined || site === 'none')
  if (!ownPage && !reads) throw new Failure('foreign_origin', 'This request does not come from a page of this daemon')
}

/** Who calls, by address. Behind proxies of the owner's each has written down whom it heard from: what stands farther to the front
 *  came with the request, and may say anything. */
export function addressOf({ headers, socket }: IncomingMessage, trustedProxies: number): string | null {
  const seen = socket.remoteAddress?.replace(/^::ffff:/, '') ?? null
  if (trustedProxies === 0) return seen
  const said = String(headers['x-forwarded-for'] ?? '')
    .split(',')
    .at(-trustedProxies)
    ?.trim()
  return said !== undefined && isIP(said) > 0 ? said : seen
}

/** What the log calls the way somebody came in by. Invariant: a label and no more, since a program may call itself anything; no right
 *  hangs on it. */
function doorOf({ 'user-agent': agent = '' }: IncomingHttpHeaders, role: 'bearer' | 'cookie'): 'web' | 'cli' | 'http' {
  return role === 'cookie' ? 'web' : agent.startsWith(cliAgent) ? 'cli' : 'http'
}

/** Under HTTPS the name itself keeps other hosts of the same site from setting it:
 *  https://www.rfc-editor.org/rfc/rfc6265bis#section-4.1.3.2 */
export const cookieName = (secure: boolean): string => (secure ? '__Host-anchorhold' : 'anchorhold')

export function loginCookie(
  secret: string,
  { maxAgeSeconds, secure }: { readonly maxAgeSeconds: number; readonly secure: boolean },
): string {
  return `${cookieName(secure)}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure ? '; Secure' : ''}`
}

/** Whether people reach the daemon by HTTPS: then every cookie of its own is one that only HTTPS carries. */
export const isSecure = ({ publicUrl }: Address): boolean => publicUrl?.startsWith('https:') ?? false

/** The secret that came along, and how. */
export function credentialOf(
  { authorization = '', cookie = '' }: IncomingHttpHeaders,
  address: Address,
): { readonly secret: string; readonly role: 'bearer' | 'cookie' } | null {
  const bearer = /^Bearer ([\w-]{20,200})$/.exec(authorization)
  if (bearer !== null) return { secret: bearer[1]!, role: 'bearer' }
  for (const part of cookie.split(';')) {
    const [name, value] = part.trim().split('=')
    if (name === cookieName(isSecure(address)) && value !== undefined && value !== '') return { secret: value, role: 'cookie' }
  }
  return null
}

/** Where somebody comes from, for the log. */
export const fromOf = (request: IncomingMessage, { role }: { readonly role: 'bearer' | 'cookie' }, trustedProxies: number) => ({
  address: addressOf(request, trustedProxies),
  door: doorOf(request.headers, role),
})
