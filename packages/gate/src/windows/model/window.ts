import { rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { type Lease, leftNanos, leftOf } from '@anchorhold/core/ledger'
import { priceOf, worstCase } from '@anchorhold/core/prices'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { type Rates, settlePath, type Settlement, watchPath } from '@anchorhold/protocol/link'
import { formatUsd, microsUp, type Nanos } from '@anchorhold/protocol/money'
import type { Spend } from '@anchorhold/protocol/sessions'
import type { SessionAuthority } from '../../authority.ts'
import type { Account, Books, Reserved, Shortage } from '../../books.ts'
import type { RateLimits } from '../../rates.ts'
import { shortSentence } from '../../warnings.ts'
import { oauthBeta, type Upstream } from '../../providers.ts'
import { type Answer, bodyOf, overloaded, refused, tooLarge, unknownPath, unwritable } from './answers.ts'
import { bodyBytesMax, readBody } from './body.ts'
import { costless, forward, type Outcome } from './forward.ts'
import { type HeldCalls, heldCalls, type Refusal, spendAction } from './held.ts'
import { modelPolicy, type ModelPolicy } from './model-policy.ts'
import { prefixes } from './prefixes.ts'
import { screen, screenBetas, type Screened, serialise } from './screen.ts'
import { listenAt } from '../listen.ts'

/** A session's window to its model. */
export type ModelWindow = Pick<HeldCalls<SetAside>, 'price' | 'retry'> & {
  /** Something changed for calls that are yet to come, these terms or the money: what is refused from here on is said anew. */
  update(terms?: Terms): void
  /** Holds new calls back, unanswered; running ones finish. */
  pause(): void
  resume(): void
  /** Resolves when every call has its answer and is in the books. */
  quiet(): Promise<void>
  /** Ends every call at once, books what it cost, and takes the socket away. */
  close(): Promise<void>
}

/** On what terms a session may call its model. */
export type Terms = {
  readonly upstream: Upstream
  /** What the owner allows beyond what agents need (see `screen`). */
  readonly allow: ReadonlySet<string>
  /** What becomes of a call that the lease does not hold. */
  readonly spend: Spend
  readonly rates: Rates | undefined
}

/** One line of the log of a window. It never holds a header or a body. */
export type CallLine = {
  readonly session: SessionId
  readonly method: string
  readonly path: string
  readonly status: number
  readonly bytes: number
  readonly ms: number
}

export type WindowParts = {
  readonly session: SessionId
  /** Who may enter the folder may use the window. */
  readonly folder: string
  readonly terms: Terms
  readonly account: Account
  readonly books: Books
  readonly authority: SessionAuthority
  readonly rates: RateLimits
  readonly now: () => number
  readonly log: (line: CallLine) => void
  /** How long a call waits for somebody to pay for it. */
  readonly heldMs: number
  /** The turn is about to end: what belongs to it is written down now. */
  readonly settling?: () => void
}

/** What a call was promised. */
type SetAside = {
  readonly reserved: Reserved
  readonly promptNanos: number
  /** Nobody is charged for it. */
  readonly free: boolean
  readonly measured: (promptTokens: number) => void
}

/** What the kernel takes (unix(7)), on Linux and on macOS. */
const socketPathBytesMax = process.platform === 'darwin' ? 103 : 107
const connectionsMax = 256
const callsMax = 64
/** Bodies of one session that are in memory at the same time. */
const heldBytesMax = 4 * bodyBytesMax
const headerBytesMax = 64 * 1024
/** An agent keeps its connection between two calls for about as long as a tool runs. */
const keepAliveMs = 5 * 60 * 1000
const quietMs = 15 * 60 * 1000
const settleWaitMs = 5000

const endpoints: Readonly<Record<string, 'messages' | 'count_tokens'>> = {
  '/v1/messages': 'messages',
  '/v1/messages/count_tokens': 'count_tokens',
}

export async function modelWindow(parts: WindowParts): Promise<ModelWindow> {
  const { session, account, books, authority, now } = parts
  const path = join(parts.folder, 'model.sock')
  if (Buffer.byteLength(path) > socketPathBytesMax) {
    throw new Failure(
      'gate_unavailable',
      `Cannot open a window at "${path}": the path of a socket may be ${socketPathBytesMax} bytes long`,
      {
        hint: 'Choose a shorter state folder',
      },
    )
  }
  let terms = parts.terms
  let paused: PromiseWithResolvers<void> | null = null
  let heldBytes = 0
  let calls = 0
  let refusal: Settlement['refused'] = null
  /** What was said already, so that it is said once. */
  let noticed = new Set<string>()
  const known = prefixes()
  let inForce = { of: authority.terms.policy, ready: modelPolicy(authority.terms.policy) }
  /** Calls that were dialled and are not in the books yet. */
  const open = new Set<Promise<void>>()
  const closing = new AbortController()

  const held = heldCalls<SetAside>({
    account,
    authority,
    waitMs: parts.heldMs,
    isPaused: () => paused !== null,
  })

  const notice = (code: string, level: 'warning' | 'error', message: string) => {
    if (noticed.has(code)) return
    noticed.add(code)
    account.note({ type: 'notice', body: { level, code, message } })
  }

  const server = createServer(
    { maxHeaderSize: headerBytesMax, keepAliveTimeout: keepAliveMs, requestTimeout: quietMs },
    (request, response) => {
      const startedAt = now()
      const { socket } = request
      const writtenBefore = socket.bytesWritten
      const { pathname, beta } = target(request.url ?? '')
      response.on('close', () => {
        const bytes = socket.bytesWritten - writtenBefore
        const line = { session, method: request.method ?? '', path: shownPath(pathname), status: response.statusCode, bytes }
        parts.log({ ...line, ms: now() - startedAt })
      })
      if (request.method === 'HEAD') return void response.writeHead(200).end()
      const endpoint = Object.hasOwn(endpoints, pathname) ? endpoints[pathname] : undefined
      if (request.method === 'POST' && endpoint !== undefined) return void answerCall(request, response, endpoint, beta)
      if (request.method === 'POST' && pathname === settlePath) return void answerSettle(request, response)
      // Never answered to its end: whoever waits here hears at once when the gate is gone.
      if (request.method === 'GET' && pathname === watchPath) return response.writeHead(200).flushHeaders()
      request.resume()
      answer(response, unknownPath('This window serves POST /v1/messages and /v1/messages/count_tokens only'))
    },
  )
  server.maxConnections = connectionsMax
  server.timeout = quietMs

  async function answerCall(
    request: IncomingMessage,
    response: ServerResponse,
    endpoint: 'messages' | 'count_tokens',
    beta: boolean,
  ) {
    let admitted = 0
    calls += 1
    try {
      if (calls > callsMax) {
        request.resume()
        return answer(response, overloaded(`This session has ${callsMax} model calls under way: try again when one has ended`))
      }
      const raw = await readBody(request, (bytes) => {
        if (heldBytes + bytes > heldBytesMax) return false
        heldBytes += bytes
        admitted += bytes
        return true
      })
      if (raw === 'gone') return
      if (raw === 'too_large') {
        return answer(response, tooLarge(`The request is larger than ${bodyBytesMax / 1024 / 1024} MiB`))
      }
      if (raw === 'crowded')
        return answer(response, overloaded('This session sends too much at once: try again when a call has ended'))
      const { denied, refuseModel } = policy()
      const result = screen(raw, terms.allow, endpoint, denied)
      if (!result.ok) {
        if (result.answer.status === 403) refusal = 'rules'
        return answer(response, result.answer)
      }
      const against = refuseModel(result.request.model)
      if (against !== null) return refuseByRules(response, 'model_denied', against)
      await call(result.request, request, response, endpoint, beta)
    } catch {
      // A bug. Its words stay here.
      if (response.headersSent) response.destroy()
      else answer(response, { status: 500, type: 'api_error', message: 'The model window failed' })
    } finally {
      heldBytes -= admitted
      calls -= 1
    }
  }

  async function call(request: Screened, from: IncomingMessage, response: ServerResponse, endpoint: string, beta: boolean) {
    while (paused !== null && !response.destroyed) await orGone(paused.promise, response)
    if (response.destroyed || closing.signal.aborted) return response.destroy()
    const { upstream, allow } = terms
    if (books.broken) return answer(response, unwritable)
    let credential: Readonly<Record<string, string>>
    try {
      credential = await upstream.authorise()
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      const sentence = error.hint === undefined ? error.message : `${error.message}. ${error.hint}`
      refusal = 'credential'
      notice('credential_missing', 'error', sentence)
      return answer(response, refused(sentence))
    }
    if (response.destroyed) return

    const agent = agentOf(from.headers)
    const about = { provider: upstream.name, model: request.model, agent }
    const { judgesSpending, refuseContext } = policy()
    const tooLong = refuseContext?.(contextTokens(request)) ?? null
    if (tooLong !== null) return refuseByRules(response, 'context_denied', tooLong)
    if (terms.rates !== undefined && endpoint === 'messages') {
      const tooMany = await parts.rates.admit(terms.rates, leavingOf(response))
      if (response.destroyed) return
      if (tooMany !== null) return refuseByRules(response, 'rate_reached', tooMany)
    }
    if (endpoint === 'messages' && judgesSpending) {
      const verdict = await authority.judge(
        spendAction({ ...about, neededNanos: neededNanos(request, upstream) }, account),
        leavingOf(response),
      )
      if (response.destroyed) return
      if (!verdict.allow) return refuseByRules(response, 'spend_denied', verdict.why)
    }
    // It may have been paused while it waited.
    while (paused !== null && !response.destroyed) await orGone(paused.promise, response)
    if (response.destroyed || closing.signal.aborted) return response.destroy()
    // From here to the dial nothing waits, so no other call can take what this one was promised.
    const counted = endpoint === 'messages'
    let set: SetAside | null = null
    if (counted) {
      try {
        set = setAside(request, upstream, agent)
      } catch (error) {
        if (books.broken) return answer(response, unwritable)
        throw error
      }
      if (set !== null && authority.terms.grants.length > 0) authority.use(spendAction({ ...about, neededNanos: 0 }, account))
      let asked: Refusal | null = null
      if (
        set === null &&
        (terms.spend === 'ask' || account.short(neededNanos(request, upstream), agent).some(({ asks }) => asks))
      ) {
        const wish = {
          ...about,
          neededNanos: neededNanos(request, upstream),
          reserve: () => setAside(request, upstream, agent),
        }
        const outcome = await held.hold(wish, leavingOf(response))
        if ('refused' in outcome) asked = outcome
        else set = outcome
      }
      if (set === null) {
        const short = account.short(neededNanos(request, upstream), agent)
        const sentence = `${budgetSentence(session, account.lease, short)}${asked === null ? '' : ` (${asked.refused})`}`
        refusal = asked?.asked === true ? 'asked' : 'budget'
        notice('budget_used_up', 'warning', sentence)
        return answer(response, refused(sentence))
      }
    }
    refusal = null
    const startedAt = now()
    const dialled = () => {
      const body = serialise(request, set?.reserved.maxTokens ?? null)
      const headers = { ...outgoing(from.headers, upstream, allow), ...credential }
      const where = `/v1/messages${counted ? '' : '/count_tokens'}${beta ? '?beta=true' : ''}`
      const safe = set?.reserved.safe ?? null
      return forward({ upstream, path: where, headers, body, response, safe, signal: closing.signal })
    }
    let ended: Promise<Outcome>
    try {
      ended = dialled()
    } catch (error) {
      // Nothing was sent: what was set aside goes back.
      if (set !== null) book(request, upstream, set, costless(0), 0)
      throw error
    }
    const booked = ended.then((outcome) => {
      if (outcome.credentialRefused) {
        refusal = 'credential'
        notice('credential_refused', 'error', `Provider "${upstream.name}" refused the credential that Anchorhold sent`)
      }
      if (set === null) return
      book(request, upstream, set, outcome, now() - startedAt)
      held.retry()
    })
    const entry = booked.finally(() => open.delete(entry))
    open.add(entry)
    await entry
  }

  /** Aborted when whoever called is gone or the window closes. Made only where something waits: it costs as much as half a call. */
  function leavingOf(response: ServerResponse): AbortSignal {
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    return AbortSignal.any([gone.signal, closing.signal])
  }
  function refuseByRules(response: ServerResponse, code: string, sentence: string): void {
    refusal = 'rules'
    notice(code, 'warning', sentence)
    answer(response, refused(sentence))
  }
  /** What is in force now, made ready when it changes. */
  function policy(): ModelPolicy {
    const { policy: now } = authority.terms
    if (now !== inForce.of) inForce = { of: now, ready: modelPolicy(now) }
    return inForce.ready
  }
  /** As many tokens as the prompt can have at most: what was measured of its beginning, and a bound on the rest. */
  const contextTokens = (request: Screened) => worstCase(known.weigh(request).prompt).promptTokens

  /** The most that a call can cost. */
  function bounded(request: Screened, upstream: Upstream) {
    const free = !upstream.billed && !priceOf(request.model, 0).known
    const capped = account.capped || policy().refuseContext !== null
    const { prompt, measured } = capped ? known.weigh(request) : { prompt: roughly(request), measured: () => {} }
    return { free, measured, bound: free ? { promptNanos: 0, perOutputToken: 0 } : worstCase(prompt) }
  }
  function neededNanos(request: Screened, upstream: Upstream): Nanos {
    const { promptNanos, perOutputToken } = bounded(request, upstream).bound
    return promptNanos + request.maxTokens * perOutputToken
  }

  /** Reserves the worst case; null when the lease does not hold it. */
  function setAside(request: Screened, upstream: Upstream, agent: string | undefined): SetAside | null {
    const { free, measured, bound } = bounded(request, upstream)
    const { model, maxTokens, thinkingTokens } = request
    const { name: provider, simulated, notional } = upstream
    const wish = { ...bound, maxTokens, thinkingTokens }
    const reserved = account.reserve(wish, { provider, model, simulated, notional, ...(agent === undefined ? {} : { agent }) })
    return reserved === null ? null : { reserved, promptNanos: bound.promptNanos, free, measured }
  }

  /** Settles a call: in its place goes what the answer said, or the most that it can have cost. */
  function book(request: Screened, upstream: Upstream, set: SetAside, outcome: Outcome, durationMs: number) {
    const { reserved, promptNanos, free, measured } = set
    const { rates } = terms
    const { tokens, nanos, estimated } = outcome.cost(request, { reservedNanos: reserved.nanos, promptNanos })
    if (rates !== undefined) parts.rates.used(rates.actor, tokens.input + tokens.output + tokens.cache_write)
    if (!estimated && outcome.status === 200) measured(tokens.input + tokens.cache_read + tokens.cache_write)
    account.settle(reserved, {
      provider: upstream.name,
      model: request.model,
      tokens,
      cost_nanos: free ? 0 : nanos,
      simulated: upstream.simulated,
      estimated: estimated || (outcome.status === 200 && !free && !priceOf(request.model, 0).known),
      notional: upstream.notional,
      status: outcome.status,
      duration_ms: Math.max(0, Math.round(durationMs)),
    })
  }

  async function answerSettle(request: IncomingMessage, response: ServerResponse) {
    request.resume()
    const late = AbortSignal.timeout(settleWaitMs)
    const { promise, resolve } = Promise.withResolvers<void>()
    late.addEventListener('abort', () => resolve())
    while (open.size > 0 && !late.aborted) await Promise.race([Promise.allSettled(open), promise])
    parts.settling?.()
    // The turn's end waits for these records, so they go to the disk now.
    await books.flush().catch(() => {})
    const settlement: Settlement = { source: 'gate', n: account.last, refused: refusal }
    respond(response, 200, JSON.stringify(settlement))
  }

  await listenAt(server, path)

  return {
    price: held.price,
    retry: held.retry,
    update(next) {
      terms = next ?? terms
      noticed = new Set()
    },
    pause() {
      paused ??= Promise.withResolvers<void>()
    },
    resume() {
      paused?.resolve()
      paused = null
      held.retry()
    },
    async quiet() {
      while (open.size > 0) await Promise.allSettled(open)
    },
    async close() {
      closing.abort()
      paused?.resolve()
      paused = null
      const closed = new Promise<void>((done) => server.close(() => done()))
      server.closeAllConnections()
      await closed
      await Promise.allSettled(open)
      await rm(path, { force: true })
    },
  }
}

/** Only the exact paths are served, so nothing is decoded or resolved; of the query one word is kept. */
function target(url: string): { readonly pathname: string; readonly beta: boolean } {
  const mark = url.indexOf('?')
  if (mark === -1) return { pathname: url, beta: false }
  return {
    pathname: url.slice(0, mark),
    beta: url
      .slice(mark + 1)
      .split('&')
      .includes('beta=true'),
  }
}

/** Headers written anew: of what came from inside, only what says how to read the request. */
function outgoing(from: IncomingHttpHeaders, upstream: Upstream, allow: ReadonlySet<string>): Record<string, string> {
  const betas = screenBetas(single(from['anthropic-beta']), allow)
  if (upstream.notional) betas.push(oauthBeta)
  return {
    'content-type': 'application/json',
    'anthropic-version': plainWord(from['anthropic-version']) ?? '2023-06-01',
    ...(betas.length === 0 ? {} : { 'anthropic-beta': betas.join(',') }),
    accept: from.accept === 'text/event-stream' ? from.accept : 'application/json',
    'accept-encoding': 'identity',
    'user-agent': plainWord(from['user-agent']) ?? 'anchorhold',
  }
}
const single = (header: string | string[] | undefined) => (Array.isArray(header) ? header.join(',') : header)
function plainWord(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^[\w ./:;,()+-]{1,200}$/.test(header) ? header : undefined
}

/** Which sub-agent calls, as the agent's own program says. Code in a cell can say anything here, or nothing: whatever a
 *  sub-agent may spend, the session may not spend more. */
function agentOf({ 'x-claude-code-agent-id': id }: IncomingHttpHeaders): string | undefined {
  return typeof id === 'string' && /^[\w-]{1,64}$/.test(id) ? id : undefined
}

function roughly(request: Screened) {
  let restBytes = Buffer.byteLength(request.head)
  let imageTokens = 0
  for (const message of request.messages) {
    restBytes += message.json.length - message.imageChars
    imageTokens += message.imageTokens
  }
  return { model: request.model, knownPrefixTokens: 0, restBytes, imageTokens, caching: request.caching }
}

function budgetSentence(session: SessionId, lease: Lease, short: readonly Shortage[]): string {
  const budget = formatUsd(microsUp(lease.capNanos ?? 0))
  const remedy = `raise it with: anchorhold budget ${session} USD`
  if (lease.closed)
    return `This session's budget of ${budget} is closed, because a call cost more than was set aside for it: ${remedy}`
  const left = leftNanos(lease)
  const [first] = short.toSorted((a, b) => (leftOf(a.sum) ?? 0) - (leftOf(b.sum) ?? 0))
  if (first !== undefined && (left === null || (leftOf(first.sum) ?? 0) < left)) return shortSentence(first)
  if (left === 0) return `This session's budget of ${budget} is used up: ${remedy}`
  return `This session's budget of ${budget} is used up (the ${formatUsd(Math.floor((left ?? 0) / 1000))} that are left cannot pay for another call): ${remedy}`
}

function answer(response: ServerResponse, what: Answer): void {
  respond(response, what.status, bodyOf(what))
}
function respond(response: ServerResponse, status: number, json: string): void {
  if (response.destroyed || response.headersSent) return
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) }).end(json)
}

/** Waits for either; a listener is not left behind. */
function orGone(promise: Promise<void>, response: ServerResponse): Promise<void> {
  const { promise: gone, resolve } = Promise.withResolvers<void>()
  response.once('close', resolve)
  return Promise.race([promise, gone]).finally(() => response.off('close', resolve))
}

const shownPath = (pathname: string) => pathname.replaceAll(/[^\w/.-]/g, '?').slice(0, 60)
