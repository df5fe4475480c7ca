import type { Actor } from '@anchorhold/core/actors'
import { api, type Api, type ApiName } from '@anchorhold/protocol/api/api'
import { apiRoot, type Problem, type Route } from '@anchorhold/protocol/api/route'
import { Failure, failureCodes } from '@anchorhold/protocol/failures'
import type { TokenId } from '@anchorhold/protocol/ids'
import { openapi } from '@anchorhold/protocol/openapi'
import { TrieRouter } from 'hono/router/trie-router'
import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { addressOf, checkOrigin, cookieName, credentialOf, fromOf, type Address } from './guard.ts'
import { isReply, type Reply, reply } from './reply.ts'
import { type Web, webAnswer } from './web.ts'

/** A listener for a server of `node:http`. */
export type HttpDoor = (request: IncomingMessage, response: ServerResponse) => void

/** The input of a call, parsed by its schemas. */
export type CallInput<R extends Route> = {
  readonly params: R extends { params: infer P extends z.ZodType } ? z.output<P> : unknown
  readonly query: R extends { query: infer Q extends z.ZodType } ? z.output<Q> : unknown
  readonly body: R extends { body: infer B extends z.ZodType } ? z.output<B> : unknown
  readonly actor: Actor
  readonly token: TokenId | null
  readonly headers: IncomingHttpHeaders
  /** Where the call comes from. */
  readonly address: string | null
  /** Aborted when whoever asked is gone. */
  readonly signal: AbortSignal
}
type Answer<R extends Route> = z.input<R['response']> | Reply
/** One function a call: it is given parsed input, calls one verb, and returns what the contract says. */
export type Calls = { readonly [N in ApiName]: (input: CallInput<Api[N]>) => Answer<Api[N]> | Promise<Answer<Api[N]>> }

export type HttpDoorOptions = {
  readonly address: () => Address
  readonly version: string
  readonly whoIs: (
    secret: string,
    role: 'bearer' | 'cookie',
    from: { readonly address: string | null; readonly door: string },
  ) => { readonly actor: Actor; readonly token: TokenId } | null
  /** How many proxies stand before this door and can be believed. */
  readonly trustedProxies: number
  readonly calls: Calls
  /** The web app as it was built. */
  readonly web: Web
  readonly log: (message: string) => void
}

/** Images in a prompt make large bodies: twenty of five megabytes, and their base64. */
const bodyBytesMax = 140 * 1024 * 1024
/** What someone who is not logged in may send. */
const openBodyBytesMax = 16_384
const nobody: Actor = { kind: 'nobody', user: null, name: 'nobody', door: 'http' }

type Asked = {
  readonly request: IncomingMessage
  readonly params: Params
  readonly query: URLSearchParams
  readonly signal: AbortSignal
}
/** This router gives parameters by name, as its node says; others give numbers. */
type Params = Readonly<Record<string, string>>
type Handler = { readonly status: number; readonly answer: (asked: Asked) => unknown }

export function httpDoor({ address, version, whoIs, trustedProxies, calls, web, log }: HttpDoorOptions): HttpDoor {
  const router = new TrieRouter<Handler>()

  const identify = (request: IncomingMessage) => {
    const credential = credentialOf(request.headers, address())
    const found =
      credential === null ? null : whoIs(credential.secret, credential.role, fromOf(request, credential, trustedProxies))
    if (found === null) {
      throw new Failure(
        'unauthenticated',
        credential === null ? 'No token or cookie came with the request' : 'The token or cookie is not valid',
        {
          hint: 'Log in with anchorhold login-link, or send a token made by anchorhold token add',
        },
      )
    }
    return found
  }

  for (const [name, route] of Object.entries<Route>(api)) {
    router.add(route.method, `${apiRoot}${route.path}`, {
      status: route.status,
      async answer({ request, params, query, signal }) {
        // Who asks is known before anything they sent is looked at.
        const { actor, token } = route.open ? { actor: nobody, token: null } : identify(request)
        const input = {
          params: parse(route.params, params),
          query: parse(route.query, Object.fromEntries(query)),
          body:
            route.body === undefined
              ? undefined
              : parse(route.body, await json(request, route.open ? openBodyBytesMax : bodyBytesMax)),
          actor,
          token,
          headers: request.headers,
          address: addressOf(request, trustedProxies),
          signal,
        }
        return (calls[name as ApiName] as (input: unknown) => unknown)(input)
      },
    })
  }
  router.add('GET', `${apiRoot}/openapi.json`, {
    status: 200,
    answer({ request }) {
      identify(request)
      return openapi(version)
    },
  })

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    checkOrigin(request, address())
    const { pathname, searchParams: query } = urlOf(request)
    // A page may be asked for by its head alone: Node leaves the body out then.
    const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '')
    const [[found]] = router.match(method, pathname)
    if (found === undefined) {
      const file = method === 'GET' ? webAnswer(web, pathname, request.headers['accept-encoding'] ?? '') : null
      if (file !== null) return send(response, 200, file)
      throw new Failure('not_found', 'There is nothing under this path', {
        hint: `The API is described at ${apiRoot}/openapi.json`,
      })
    }
    const [handler, params] = found
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    send(
      response,
      handler.status,
      await handler.answer({ request, params: decoded(params as Params), query, signal: gone.signal }),
    )
  }

  return (request, response) => {
    // What goes wrong on the way to somebody who is gone concerns nobody.
    response.on('error', () => {})
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value)
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) return void response.destroy()
      // What is left of a body that is not read would be taken for the next request.
      if (!request.complete) response.setHeader('connection', 'close')
      const { status, body } = problem(error, log)
      if (error instanceof Failure && error.retryMs !== undefined)
        response.setHeader('retry-after', Math.ceil(error.retryMs / 1000))
      send(response, status, body)
    })
  }
}

function send(response: ServerResponse, status: number, answer: unknown): void {
  const { headers, text, value, pour } = isReply(answer) ? answer : reply({ headers: {}, value: answer })
  if (pour !== undefined) {
    response.writeHead(status, headers)
    return pour(response)
  }
  const body = typeof text === 'object' ? text : Buffer.from(text ?? JSON.stringify(value))
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': body.length, ...headers }).end(body)
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  try {
    return new URL(url, 'http://door')
  } catch {
    throw new Failure('bad_request', 'The address is malformed')
  }
}

function decoded(params: Params): Params {
  try {
    return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, decodeURIComponent(value)]))
  } catch {
    throw new Failure('bad_request', 'The address is malformed')
  }
}

const securityHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; font-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types anchorhold",
  'x-frame-options': 'DENY',
  'permissions-policy':
    'accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), magnetometer=(), microphone=(), midi=(), payment=(), usb=()',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

export function loginCookie(
  secret: string,
  { maxAgeSeconds, secure }: { readonly maxAgeSeconds: number; readonly secure: boolean },
): string {
  return `${cookieName(secure)}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure ? '; Secure' : ''}`
}

function parse(schema: z.ZodType | undefined, value: unknown): unknown {
  if (schema === undefined) return undefined
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new Failure('bad_request', z.prettifyError(parsed.error).replaceAll('\n', ' '))
}

async function json(request: IncomingMessage, bytesMax: number): Promise<unknown> {
  const text = await boundedText(request, bytesMax)
  if (text === '') return undefined
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
    throw new Failure('bad_request', 'The body must be JSON', { hint: 'Send content-type: application/json' })
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new Failure('bad_request', 'The body is not valid JSON')
  }
}

function boundedText(request: IncomingMessage, bytesMax: number): Promise<string> {
  const tooLarge = () => new Failure('too_large', `The request is larger than ${bytesMax} bytes`)
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) return Promise.reject(tooLarge())
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const chunks: Buffer[] = []
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= bytesMax) return void chunks.push(chunk)
    // The rest is not read; the connection stays for the answer.
    request.removeAllListeners('data').pause()
    reject(tooLarge())
  })
  request.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')))
  request.once('close', () => reject(new Failure('bad_request', 'The request broke off')))
  return promise
}

/** A failure says what it is; a bug says only where the log has the rest. */
function problem(error: unknown, log: (message: string) => void): { readonly status: number; readonly body: Problem } {
  if (error instanceof Failure) {
    const { code, message, hint } = error
    return { status: failureCodes[code].status, body: { error: { code, message, ...(hint === undefined ? {} : { hint }) } } }
  }
  const id = randomBytes(6).toString('hex')
  log(`bug ${id}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  return { status: 500, body: { error: { code: 'internal', message: 'Something went wrong inside the daemon', id } } }
}
