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
type Left = { readonly of: number; readonly left: number }
/** Null for what no session of the actor has had a limit for. */
type Bucket = { requests: Left | null; tokens: Left | null; atMs: number; rates: Rates; last: Promise<unknown> }

/** Agents wait longer than this for an answer. What has to wait longer is refused: 429 would make them try for minutes. */
const waitMsMax = 2 * 60 * 1000
const minuteMs = 60_000

/** Time goes by a clock that cannot jump. A gate that is started anew begins with a full minute. */
export function rateLimits(clock: Clock): RateLimits {
  const buckets = new Map<string, Bucket>()

  function bucketOf(rates: Rates): Bucket {
    const nowMs = clock.elapsed()
    const bucket = buckets.get(rates.actor) ?? { requests: null, tokens: null, atMs: nowMs, rates, last: Promise.resolve() }
    buckets.set(rates.actor, bucket)
    const minutes = (nowMs - bucket.atMs) / minuteMs
    bucket.atMs = nowMs
    bucket.rates = rates
    bucket.requests = limited(filled(bucket.requests, minutes), rates.requests_per_minute)
    bucket.tokens = limited(filled(bucket.tokens, minutes), rates.tokens_per_minute)
    return bucket
  }

  /** How long until a call may go, and what it waits for. */
  function waitOf({ requests, tokens, rates }: Bucket): { readonly ms: number; readonly what: string } {
    const { requests_per_minute: calls, tokens_per_minute: perMinute } = rates
    const forCalls = calls === null || requests === null || requests.left >= 1 ? 0 : ((1 - requests.left) / calls) * minuteMs
    const forTokens = perMinute === null || tokens === null || tokens.left > 0 ? 0 : ((1 - tokens.left) / perMinute) * minuteMs
    return forTokens > forCalls
      ? { ms: forTokens, what: `${perMinute} tokens a minute` }
      : { ms: forCalls, what: `${calls} model calls a minute` }
  }

  async function admitNext(rates: Rates, signal: AbortSignal, sinceMs: number): Promise<string | null> {
    for (;;) {
      const bucket = bucketOf(rates)
      const { ms, what } = waitOf(bucket)
      if (ms === 0) {
        bucket.requests = less(bucket.requests, 1)
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
      if (bucket !== undefined) bucket.tokens = less(bucket.tokens, tokens)
    },
  }
}

const less = (one: Left | null, by: number): Left | null => (one === null ? null : { ...one, left: one.left - by })

function filled(one: Left | null, minutes: number): Left | null {
  return one === null ? null : { ...one, left: Math.min(one.of, one.left + minutes * one.of) }
}

/** Under a limit that nobody had before, a whole minute is left. Under another than before, what was used of that one is used of this
 *  one too: sessions of one actor may have different limits, and each would fill up what the other has used. */
function limited(one: Left | null, perMinute: number | null): Left | null {
  if (perMinute === null) return one
  return one === null ? { of: perMinute, left: perMinute } : { of: perMinute, left: one.left + perMinute - one.of }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
