import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { costOf, priceOf, type Seller, writtenAtMost } from '@anchorhold/core/prices'
import type { Tokens } from '@anchorhold/protocol/events'
import type { Nanos } from '@anchorhold/protocol/money'
import type { Listener, Outgoing, Sent } from '../../providers/connections.ts'
import type { Upstream } from '../../providers/providers.ts'
import { answerIn, refused, unreachable } from './answers.ts'
import type { Answer, Dialect, Meter } from './dialect.ts'
import type { Scrubber } from '../scrub.ts'
import type { Scrub } from '../scrub-events.ts'

/** How a call ended. */
export type Outcome = {
  /** The upstream's status; 0 when it gave none, 499 when the agent left first. */
  readonly status: number
  readonly credentialRefused: boolean
  /** The upstream said what was used. */
  readonly whole: boolean
  /** What the call is booked at. */
  cost(
    call: { readonly model: string; readonly stream: boolean; readonly thinks: boolean; readonly seller: Seller },
    set: { readonly reservedNanos: Nanos; readonly promptNanos: Nanos; readonly maxTokens: number; readonly tookMs: number },
  ): { readonly tokens: Tokens; readonly nanos: Nanos; readonly estimated: boolean }
}

export type Forwarded = {
  readonly dialect: Dialect
  readonly upstream: Upstream
  readonly request: Outgoing
  /** Takes the credential out of what comes back; null where none was sent. */
  readonly scrubber: Scrubber | null
  readonly response: ServerResponse
  /** Holds, while the call is under way, what cuts it off at once. No AbortSignal: it is slow to listen to. */
  readonly cuts: Set<() => void>
}

const passedHeaders = new Set(['content-type', 'content-length', 'request-id', 'retry-after'])
const clientGone = 499
/** An answer this short goes out in one write with its head, if it is a text. */
const textBytesMax = 8 * 1024

/** Sends a request upstream and passes the answer on, byte for byte and as it comes, but for a credential that came back in it. If one side
 *  leaves, the other side's connection ends too. */
export function forward(call: Forwarded): Promise<Outcome> {
  const { dialect, upstream, response, cuts, scrubber } = call
  const { promise, resolve } = Promise.withResolvers<Outcome>()
  let sent: Sent | null = null
  let reading: Meter | null = null
  let head: { readonly status: number; readonly headers: IncomingHttpHeaders } | null = null
  let scrub: Scrub | null = null
  /** Of the answer, not passed on yet. */
  let held: Buffer[] = []
  let passDue = false
  let crowded = false
  let whole = false
  let ended = false
  /** What is booked if the call breaks off now. */
  let broken = (status: number): Outcome =>
    answered(status, reading, head !== null && isGood(head.status) ? 'begun' : 'unanswered')

  const end = (outcome: Outcome) => {
    if (ended) return
    ended = true
    response.off('close', leave)
    cuts.delete(cut)
    resolve(outcome)
  }
  /** The agent is gone: the upstream must not go on working for nobody. */
  const leave = () => {
    if (ended || response.writableFinished) return
    catchUp()
    end(broken(clientGone))
    sent?.cut()
  }
  /** The window closes: both sides at once. */
  const cut = () => {
    catchUp()
    end(broken(clientGone))
    sent?.cut()
    response.destroy()
  }
  /** The agent gets an answer of the window's own in place of the upstream's. */
  const replace = (outcome: Outcome, answer: Answer) => {
    end(outcome)
    sent?.cut()
    answerIn(dialect, response, answer)
  }

  const hold = (chunk: Buffer) => {
    if (chunk.length === 0) return
    held.push(chunk)
  }
  const take = (): Buffer | undefined => {
    const pieces = held
    held = []
    return pieces.length < 2 ? pieces[0] : Buffer.concat(pieces)
  }
  /** What nobody gets any more was still used. */
  const catchUp = () => {
    const rest = take()
    if (rest !== undefined) reading?.feed(rest)
  }
  /** Passes on what came in one go, in one go. */
  const passData = () => {
    passDue = false
    const piece = ended || whole ? undefined : take()
    if (piece === undefined) return
    // First to the agent, then to the meter.
    const room = response.write(piece)
    reading?.feed(piece)
    if (room || crowded) return
    crowded = true
    sent?.pause()
    response.once('drain', () => {
      crowded = false
      sent?.resume()
    })
  }
  const passEnd = (status: number) => {
    const rest = take()
    if (rest !== undefined && rest.length <= textBytesMax) response.end(rest.toString('latin1'), 'latin1')
    else response.end(rest)
    if (rest !== undefined) reading?.feed(rest)
    // The books come after the agent has the end of its answer.
    setImmediate(() => end(reading === null ? costless(status) : answered(status, reading, 'ended')))
  }
  const passHead = (status: number, headers: IncomingHttpHeaders) => {
    if (status >= 300 && status < 400) {
      const sentence = `Provider "${upstream.name}" answered with a redirect (${status}), which Anchorhold never follows`
      return replace(costless(status), unreachable(sentence))
    }
    if (status === 401) {
      const remedy = `Enter another with: anchorhold provider add ${upstream.name}`
      const answer = refused(`Provider "${upstream.name}" refused the credential that Anchorhold sent. ${remedy}`)
      return replace({ ...costless(status), credentialRefused: true }, answer)
    }
    // Nobody can look into it, neither for what it cost nor for a credential.
    if ((headers['content-encoding'] ?? 'identity') !== 'identity' || (headers['transfer-encoding'] ?? 'chunked') !== 'chunked') {
      const answer = unreachable(`Provider "${upstream.name}" answered in a compressed form that was not asked for`)
      return replace(answered(status, null, 'begun'), answer)
    }
    if (isGood(status)) reading = dialect.meter(isStream(headers) ? 'stream' : 'whole')
    else broken = () => costless(status)
    response.writeHead(status, passed(headers, dialect, scrubber))
  }

  const listener: Listener = {
    answered(status, headers) {
      head = { status, headers }
      scrub = scrubber?.body(isStream(headers) ? 'events' : 'bytes') ?? null
      if (!ended) passHead(status, headers)
    },
    data(chunk) {
      if (!ended) hold(scrub === null ? chunk : scrub.chunk(chunk))
      if (ended || held.length === 0 || passDue) return
      passDue = true
      process.nextTick(passData)
    },
    ended() {
      // What was held back of an answer that breaks off is not said: the rest of it may come in another.
      if (!ended && scrub !== null) hold(scrub.end())
      whole = true
      if (!ended) passEnd(head?.status ?? 0)
    },
    failed({ code, sent: wasSent, unread }) {
      if (ended) return
      if (head !== null) {
        // An answer that breaks off must look broken to the agent, or it would take half for the whole.
        catchUp()
        end(broken(head.status))
        response.destroy()
      } else if (unread) {
        dial('fresh')
      } else {
        // What was sent may have been worked on, whether or not anything of it came back.
        replace(wasSent ? broken(0) : costless(0), unreachable(upstream.unreachable(code)))
      }
    },
  }
  const dial = (connection: 'kept' | 'fresh') => {
    sent = upstream.dial(call.request, listener, connection)
  }

  response.on('close', leave)
  cuts.add(cut)
  dial('kept')
  return promise
}

const nothing: Tokens = { input: 0, output: 0, cache_read: 0, cache_write: 0 }

/** Of a call that nobody is charged for. */
export function costless(status: number): Outcome {
  return { status, credentialRefused: false, whole: false, cost: () => ({ tokens: nothing, nanos: 0, estimated: false }) }
}

/** What an answer cost: what it says itself, or else what can be told from what was seen of it, never above what was set aside. */
function answered(status: number, reading: Meter | null, how: 'ended' | 'begun' | 'unanswered'): Outcome {
  const seen = reading?.read() ?? { used: { ...nothing }, whole: false, started: false, thought: false, saidNanos: null }
  return {
    status,
    credentialRefused: false,
    whole: seen.whole,
    cost({ model, stream, thinks, seller }, { reservedNanos, promptNanos, maxTokens, tookMs }) {
      const tokens = stored(seen.used)
      if (seen.whole) {
        // A reseller has prices of its own, and says what they came to. Nobody else is asked what it would like to be paid.
        if (seller === 'reseller' && seen.saidNanos !== null) return { tokens, nanos: seen.saidNanos, estimated: false }
        return { tokens, nanos: costOf(model, seen.used, seller), estimated: !priceOf(model, 0).known }
      }
      // An answer that comes in one piece may have been finished although nothing of it was seen.
      if (how !== 'ended' && !stream) return { tokens, nanos: reservedNanos, estimated: true }
      // Thinking is paid for and not seen: from when it may have begun, the answer may have been as long as it could become until then.
      const isHidden = seen.thought || (thinks && how !== 'unanswered')
      const hidden = seller === 'maker' ? Math.min(maxTokens, writtenAtMost(tookMs)) : maxTokens
      const output = isHidden ? Math.max(hidden, seen.used.output) : seen.used.output
      const nanos = seen.started
        ? costOf(model, { ...seen.used, output }, seller)
        : promptNanos + costOf(model, { ...nothing, output }, seller)
      return { tokens, nanos: Math.min(nanos, reservedNanos), estimated: true }
    },
  }
}

const stored = ({ input, output, cache_read, cache_write }: Tokens): Tokens => ({ input, output, cache_read, cache_write })
const isGood = (status: number) => status >= 200 && status < 300
const isStream = (headers: IncomingHttpHeaders) => (headers['content-type'] ?? '').startsWith('text/event-stream')
function passed(headers: IncomingHttpHeaders, dialect: Dialect, scrubber: Scrubber | null): string[] {
  const kept: string[] = []
  const add = (name: string, value: string) => void kept.push(name, scrubber?.text(value) ?? value)
  for (const name in headers) {
    if (!passedHeaders.has(name) && !dialect.passes(name)) continue
    const value = headers[name]!
    if (typeof value === 'string') add(name, value)
    else for (const one of value) add(name, one)
  }
  return kept
}
