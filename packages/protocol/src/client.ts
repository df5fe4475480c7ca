import type { z } from 'zod'
import { addresses, apiAddress, type ApiName, apiRoot } from './api/addresses.ts'
import type { Api } from './api/api.ts'
import type { Route } from './api/route.ts'
import { Failure, type FailureCode, failureCodes } from './failures.ts'

type Input<R extends Route> = (R extends { params: infer P extends z.ZodType } ? { readonly params: z.input<P> } : object) &
  (R extends { query: infer Q extends z.ZodType } ? { readonly query?: z.input<Q> } : object) &
  (R extends { body: infer B extends z.ZodType }
    ? undefined extends z.input<B>
      ? { readonly body?: z.input<B> }
      : { readonly body: z.input<B> }
    : object)

/** The arguments may be left out when nothing in them is required. */
type Arguments<I> = object extends I ? [input?: I, signal?: AbortSignal] : [input: I, signal?: AbortSignal]

export type Client = {
  readonly [N in ApiName]: (...args: Arguments<Input<Api[N]>>) => Promise<z.output<Api[N]['response']>>
}

export type ClientOptions = {
  /** `http://127.0.0.1:7777`, or empty for the page's own origin. */
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
  readonly fetch?: typeof fetch
  /** What every answer is held to. Whoever was served by the very daemon that it asks can take its word, and does without the schemas. */
  readonly contract?: Api
}

/** One client for every program that speaks HTTP to the daemon, typed from the contract. Throws `Failure` for what the
 *  daemon says, and `Unanswered` or what `fetch` throws where it was not the daemon that spoke. */
export function client(options: ClientOptions): Client {
  const call = async (name: ApiName, input: CallInput = {}, signal?: AbortSignal) => {
    const response = await send(options, name, input, signal)
    const body: unknown = await response.json().catch(() => null)
    // No call is answered with nothing.
    if (!response.ok || body === null) throw problem(response.status, body)
    return options.contract === undefined ? body : options.contract[name].response.parse(body)
  }
  return Object.fromEntries(
    Object.keys(addresses).map((name) => [
      name,
      (input?: CallInput, signal?: AbortSignal) => call(name as ApiName, input, signal),
    ]),
  ) as unknown as Client
}

/** Opens one of the streaming routes as server-sent events; the caller reads the body. */
export async function openStream(
  options: ClientOptions,
  name: 'sessionEvents' | 'events',
  input: CallInput,
  signal: AbortSignal,
): Promise<ReadableStream<Uint8Array>> {
  const withAccept = { ...options, headers: { ...options.headers, accept: 'text/event-stream' } }
  const response = await send(withAccept, name, input, signal)
  if (!response.ok || response.body === null) throw problem(response.status, await response.json().catch(() => null))
  return response.body
}

/** Opens one of the routes that answer with lines; the caller reads the body. */
export async function openLines(
  options: ClientOptions,
  name: 'exportSession' | 'exportAll',
  input: CallInput,
): Promise<ReadableStream<Uint8Array>> {
  const response = await send(options, name, input)
  if (!response.ok || response.body === null) throw problem(response.status, await response.json().catch(() => null))
  return response.body
}

type CallInput = {
  readonly params?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
}

function send(options: ClientOptions, name: ApiName, input: CallInput, signal?: AbortSignal): Promise<Response> {
  const { method, path: pattern } = apiAddress(name)
  const path = pattern.replace(/:(\w+)/g, (_, field: string) => encodeURIComponent(String(input.params?.[field])))
  const query = Object.entries(input.query ?? {}).filter(([, value]) => value !== undefined)
  const search =
    query.length === 0
      ? ''
      : `?${new URLSearchParams(query.map(([name, value]): [string, string] => [name, String(value)])).toString()}`
  return (options.fetch ?? fetch)(`${options.url}${apiRoot}${path}${search}`, {
    method,
    headers: { ...options.headers, ...(input.body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(input.body === undefined ? {} : { body: JSON.stringify(input.body) }),
    ...(signal === undefined ? {} : { signal }),
  })
}

/** What only the daemon says. One that is newer may have codes that are not known here. */
type Said = { readonly error: { readonly code: string; readonly message: string; readonly hint?: string } }
function isSaid(body: unknown): body is Said {
  const { code, message, hint } = (body as Partial<Said> | null)?.error ?? {}
  return typeof code === 'string' && typeof message === 'string' && (hint === undefined || typeof hint === 'string')
}
const tooLarge = failureCodes.too_large.status

/** An answer came, and not from the daemon: from a proxy whose daemon is gone, or from a network that wants a login first. Whether the
 *  call was carried out is not known; asking again may help. */
export class Unanswered extends Error {
  constructor(status: number) {
    super(`The daemon does not answer: something before it says ${status}`)
    this.name = 'Unanswered'
  }
}

function problem(status: number, body: unknown): Failure | Unanswered {
  if (isSaid(body)) {
    const { code, message, hint } = body.error
    return new Failure(isCode(code) ? code : 'internal', message, hint === undefined ? {} : { hint })
  }
  // However often it is sent, a proxy will not let it through.
  if (status === tooLarge) return new Failure('too_large', 'A proxy in front of the daemon does not accept so much')
  return new Unanswered(status)
}

const isCode = (code: string): code is FailureCode => Object.hasOwn(failureCodes, code)
