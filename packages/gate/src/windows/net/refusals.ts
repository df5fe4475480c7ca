import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { authorityOf, type Target } from '@anchorhold/core/net/target'
import { netTools } from '@anchorhold/protocol/net-calls'
import { forbidden } from './dial.ts'
import { sayLast } from './join.ts'

/** What was wanted, as far as it could be read. */
export type Wanted = {
  readonly target: Target | null
  readonly method: string | null
  readonly path: string | null
}

export const nothing: Wanted = { target: null, method: null, path: null }

/** An answer of the window's own: what was blocked or failed, why, and what an agent can do about it. */
export type Refusal = {
  readonly status: 400 | 403 | 431 | 502 | 503
  readonly wanted: Wanted
  readonly why: string
  /** What to do where asking for it would not help. */
  readonly instead?: string
}

/** Whether nobody is there to be asked. */
type Whom = { readonly alone?: boolean }

/** Some programs show nothing but the first line of an answer: what was blocked says why there as well. */
const reasonOf = ({ status, why }: Refusal): string =>
  status === 403 ? `${reasons[403]}: ${why.replace(/[^\x20-\x7e]/g, '?').slice(0, reasonCharsMax)}` : reasons[status]
const reasonCharsMax = 200
const reasons = {
  400: 'Bad Request',
  403: 'Blocked by Anchorhold',
  431: 'Request Header Fields Too Large',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
} as const

/** Answers a request. */
export function refuse(response: ServerResponse, refusal: Refusal, whom: Whom = {}): void {
  if (response.destroyed) return
  if (response.headersSent) return void response.destroy()
  // Git shows what a server says in plain text, and nothing else of it.
  const isGit = refusal.status === 403 && response.req.headers['user-agent']?.startsWith('git/') === true
  const body = isGit ? `${reasons[403]}: ${refusal.why}\n${howToAsk(refusal, whom)}\n` : bodyOf(refusal, whom)
  const type = isGit ? { 'content-type': 'text/plain; charset=utf-8' } : {}
  response.writeHead(refusal.status, reasonOf(refusal), { ...headersOf(refusal, body), ...type, connection: 'close' }).end(body)
}

/** Answers a CONNECT, whose connection is no longer a server's to answer on. */
export function refuseRaw(socket: Duplex, refusal: Refusal, whom: Whom = {}): void {
  if (socket.destroyed || !socket.writable) return void socket.destroy()
  const body = bodyOf(refusal, whom)
  const headers = Object.entries(headersOf(refusal, body)).map(([name, value]) => `${name}: ${value}\r\n`)
  sayLast(socket, `HTTP/1.1 ${refusal.status} ${reasonOf(refusal)}\r\n${headers.join('')}connection: close\r\n\r\n${body}`)
}

function headersOf({ status, wanted: { target } }: Refusal, body: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...(status === 403 ? { 'x-anchorhold-blocked': target === null ? 'unnamed' : authorityOf(target) } : {}),
  }
}

function bodyOf(refusal: Refusal, whom: Whom): string {
  const { status, wanted, why } = refusal
  const { target, method, path } = wanted
  const what = { host: target?.host ?? null, port: target?.port ?? null, method, path }
  if (status !== 403) return `${JSON.stringify({ anchorhold: { failed: what, why } })}\n`
  // gh shows the `message` of an answer.
  const message = `${reasons[403]}: ${why}`
  return `${JSON.stringify({ message, anchorhold: { blocked: what, why, how_to_ask: howToAsk(refusal, whom) } })}\n`
}

export function howToAsk(
  { wanted: { target, method, path }, why, instead }: Pick<Refusal, 'wanted' | 'why' | 'instead'>,
  { alone }: Whom = {},
): string {
  if (instead !== undefined) return instead
  if (target === null) return 'Name the host in letters, digits and hyphens, or by a plain address'
  const match = `on: net, match: { host: ${JSON.stringify(target.host)}, port: ${target.port} }, effect: allow`
  // No answer of a person's would lead there: only a rule that names the place.
  if (why === forbidden(target))
    return `Asking does not help here. Where it is a place of your own network, whoever you work for can open it with a rule in policy.yaml: { ${match}, own_network: true }`
  const rule = `{ ${match} }`
  // Without a daemon the cell has no such tool, and nobody would hear it.
  if (alone) return `A rule in policy.yaml opens it: ${rule}`
  const called = [`host ${JSON.stringify(target.host)}`, `port ${target.port}`]
  if (method !== null && path !== null) called.push(`method ${JSON.stringify(method)}`, `path ${JSON.stringify(path)}`)
  const ask = `Ask for it with the tool ${netTools.access} (${called.join(', ')}), and say what you need it for`
  return `${ask}. Whoever you work for can also open it with a rule in policy.yaml: ${rule}`
}
