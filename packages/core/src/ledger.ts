import type { Nanos } from '@anchorhold/protocol/money'

/** What a session may spend, has spent and has set aside for calls under way.
 *  Invariant: spent + reserved <= cap, unless a call cost more than was set aside for it; the lease is closed then. */
export type Lease = {
  /** Null when nobody set a limit. */
  readonly capNanos: Nanos | null
  readonly spentNanos: Nanos
  readonly reservedNanos: Nanos
  readonly closed: boolean
}

export function newLease(capNanos: Nanos | null, spentNanos: Nanos): Lease {
  return { capNanos, spentNanos, reservedNanos: 0, closed: false }
}

/** What is left to be reserved; null without a cap. */
export function leftNanos(lease: Lease): Nanos | null {
  if (lease.capNanos === null) return null
  return lease.closed ? 0 : Math.max(0, lease.capNanos - lease.spentNanos - lease.reservedNanos)
}

/** The lease with the sum set aside, or null when it does not hold that much. */
export function reserve(lease: Lease, nanos: Nanos): Lease | null {
  const left = leftNanos(lease)
  if (left !== null && (lease.closed || nanos > left)) return null
  return { ...lease, reservedNanos: lease.reservedNanos + nanos }
}

/** Books what a call really cost in place of what was set aside for it. */
export function settle(lease: Lease, reservedNanos: Nanos, costNanos: Nanos): Lease {
  return {
    ...lease,
    spentNanos: lease.spentNanos + costNanos,
    reservedNanos: lease.reservedNanos - reservedNanos,
    closed: lease.closed || (lease.capNanos !== null && costNanos > reservedNanos),
  }
}

/** Gives back what was set aside for a call that was never made. */
export function release(lease: Lease, reservedNanos: Nanos): Lease {
  return settle(lease, reservedNanos, 0)
}

/** A new cap, set by a person: it opens a lease that was closed. */
export function recap(lease: Lease, capNanos: Nanos | null): Lease {
  return { ...lease, capNanos, closed: false }
}

/** An answer shorter than this is of no use to an agent. */
const answerTokensMin = 1024

export type Wish = {
  readonly promptNanos: Nanos
  readonly perOutputToken: Nanos
  readonly maxTokens: number
  /** Tokens that the answer may spend on thinking before it says anything; 0 without. */
  readonly thinkingTokens: number
}

/** How long an answer the lease can pay for, and what to set aside for it. Null when that is too short to be worth asking. */
export function afford(lease: Lease, wish: Wish): { readonly maxTokens: number; readonly nanos: Nanos } | null {
  const left = leftNanos(lease)
  const whole = wish.promptNanos + wish.maxTokens * wish.perOutputToken
  if (left === null || (whole <= left && !lease.closed)) return { maxTokens: wish.maxTokens, nanos: whole }
  if (lease.closed) return null
  const payable = wish.perOutputToken === 0 ? 0 : Math.floor((left - wish.promptNanos) / wish.perOutputToken)
  // The API wants max_tokens to be above the thinking budget.
  const floor = Math.min(wish.maxTokens, Math.max(answerTokensMin, wish.thinkingTokens + 1))
  if (payable < floor) return null
  return { maxTokens: payable, nanos: wish.promptNanos + payable * wish.perOutputToken }
}
