import { type Lease, leftNanos, leftOf } from '@anchorhold/core/ledger'
import { priceOf, worstCase } from '@anchorhold/core/prices'
import type { SessionId } from '@anchorhold/protocol/ids'
import { formatUsd, microsUp, type Nanos } from '@anchorhold/protocol/money'
import type { Account, Reserved } from '../../money/account.ts'
import type { Shortage } from '../../money/nodes.ts'
import type { Upstream } from '../../providers/providers.ts'
import { shortSentence } from '../../money/warnings.ts'
import type { Outcome } from './forward.ts'
import { prefixes } from './prefixes.ts'
import type { Dialect, Screened } from './dialect.ts'

/** What a call was promised. */
export type SetAside = {
  readonly reserved: Reserved
  readonly promptNanos: number
  /** Nobody is charged for it. */
  readonly free: boolean
  readonly measured: (promptTokens: number) => void
}

/** What the calls of one session may cost, and what they have cost. */
export interface CallMoney {
  /** As many tokens as the prompt can have at most: what was measured of its beginning, and a bound on the rest. */
  contextTokens(request: Screened): number
  /** The most that a call can cost. */
  needed(request: Screened, upstream: Upstream): Nanos
  /** Reserves the worst case; null when the lease does not hold it. */
  setAside(request: Screened, upstream: Upstream, agent: string | undefined): SetAside | null
  /** Settles a call: in its place goes what the answer said, or the most that it can have cost. Gives the tokens that count for a rate. */
  book(request: Screened, upstream: Upstream, set: SetAside, ended: { outcome: Outcome; durationMs: number }): number
}

/** `weighs`: whether somebody asks for more than a rough bound on a prompt, which takes time to find. */
export function callMoney(account: Account, remembered: Dialect['remembered'], weighs: () => boolean): CallMoney {
  const known = prefixes(remembered)

  function bounded(request: Screened, upstream: Upstream) {
    const free = !upstream.billed && !priceOf(request.model, 0).known
    const { prompt, measured } =
      account.capped || weighs() ? known.weigh(request) : { prompt: roughly(request), measured: () => {} }
    return { free, measured, bound: free ? { promptNanos: 0, perOutputToken: 0 } : worstCase(prompt, upstream.seller) }
  }

  return {
    contextTokens: (request) => worstCase(known.weigh(request).prompt).promptTokens,
    needed(request, upstream) {
      const { promptNanos, perOutputToken } = bounded(request, upstream).bound
      return promptNanos + request.maxTokens * perOutputToken
    },
    setAside(request, upstream, agent) {
      const { free, measured, bound } = bounded(request, upstream)
      const { model, maxTokens, thinkingTokens } = request
      const { name: provider, simulated, notional } = upstream
      const wish = { ...bound, maxTokens, thinkingTokens }
      const reserved = account.reserve(wish, { provider, model, simulated, notional, ...(agent === undefined ? {} : { agent }) })
      return reserved === null ? null : { reserved, promptNanos: bound.promptNanos, free, measured }
    },
    book(request, upstream, { reserved, promptNanos, free, measured }, { outcome, durationMs }) {
      const { model, stream, thinks } = request
      const { tokens, nanos, estimated } = outcome.cost(
        { model, stream, thinks, seller: upstream.seller },
        { reservedNanos: reserved.nanos, promptNanos, maxTokens: reserved.maxTokens, tookMs: durationMs },
      )
      if (outcome.status === 200 && outcome.whole) measured(tokens.input + tokens.cache_read + tokens.cache_write)
      account.settle(reserved, {
        provider: upstream.name,
        model: request.model,
        tokens,
        cost_nanos: free ? 0 : nanos,
        simulated: upstream.simulated,
        // What nobody is charged for is known to cost nothing.
        estimated: estimated && !(free && outcome.whole),
        notional: upstream.notional,
        status: outcome.status,
        duration_ms: Math.max(0, Math.round(durationMs)),
      })
      return tokens.input + tokens.output + tokens.cache_write
    },
  }
}

function roughly(request: Screened) {
  let restBytes = Buffer.byteLength(request.head)
  let imageTokens = 0
  let documents = 0
  for (const message of request.messages) {
    restBytes += message.json.length - message.mediaChars
    imageTokens += message.imageTokens
    documents += message.documents
  }
  return { model: request.model, knownPrefixTokens: 0, restBytes, imageTokens, documents, caching: request.caching }
}

/** Why a call is not paid for, and what would change that. Of a cell without a daemon, no session is known to any command. */
export function budgetSentence(session: SessionId | null, lease: Lease, short: readonly Shortage[], neededNanos: Nanos): string {
  const budget = formatUsd(microsUp(lease.capNanos ?? 0))
  const remedy =
    session === null ? 'start again with more: anchorhold claude --budget USD' : `raise it with: anchorhold budget ${session} USD`
  if (lease.closed)
    return `This session's budget of ${budget} is closed, because a call cost more than was set aside for it: ${remedy}`
  const left = leftNanos(lease)
  const [first] = short.toSorted((a, b) => (leftOf(a.sum) ?? 0) - (leftOf(b.sum) ?? 0))
  if (first !== undefined && (left === null || (leftOf(first.sum) ?? 0) < left)) return shortSentence(first)
  if (left === 0) return `This session's budget of ${budget} is used up: ${remedy}`
  const rest = formatUsd(Math.floor((left ?? 0) / 1000))
  return `This session's budget of ${budget} does not hold another call, which may cost ${formatUsd(microsUp(neededNanos))} where ${rest} are left: ${remedy}`
}
