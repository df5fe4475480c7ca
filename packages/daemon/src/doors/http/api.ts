import type { Actor } from '@anchorhold/core/actors'
import { apiAddress, type ApiName, apiRoot } from '@anchorhold/protocol/api/addresses'
import { api, type Api } from '@anchorhold/protocol/api/api'
import type { Route } from '@anchorhold/protocol/api/route'
import { Failure } from '@anchorhold/protocol/failures'
import type { TokenId } from '@anchorhold/protocol/ids'
import { limits } from '@anchorhold/protocol/sessions'
import { openapi } from '@anchorhold/protocol/openapi'
import { TrieRouter } from 'hono/router/trie-router'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { issuesInWords } from '../../issue-words.ts'
import { type Address, addressOf, checkCookieUse, credentialOf, fromOf } from './guard.ts'
import { bodyReader } from './read-body.ts'
import type { Reply } from './reply.ts'

/** The calls of the contract, by method and path. */
export interface HttpApi {
  /** Where there is no such call, the methods of those that there are under its path, if any. */
  answer(asked: ApiRequest): Promise<ApiAnswer | { readonly allow: readonly string[] }>
}

export type ApiRequest = {
  readonly request: IncomingMessage
  readonly method: string
  readonly pathname: string
  readonly query: URLSearchParams
  /** Aborted when whoever asked is gone. */
  readonly signal: AbortSignal
}
export type ApiAnswer = { readonly status: number; readonly answer: unknown }

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

/** How a door finds out who asks. */
export type Callers = {
  readonly address: () => Address
  readonly whoIs: (
    secret: string,
    role: 'bearer' | 'cookie',
    from: { readonly address: string | null; readonly door: string },
  ) => { readonly actor: Actor; readonly token: TokenId } | null
  /** How many proxies stand before this door and can be believed. */
  readonly trustedProxies: number
}

export type HttpApiOptions = Callers & { readonly version: string; readonly calls: Calls }

/** Images in a prompt make large bodies: their base64, and the text. */
const largeBytesMax = 2 * limits.imagesBytes
const large: ReadonlySet<ApiName> = new Set(['createSession', 'prompt', 'uploadFile'])
const bodyBytesMax = 4 * 1024 * 1024
/** Of all who send something just now, together. */
const allBytesMax = 4 * largeBytesMax
/** What someone who is not logged in may send. */
const openBodyBytesMax = 16_384
const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
const nobody: Actor = { kind: 'nobody', user: null, name: 'nobody', door: 'http' }

/** This router gives parameters by name, as its node says; others give numbers. */
type Params = Readonly<Record<string, string>>
type Handler = {
  readonly status: number
  readonly open: boolean
  readonly answer: (asked: ApiRequest, params: Params) => unknown
}

export function httpApi({ address, version, whoIs, trustedProxies, calls }: HttpApiOptions): HttpApi {
  const router = new TrieRouter<Handler>()
  const jsonBody = bodyReader(allBytesMax)

  const identify = (request: IncomingMessage) => {
    const credential = credentialOf(request.headers, address())
    const found =
      credential === null ? null : whoIs(credential.secret, credential.role, fromOf(request, credential, trustedProxies))
    if (found !== null) {
      if (credential?.role === 'cookie') checkCookieUse(request)
      return found
    }
    throw new Failure(
      'unauthenticated',
      credential === null && request.headers.authorization === undefined
        ? 'No token or cookie came with the request'
        : 'The token or cookie is not valid',
      { hint: 'Log in with anchorhold login-link, or send a token made by anchorhold token add NAME' },
    )
  }

  for (const [name, route] of Object.entries<Route>(api)) {
    const { method, path } = apiAddress(name as ApiName)
    router.add(method, `${apiRoot}${path}`, {
      status: route.status,
      open: route.open ?? false,
      async answer({ request, query, signal }, params) {
        // Who asks is known before anything they sent is looked at.
        const identified = () => (route.open ? { actor: nobody, token: null } : identify(request))
        const first = identified()
        const bytesMax = route.open ? openBodyBytesMax : large.has(name as ApiName) ? largeBytesMax : bodyBytesMax
        const body = route.body === undefined ? undefined : parse(route.body, await jsonBody(request, bytesMax))
        // They may have taken their time to send it, and lost what they could do when they began.
        const { actor, token } = route.body === undefined ? first : identified()
        const input = {
          params: parse(route.params, params),
          query: parse(route.query, Object.fromEntries(query)),
          body,
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
    open: false,
    answer({ request }) {
      identify(request)
      return openapi(version)
    },
  })

  const handlerOf = (method: string, pathname: string) => router.match(method, pathname)[0][0]
  const others = ({ request, pathname }: ApiRequest): readonly string[] => {
    const allow = methods.filter((method) => handlerOf(method, pathname) !== undefined)
    // Who is not logged in hears what every other method would say.
    if (allow.length > 0 && !allow.some((method) => handlerOf(method, pathname)?.[0].open)) identify(request)
    return allow.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  }

  return {
    async answer(asked) {
      const found = handlerOf(asked.method, asked.pathname)
      if (found === undefined) return { allow: others(asked) }
      const [{ status, answer }, params] = found
      return { status, answer: await answer(asked, decoded(params as Params)) }
    },
  }
}

function decoded(params: Params): Params {
  try {
    return Object.fromEntries(Object.entries(params).map(([name, value]) => [name, decodeURIComponent(value)]))
  } catch {
    throw new Failure('bad_request', 'The address is malformed')
  }
}

function parse(schema: z.ZodType | undefined, value: unknown): unknown {
  if (schema === undefined) return undefined
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new Failure('bad_request', issuesInWords(parsed.error))
}
