import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Patience } from '@anchorhold/core/authority/authority'
import type { Route } from '@anchorhold/core/net/routes'
import { connectTarget, originPath, type Target } from '@anchorhold/core/net/target'
import type { NetAction } from '@anchorhold/protocol/actions'
import { type AccessAnswer, AccessAsk, accessPath, type FetchAnswer, FetchAsk, fetchPath } from '@anchorhold/protocol/net-calls'
import type { Dialler } from './dial.ts'
import { fetchPage, type FetchParts } from './fetch.ts'

export type OwnCallsParts = Pick<FetchParts, 'lead' | 'trust'> & {
  /** Asks for a call before it is made, with what the agent says of it. */
  readonly askAhead: (
    action: NetAction,
    said: string,
    patience: Patience,
  ) => Promise<{ readonly allow: true; readonly by: string } | { readonly allow: false; readonly why: string }>
  readonly routeOf: (target: Target) => Route
  /** Whether what goes to a place over TLS is looked into. */
  readonly isOpenedTo: (target: Target) => boolean
  readonly dialler: Pick<Dialler, 'refuses'>
  readonly aheadMs?: number
}

/** Whoever asks ahead has other things to do meanwhile, and is told when it is settled. */
const aheadMsUsual = 120_000
const bodyBytesMax = 32 * 1024
/** Each may hold a page in memory. */
const callsMax = 8

/** What a net window does itself, for tools of the agent's: see `protocol/net-calls.ts`. */
export type OwnCalls = {
  /** Whether a request is one of these: it names no other place, so it can be no call through the window. */
  isOne(request: IncomingMessage): boolean
  answer(request: IncomingMessage, response: ServerResponse, gone: AbortSignal): Promise<void>
}

export function ownCalls(parts: OwnCallsParts): OwnCalls {
  let calls = 0

  async function access(ask: AccessAsk, gone: AbortSignal): Promise<AccessAnswer> {
    const { host, port, method, path } = ask
    const denied = (why: string): AccessAnswer => ({ answer: 'denied', why })
    const target = connectTarget(`${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`)
    if ('misnamed' in target) return denied(`Cannot tell where this is to go: ${target.misnamed}`)
    const said = path === undefined ? null : originPath(path)
    if (said !== null && typeof said !== 'string') return denied(`Cannot tell what this is to ask for: ${said.misnamed}`)
    const { ownNetwork } = parts.routeOf(target)
    const never = parts.dialler.refuses(target, { ownNetwork })
    if (never !== null) return denied(never)
    // As the call itself will be judged, because what is allowed is bound to that.
    const isSeen = target.port === 80 || parts.isOpenedTo(target)
    if (isSeen && (method === undefined || said === null))
      return denied('What goes there is seen and allowed call by call: say its method and path, as "GET" and "/index.html"')
    const seen = isSeen ? { method: method!, path: said } : { method: null, path: null }
    const late = AbortSignal.timeout(parts.aheadMs ?? aheadMsUsual)
    const action = { kind: 'net', host: target.host, port: target.port, ...seen } as const
    const verdict = await parts.askAhead(action, ask.why, () => AbortSignal.any([gone, late]))
    if (verdict.allow) return { answer: 'allowed', why: verdict.by }
    if (!late.aborted) return denied(verdict.why)
    return {
      answer: 'not yet',
      why: 'A person was asked and has not answered yet. You will be told when they have; do not ask again',
    }
  }

  async function answer(request: IncomingMessage, gone: AbortSignal): Promise<AccessAnswer | FetchAnswer | null> {
    const body = await jsonOf(request)
    if (request.url === accessPath) {
      const ask = AccessAsk.safeParse(body)
      return ask.success ? access(ask.data, gone) : null
    }
    const ask = FetchAsk.safeParse(body)
    return ask.success ? fetchPage(ask.data.url, parts, gone) : null
  }

  return {
    isOne: ({ url, method }) => method === 'POST' && (url === accessPath || url === fetchPath),
    async answer(request, response, gone) {
      if (calls >= callsMax) return reply(response, 429, { error: `So many at once are too many: ${callsMax} are under way` })
      calls++
      try {
        const answered = await answer(request, gone)
        reply(response, answered === null ? 400 : 200, answered ?? { error: 'This is no call that can be read' })
      } finally {
        calls--
      }
    },
  }
}

async function jsonOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bodyBytesMax) return null
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
  } catch {
    return null
  }
}

function reply(response: ServerResponse, status: number, value: object): void {
  if (!response.destroyed)
    response.writeHead(status, { 'content-type': 'application/json', connection: 'close' }).end(JSON.stringify(value))
}
