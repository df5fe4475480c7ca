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

/** How long a cap holds: over the whole life of what it is for, for a day of UTC, or for a tick. */
export const spans = ['life', 'day', 'tick'] as const
export type Span = (typeof spans)[number]
export type Caps = Readonly<Record<Span, Nanos | null>>

/** What was spent and set aside in one period, and its cap. Periods of a span are numbered; a life has but one. */
export type Sum = {
  readonly capNanos: Nanos | null
  readonly spentNanos: Nanos
  readonly reservedNanos: Nanos
  readonly period: number
}

/** One node of the tree above and below sessions: the owner, a group, a policy, a sub-agent. What several sessions spend goes
 *  through the same node. */
export type Node = { readonly tickMs: number; readonly sums: Readonly<Record<Span, Sum>> }

/** A session's own lease, and the nodes that its calls go through. */
export type Path = { readonly lease: Lease; readonly nodes: readonly Node[] }

const dayMs = 24 * 60 * 60 * 1000

/** Which period of a span a moment belongs to. */
export function periodOf(span: Span, atMs: number, tickMs: number): number {
  return span === 'life' ? 0 : Math.floor(atMs / (span === 'day' ? dayMs : tickMs))
}
/** The first moment after a period. */
export function endOf(span: Span, period: number, tickMs: number): number | null {
  return span === 'life' ? null : (period + 1) * (span === 'day' ? dayMs : tickMs)
}

const bySpan = <T>(make: (span: Span) => T): Record<Span, T> => ({ life: make('life'), day: make('day'), tick: make('tick') })

export function newNode(caps: Caps, tickMs: number, atMs: number, spent: Readonly<Record<Span, Nanos>>): Node {
  const sum = (span: Span): Sum => ({
    capNanos: caps[span],
    spentNanos: spent[span],
    reservedNanos: 0,
    period: periodOf(span, atMs, tickMs),
  })
  return { tickMs, sums: bySpan(sum) }
}

/** The node at a later moment: where a period is over, nothing is spent of the next one. What began in the old one is settled
 *  there. Invariant: no period comes back. */
export function rolledTo(node: Node, atMs: number): Node {
  const isOver = (span: Span) => periodOf(span, atMs, node.tickMs) > node.sums[span].period
  if (!isOver('day') && !isOver('tick')) return node
  const sum = (span: Span): Sum => {
    if (!isOver(span)) return node.sums[span]
    const { capNanos } = node.sums[span]
    return { capNanos, spentNanos: 0, reservedNanos: 0, period: periodOf(span, atMs, node.tickMs) }
  }
  return { ...node, sums: bySpan(sum) }
}

/** New caps; whatever was spent and set aside stays. */
export function recapped(node: Node, caps: Caps): Node {
  return { ...node, sums: bySpan((span) => ({ ...node.sums[span], capNanos: caps[span] })) }
}

/** One cap raised, where it is lower and its period is the one that is now. */
export function raised(node: Node, span: Span, period: number, capNanos: Nanos): Node {
  const sum = node.sums[span]
  if (sum.capNanos === null || sum.capNanos >= capNanos || sum.period !== period) return node
  return { ...node, sums: { ...node.sums, [span]: { ...sum, capNanos } } }
}

/** What is left to be reserved of a sum; null without a cap. */
export const leftOf = ({ capNanos, spentNanos, reservedNanos }: Sum): Nanos | null =>
  capNanos === null ? null : Math.max(0, capNanos - spentNanos - reservedNanos)

/** The path as one lease: what the strictest of its nodes leaves. */
export function strictest({ lease, nodes }: Path): Lease {
  let left = leftNanos(lease)
  for (const node of nodes) {
    for (const span of spans) {
      const here = leftOf(node.sums[span])
      if (here !== null && (left === null || here < left)) left = here
    }
  }
  return { capNanos: left, spentNanos: 0, reservedNanos: 0, closed: lease.closed && lease.capNanos !== null }
}

/** The path with the sum set aside at every node, or null when one of them does not hold that much. */
export function reserveAll(path: Path, nanos: Nanos): Path | null {
  if (reserve(strictest(path), nanos) === null) return null
  const lease = reserve(path.lease, nanos)
  if (lease === null) return null
  const more = (node: Node): Node => ({
    ...node,
    sums: bySpan((span) => ({ ...node.sums[span], reservedNanos: node.sums[span].reservedNanos + nanos })),
  })
  return { lease, nodes: path.nodes.map(more) }
}

/** Books at every node what a call really cost, in the periods in which it began. A period that is over is nobody's concern any
 *  more: its sum stands in the log. */
export function settleAll(path: Path, reserved: { readonly nanos: Nanos; readonly beganMs: number }, costNanos: Nanos): Path {
  const book = (node: Node): Node => ({
    ...node,
    sums: bySpan((span) => {
      const sum = node.sums[span]
      if (periodOf(span, reserved.beganMs, node.tickMs) !== sum.period) return sum
      return { ...sum, spentNanos: sum.spentNanos + costNanos, reservedNanos: sum.reservedNanos - reserved.nanos }
    }),
  })
  return { lease: settle(path.lease, reserved.nanos, costNanos), nodes: path.nodes.map(book) }
}

/** Where a path cannot take so much more, by the place of the node in it. */
export function shortIn(path: Path, nanos: Nanos): { readonly node: number; readonly span: Span; readonly sum: Sum }[] {
  return path.nodes.flatMap(({ sums }, node) =>
    spans.flatMap((span) => {
      const left = leftOf(sums[span])
      return left !== null && left < nanos ? [{ node, span, sum: sums[span] }] : []
    }),
  )
}

/** People hear of a cap before it is reached. */
export const warnAt = 0.8
/** Whether a sum has just come so close to its cap. */
export function nears(before: Pick<Sum, 'spentNanos'>, after: Pick<Sum, 'capNanos' | 'spentNanos'>): boolean {
  if (after.capNanos === null || after.capNanos === 0) return false
  const mark = after.capNanos * warnAt
  return before.spentNanos < mark && after.spentNanos >= mark
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
