import { apiRoot } from '@anchorhold/protocol/api/addresses'
import type { Problem } from '@anchorhold/protocol/api/route'
import { Failure, failureCodes } from '@anchorhold/protocol/failures'
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpApi } from './api.ts'
import { type Address, checkOrigin, isSecure, urlOf } from './guard.ts'
import { isReply, reply } from './reply.ts'
import { lostAnswer, type Web, webAnswer } from './web.ts'

/** A listener for a server of `node:http`. */
export type HttpDoor = (request: IncomingMessage, response: ServerResponse) => void

export type HttpDoorOptions = {
  readonly address: () => Address
  /** The calls below `/api`; asked for with the first of them. */
  readonly api: () => Promise<HttpApi>
  /** The web app as it was built. */
  readonly web: Web
  readonly log: (message: string) => void
}

export function httpDoor({ address, api, web, log }: HttpDoorOptions): HttpDoor {
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    checkOrigin(request, address())
    const { pathname, searchParams: query } = urlOf(request)
    // A page may be asked for by its head alone: Node leaves the body out then.
    const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '')
    if (pathname.startsWith(`${apiRoot}/`)) {
      const gone = new AbortController()
      response.once('close', () => gone.abort())
      const answered = await (await api()).answer({ request, method, pathname, query, signal: gone.signal })
      if (!('allow' in answered)) return send(response, answered.status, answered.answer)
      if (answered.allow.length > 0) throw wrongMethod(request, response, answered.allow)
    } else {
      const accepts = request.headers['accept-encoding'] ?? ''
      const file = webAnswer(web, pathname, accepts)
      if (file !== null && method !== 'GET') throw wrongMethod(request, response, ['GET', 'HEAD'])
      if (file !== null) return send(response, 200, file)
      const lost = method === 'GET' && /\btext\/html\b/.test(request.headers.accept ?? '') ? lostAnswer(web, accepts) : null
      if (lost !== null) return send(response, 404, lost)
    }
    throw new Failure('not_found', 'There is nothing under this path', {
      hint: `The API is described at ${apiRoot}/openapi.json`,
    })
  }

  return (request, response) => {
    // What goes wrong on the way to somebody who is gone concerns nobody.
    response.on('error', () => {})
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value)
    if (isSecure(address())) response.setHeader('strict-transport-security', 'max-age=31536000')
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
    if (response.req.method === 'HEAD') return void response.end()
    return pour(response)
  }
  const body = typeof text === 'object' ? text : Buffer.from(text ?? JSON.stringify(value))
  // What says nothing else is an answer of the API, which nobody is to keep.
  const usual = { 'content-type': 'application/json', 'cache-control': 'no-store', 'content-length': body.length }
  response.writeHead(status, { ...usual, ...headers }).end(body)
}

/** https://www.rfc-editor.org/rfc/rfc9110#section-15.5.6 */
function wrongMethod({ method }: IncomingMessage, response: ServerResponse, allow: readonly string[]): Failure {
  response.setHeader('allow', allow.join(', '))
  return new Failure('wrong_method', `There is nothing under this path by the method "${method}"`, {
    hint: `Use ${allow.join(' or ')}; the API is described at ${apiRoot}/openapi.json`,
  })
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
