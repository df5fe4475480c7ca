import { type Clock, pause } from '@anchorhold/link/clock'
import type { Rates } from '@anchorhold/protocol/gate-commands'

/** How many model calls, and how many tokens, each actor may have in a minute, over all its sessions. */
export type RateLimits = {
  /** Waits until the actor may make a call. A sentence where that would take too long, or the caller is gone. */
  admit(rates: Rates, signal: AbortSignal): Promise<string | null>
  /** What a call took. It counts when it is known: the calls after it wait for it. */
  used(actor: string, tokens: number): void
}

/** What is left of a minute, which fills up evenly. Of tokens it may be less than nothing. */
type Bucket = { requests: number; tokens: number; atMs: number; rates: Rates; last: Promise<unknown> }

/** Agents wait longer than this for an answer. What has to wait longer is refused: 429 would make them try for minutes. */
const waitMsMax = 2 * 60 * 1000
const minuteMs = 60_000

/** Time goes by a clock that cannot jump. A gate that is started anew begins with a full minute. */
export function rateLimits(clock: Clock): RateLimits {
  const buckets = new Map<string, Bucket>()

  function bucketOf(rates: Rates): Bucket {
    const known = buckets.get(rates.actor)
    if (known === undefined) {
      const { requests_per_minute: requests, tokens_per_minute: tokens } = rates
      const made = { requests: requests ?? 0, tokens: tokens ?? 0, atMs: clock.elapsed(), rates, last: Promise.resolve() }
      buckets.set(rates.actor, made)
      return made
    }
    const minutes = (clock.elapsed() - known.atMs) / minuteMs
    known.atMs = clock.elapsed()
    known.rates = rates
    const filled = (left: number, perMinute: number | null) =>
      perMinute === null ? left : Math.min(perMinute, left + minutes * perMinute)
    known.requests = filled(known.requests, rates.requests_per_minute)
    known.tokens = filled(known.tokens, rates.tokens_per_minute)
    return known
  }

  /** How long until a call may go, and what it waits for. */
  function waitOf({ requests, tokens, rates }: Bucket): { readonly ms: number; readonly what: string } {
    const { requests_per_minute: calls, tokens_per_minute: perMinute } = rates
    const forCalls = calls === null || requests >= 1 ? 0 : ((1 - requests) / calls) * minuteMs
    const forTokens = perMinute === null || tokens > 0 ? 0 : ((1 - tokens) / perMinute) * minuteMs
    return forTokens > forCalls
      ? { ms: forTokens, what: `${perMinute} tokens a minute` }
      : { ms: forCalls, what: `${calls} model calls a minute` }
  }

  async function admitNext(rates: Rates, signal: AbortSignal, sinceMs: number): Promise<string | null> {
    for (;;) {
      const bucket = bucketOf(rates)
      const { ms, what } = waitOf(bucket)
      if (ms === 0) {
        bucket.requests -= 1
        return null
      }
      if (clock.elapsed() - sinceMs + ms > waitMsMax)
        return `The policy lets "${rates.actor}" have ${what}, and others are before this call: try again in a while`
      await Promise.race([pause(clock, Math.ceil(ms)), aborted(signal)])
      if (signal.aborted) return 'Nobody waits for it any more'
    }
  }

  return {
    admit(rates, signal) {
      if (rates.requests_per_minute === null && rates.tokens_per_minute === null) return Promise.resolve(null)
      const bucket = bucketOf(rates)
      const sinceMs = clock.elapsed()
      // In the order they came.
      const mine = bucket.last.then(() => admitNext(rates, signal, sinceMs))
      bucket.last = mine.catch(() => {})
      return mine
    },
    used(actor, tokens) {
      const bucket = buckets.get(actor)
      if (bucket !== undefined) bucket.tokens -= tokens
    },
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
