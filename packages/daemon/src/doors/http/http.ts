import type { Actor } from '@anchorhold/core/actors'
import { api, type Api, type ApiName, apiRoot, type Problem, type Route } from '@anchorhold/protocol/api'
import { Failure, failureCodes } from '@anchorhold/protocol/failures'
import type { TokenId } from '@anchorhold/protocol/ids'
import { openapi } from '@anchorhold/protocol/openapi'
import { Hono } from 'hono'
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { checkOrigin, cookieName, credentialOf, type Address } from './guard.ts'
import { page } from './page.ts'

export type HttpDoor = { readonly fetch: (request: Request) => Response | Promise<Response> }

/** The input of a call, parsed by its schemas. */
export type CallInput<R extends Route> = {
  readonly params: R extends { params: infer P extends z.ZodType } ? z.output<P> : unknown
  readonly query: R extends { query: infer Q extends z.ZodType } ? z.output<Q> : unknown
  readonly body: R extends { body: infer B extends z.ZodType } ? z.output<B> : unknown
  readonly actor: Actor
  readonly token: TokenId | null
  readonly request: Request
}
type Answer<R extends Route> = z.input<R['response']> | Response
/** One function a call: it is given parsed input, calls one verb, and returns what the contract says. */
export type Calls = { readonly [N in ApiName]: (input: CallInput<Api[N]>) => Answer<Api[N]> | Promise<Answer<Api[N]>> }

export type HttpDoorOptions = {
  readonly address: () => Address
  readonly version: string
  readonly whoIs: (secret: string, role: 'bearer' | 'cookie') => { readonly actor: Actor; readonly token: TokenId } | null
  readonly calls: Calls
  readonly log: (message: string) => void
}

/** Images in a prompt make large bodies: twenty of five megabytes, and their base64. */
const bodyBytesMax = 140 * 1024 * 1024
/** What someone who is not logged in may send. */
const openBodyBytesMax = 4096
const nobody: Actor = { kind: 'owner', name: 'nobody', door: 'http' }

export function httpDoor({ address, version, whoIs, calls, log }: HttpDoorOptions): HttpDoor {
  const app = new Hono()
  app.onError((error) => problem(error, log))
  app.notFound(() =>
    problem(
      new Failure('not_found', 'There is nothing under this path', { hint: `The API is described at ${apiRoot}/openapi.json` }),
      log,
    ),
  )
  app.use(async (c, next) => {
    checkOrigin(c.req.raw, address())
    await next()
    for (const [name, value] of Object.entries(securityHeaders)) c.res.headers.set(name, value)
  })

  const identify = (request: Request) => {
    const credential = credentialOf(request)
    const found = credential === null ? null : whoIs(credential.secret, credential.role)
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
    app.on(route.method, `${apiRoot}${route.path}`, async (c) => {
      // Who asks is known before anything they sent is looked at.
      const { actor, token } = route.open ? { actor: nobody, token: null } : identify(c.req.raw)
      const input = {
        params: parse(route.params, c.req.param()),
        query: parse(route.query, c.req.query()),
        body:
          route.body === undefined
            ? undefined
            : parse(route.body, await json(c.req.raw, route.open ? openBodyBytesMax : bodyBytesMax)),
        actor,
        token,
        request: c.req.raw,
      }
      const answer = await (calls[name as ApiName] as (input: unknown) => unknown)(input)
      return answer instanceof Response ? answer : Response.json(answer, { status: route.status })
    })
  }
  app.get(`${apiRoot}/openapi.json`, (c) => {
    identify(c.req.raw)
    return c.json(openapi(version))
  })
  page(app)
  return { fetch: (request) => app.fetch(request) }
}

const securityHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

export function loginCookie(
  secret: string,
  { maxAgeSeconds, secure }: { readonly maxAgeSeconds: number; readonly secure: boolean },
): string {
  return `${cookieName}=${secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAgeSeconds}${secure ? '; Secure' : ''}`
}

function parse(schema: z.ZodType | undefined, value: unknown): unknown {
  if (schema === undefined) return undefined
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new Failure('bad_request', z.prettifyError(parsed.error).replaceAll('\n', ' '))
}

async function json(request: Request, bytesMax: number): Promise<unknown> {
  const text = await boundedText(request, bytesMax)
  if (text === '') return undefined
  if (!/^application\/json\b/i.test(request.headers.get('content-type') ?? '')) {
    throw new Failure('bad_request', 'The body must be JSON', { hint: 'Send content-type: application/json' })
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new Failure('bad_request', 'The body is not valid JSON')
  }
}

async function boundedText(request: Request, bytesMax: number): Promise<string> {
  const tooLarge = () => new Failure('too_large', `The request is larger than ${bytesMax} bytes`)
  if (Number(request.headers.get('content-length') ?? 0) > bytesMax) throw tooLarge()
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length
    if (bytes > bytesMax) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** A failure says what it is; a bug says only where the log has the rest. */
function problem(error: unknown, log: (message: string) => void): Response {
  if (error instanceof Failure) {
    const { code, message, hint } = error
    const body: Problem = { error: { code, message, ...(hint === undefined ? {} : { hint }) } }
    return Response.json(body, { status: failureCodes[code].status })
  }
  const id = randomBytes(6).toString('hex')
  log(`bug ${id}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  const body: Problem = { error: { code: 'internal', message: 'Something went wrong inside the daemon', id } }
  return Response.json(body, { status: 500 })
}
