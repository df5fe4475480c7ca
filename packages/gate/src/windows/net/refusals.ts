import type { ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { authorityOf, type Target } from '@anchorhold/core/net/target'
import { netTools } from '@anchorhold/protocol/net-calls'
import { sayLast } from './join.ts'

/** What was wanted, as far as it could be read. */
export type Wanted = {
  readonly target: Target | null
  readonly method: string | null
  readonly path: string | null
}

/** An answer of the window's own: what was blocked or failed, why, and what an agent can do about it. */
export type Refusal = { readonly status: 400 | 403 | 502 | 503; readonly wanted: Wanted; readonly why: string }

/** Of a refused CONNECT most clients show nothing but this line. */
const reasons = { 400: 'Bad Request', 403: 'Blocked by Anchorhold', 502: 'Bad Gateway', 503: 'Service Unavailable' } as const

/** Answers a request. */
export function refuse(response: ServerResponse, refusal: Refusal): void {
  if (response.destroyed) return
  if (response.headersSent) return void response.destroy()
  const body = bodyOf(refusal)
  response.writeHead(refusal.status, reasons[refusal.status], { ...headersOf(refusal, body), connection: 'close' }).end(body)
}

/** Answers a CONNECT, whose connection is no longer a server's to answer on. */
export function refuseRaw(socket: Duplex, refusal: Refusal): void {
  if (socket.destroyed || !socket.writable) return void socket.destroy()
  const body = bodyOf(refusal)
  const headers = Object.entries(headersOf(refusal, body)).map(([name, value]) => `${name}: ${value}\r\n`)
  sayLast(socket, `HTTP/1.1 ${refusal.status} ${reasons[refusal.status]}\r\n${headers.join('')}connection: close\r\n\r\n${body}`)
}

function headersOf({ status, wanted: { target } }: Refusal, body: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...(status === 403 ? { 'x-anchorhold-blocked': target === null ? 'unnamed' : authorityOf(target) } : {}),
  }
}

function bodyOf({ status, wanted, why }: Refusal): string {
  const { target, method, path } = wanted
  const what = { host: target?.host ?? null, port: target?.port ?? null, method, path }
  if (status !== 403) return `${JSON.stringify({ anchorhold: { failed: what, why } })}\n`
  return `${JSON.stringify({ anchorhold: { blocked: what, why, how_to_ask: howToAsk(target) } })}\n`
}

export function howToAsk(target: Target | null): string {
  if (target === null) return 'Name the host in letters, digits and hyphens, or by a plain address'
  const rule = `{ on: net, match: { host: ${JSON.stringify(target.host)}, port: ${target.port} }, effect: allow }`
  const ask = `Ask for it with the tool ${netTools.access} (host ${JSON.stringify(target.host)}, port ${target.port}), and say what you need it for`
  return `${ask}. Whoever you work for can also open it with a rule in policy.yaml: ${rule}`
}
