import type { ClientRequest, IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { costOf } from '@anchorhold/core/prices'
import type { Tokens } from '@anchorhold/protocol/events'
import type { Nanos } from '@anchorhold/protocol/money'
import type { Upstream } from '../../providers.ts'
import { type Answer, bodyOf, refused, unreachable, unwritable } from './answers.ts'
import { type Meter, meter } from './meter.ts'

/** How a call ended. */
export type Outcome = {
  /** The upstream's status; 0 when it gave none, 499 when the agent left first. */
  readonly status: number
  readonly credentialRefused: boolean
  /** What the call is booked at. */
  cost(
    call: { readonly model: string; readonly stream: boolean },
    set: { readonly reservedNanos: Nanos; readonly promptNanos: Nanos },
  ): { readonly tokens: Tokens; readonly nanos: Nanos; readonly estimated: boolean }
}

export type Forwarded = {
  readonly upstream: Upstream
  readonly path: string
  readonly headers: Readonly<Record<string, string | number>>
  readonly body: string
  readonly response: ServerResponse
  /** When the answer may be passed on; null when nothing has to be waited for. */
  readonly safe: Promise<void> | null
  readonly signal: AbortSignal
}

const passedHeaders = new Set(['content-type', 'content-length', 'request-id', 'retry-after'])
const clientGone = 499

/** Sends a request upstream and passes the answer on, byte for byte and as it comes. Whoever leaves first takes the other along. */
export function forward(call: Forwarded): Promise<Outcome> {
  const { upstream, response, signal } = call
  const { promise, resolve } = Promise.withResolvers<Outcome>()
  let request: ClientRequest
  let reading: Meter | null = null
  let ended = false
  /** What is booked if the call breaks off now. */
  let broken = (status: number): Outcome => answered(status, reading, 'broken')

  const end = (outcome: Outcome) => {
    if (ended) return
    ended = true
    response.off('close', leave)
    signal.removeEventListener('abort', cut)
    resolve(outcome)
  }
  /** The agent is gone: the upstream must not go on working for nobody. */
  const leave = () => {
    if (ended || response.writableFinished) return
    end(broken(clientGone))
    request.destroy()
  }
  /** The window closes: both sides at once. */
  const cut = () => {
    end(broken(clientGone))
    request.destroy()
    response.destroy()
  }
  /** The agent gets an answer of the window's own in place of the upstream's. */
  const replace = (outcome: Outcome, answer: Answer) => {
    end(outcome)
    request.destroy()
    const json = bodyOf(answer)
    response.writeHead(answer.status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }).end(json)
  }

  const passOn = (from: IncomingMessage) => {
    const status = from.statusCode ?? 0
    if (status >= 300 && status < 400) {
      const sentence = `Provider "${upstream.name}" answered with a redirect (${status}), which Anchorhold never follows`
      return replace(costless(status), unreachable(sentence))
    }
    if (status === 401) {
      const remedy = `Enter another with: anchorhold provider add ${upstream.name}`
      const answer = refused(`Provider "${upstream.name}" refused the credential that Anchorhold sent. ${remedy}`)
      return replace({ ...costless(status), credentialRefused: true }, answer)
    }
    if ((from.headers['content-encoding'] ?? 'identity') !== 'identity') {
      const answer = unreachable(`Provider "${upstream.name}" answered in a compressed form that was not asked for`)
      return replace(answered(status, null, 'broken'), answer)
    }
    const good = status >= 200 && status < 300
    if (good) reading = meter(isStream(from.headers) ? 'stream' : 'json')
    else broken = () => costless(status)
    response.writeHead(status, passed(from.headers))
    from.on('data', (chunk: Buffer) => {
      // First to the agent, then to the meter.
      if (!response.write(chunk)) {
        from.pause()
        response.once('drain', () => from.resume())
      }
      reading?.feed(chunk)
    })
    let whole = false
    from.on('end', () => {
      whole = true
      response.end()
      // The books come after the agent has the end of its answer.
      setImmediate(() => end(reading === null ? costless(status) : answered(status, reading, 'ended')))
    })
    // An answer that breaks off must look broken to the agent, or it would take half for the whole.
    from.on('close', () => {
      if (ended || whole) return
      end(broken(status))
      response.destroy()
    })
  }

  // Whoever has an answer must not be able to lose what it cost: the reservation is on the disk before the first byte.
  let safe = call.safe === null
  call.safe?.then(
    () => (safe = true),
    () => {},
  )
  const whenSafe = (from: IncomingMessage) => {
    from.on('error', () => {})
    if (safe) return passOn(from)
    void call.safe?.then(
      () => {
        if (ended) return
        if (!from.destroyed) return passOn(from)
        end(broken(from.statusCode ?? 0))
        response.destroy()
      },
      () => {
        if (!ended) replace(broken(from.statusCode ?? 0), unwritable)
      },
    )
  }

  const dial = (connection: 'kept' | 'fresh') => {
    request = upstream.dial(call.path, call.headers, connection)
    request.on('response', whenSafe)
    request.on('timeout', () => request.destroy(Object.assign(new Error('quiet for too long'), { code: 'ETIMEDOUT' })))
    request.on('error', (error: NodeJS.ErrnoException) => {
      if (ended || response.headersSent) return
      // A kept connection that the other side had just given up was never read from, so the request may be sent again.
      if (request.reusedSocket && error.code === 'ECONNRESET' && connection === 'kept') return dial('fresh')
      const why = error.code ?? 'the connection failed'
      replace(costless(0), unreachable(`Cannot reach provider "${upstream.name}" at ${upstream.origin}: ${why}`))
    })
    request.end(call.body)
  }

  response.on('close', leave)
  signal.addEventListener('abort', cut)
  dial('kept')
  return promise
}

const nothing: Tokens = { input: 0, output: 0, cache_read: 0, cache_write: 0 }

function costless(status: number): Outcome {
  return { status, credentialRefused: false, cost: () => ({ tokens: nothing, nanos: 0, estimated: false }) }
}

/** What an answer cost: what it says itself, or else what can be told from what was seen of it, never above what was set aside. */
function answered(status: number, reading: Meter | null, how: 'ended' | 'broken'): Outcome {
  const seen = reading?.read() ?? { used: { ...nothing }, whole: false, started: false }
  return {
    status,
    credentialRefused: false,
    cost({ model, stream }, { reservedNanos, promptNanos }) {
      const tokens = stored(seen.used)
      if (seen.whole) return { tokens, nanos: costOf(model, seen.used), estimated: false }
      // An answer that comes in one piece may have been finished although nothing of it was seen.
      if (how === 'broken' && !stream) return { tokens, nanos: reservedNanos, estimated: true }
      const nanos = seen.started
        ? costOf(model, seen.used)
        : promptNanos + costOf(model, { ...nothing, output: seen.used.output })
      return { tokens, nanos: Math.min(nanos, reservedNanos), estimated: true }
    },
  }
}

const stored = ({ input, output, cache_read, cache_write }: Tokens): Tokens => ({ input, output, cache_read, cache_write })
const isStream = (headers: IncomingHttpHeaders) => (headers['content-type'] ?? '').startsWith('text/event-stream')
function passed(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const name in headers) {
    if (passedHeaders.has(name) || name.startsWith('anthropic-ratelimit-')) kept[name] = headers[name]!
  }
  return kept
}
