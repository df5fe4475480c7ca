import { type Caps, newNode, type Node, periodOf, recapped, rolledTo, type Span, spans, type Sum } from '@anchorhold/core/ledger'
import type { NodeName } from '@anchorhold/protocol/events'
import type { ToldNodes } from '@anchorhold/protocol/link'
import type { Nanos } from '@anchorhold/protocol/money'

/** A call that is in the books, or what is set aside for one: when it began, and how much. */
export type Booking = { readonly n: number; readonly nanos: Nanos; readonly beganMs: number }

export type Known = { readonly name: NodeName; readonly simulated: boolean; readonly asks: boolean; readonly node: Node }

/** A node that does not hold what a call may cost. */
export type Shortage = {
  readonly node: NodeName
  readonly asks: boolean
  readonly span: Span
  readonly tickMs: number
  readonly sum: Sum
}

/** The nodes that several sessions share. Their sums follow from what the daemon said or a gate before this one kept, and from the
 *  records that came after that. */
export type Nodes = {
  /** The ledger's own clock: the time of day, which here never goes back. So no day and no tick comes twice. */
  at(): number
  /** A record says that it was so late already. */
  saw(atMs: number): void
  /** The node as of a moment, which is now. Undefined where nobody has told of it. Whoever decides over several nodes, or writes down when it
   *  did, reads the clock once for all of it: between two readings a tick may end. */
  get(simulated: boolean, name: NodeName, atMs?: number): Known | undefined
  put(known: Known): void
  /** What the daemon, or a gate before this one, knew. What was spent here since is never forgotten. */
  tell(told: ToldNodes): void
  /** A node of the gate's own making, with what was booked under its name. One that is known keeps what it was raised to: somebody has allowed
   *  that for the rest of its life, and `recap` alone takes it back. */
  make(simulated: boolean, name: NodeName, caps: Caps, atMs?: number): Known
  /** Other caps for nodes of the gate's own making, whatever they were raised to. */
  recap(isMeant: (name: NodeName) => boolean, caps: Caps): void
  /** Books what became of a sum that a gate before this one had set aside. */
  book(simulated: boolean, name: NodeName, setAside: Booking, costNanos: Nanos): void
  forget(isForgotten: (name: NodeName) => boolean): void
  /** All of them, as they are kept. */
  told(to: number): ToldNodes[]
  readonly size: number
}

export type NodesParts = {
  readonly now: () => number
  /** What was booked under a key after a record, and is set aside under it. */
  readonly booked: (key: string, after: number) => readonly Booking[]
  readonly reserved: (key: string) => readonly Booking[]
}

/** A way up, as it is written down. */
export const namesOf = (way: readonly Known[]): { readonly nodes?: NodeName[] } =>
  way.length === 0 ? {} : { nodes: way.map(({ name }) => name) }

export const keyOf = (simulated: boolean, name: string) => `${simulated ? 'play' : 'real'}:${name}`
const defaultTickMs = 60 * 60 * 1000

export function ledgerNodes({ now, booked, reserved }: NodesParts): Nodes {
  const nodes = new Map<string, Known>()
  let clock = 0
  const at = () => (clock = Math.max(clock, now()))

  /** The sum of what belongs to the period of a moment. */
  function sumOf(bookings: readonly Booking[], span: Span, tickMs: number, atMs: number): Nanos {
    const period = periodOf(span, atMs, tickMs)
    return bookings.reduce((sum, { nanos, beganMs }) => (periodOf(span, beganMs, tickMs) === period ? sum + nanos : sum), 0)
  }
  const perSpan = <T>(make: (span: Span) => T) => Object.fromEntries(spans.map((span) => [span, make(span)])) as Record<Span, T>

  function withReserved(node: Node, key: string, atMs: number): Node {
    const open = reserved(key)
    const sums = perSpan((span) => ({ ...node.sums[span], reservedNanos: sumOf(open, span, node.tickMs, atMs) }))
    return { ...node, sums }
  }

  function get(simulated: boolean, name: NodeName, atMs = at()): Known | undefined {
    const key = keyOf(simulated, name)
    const known = nodes.get(key)
    if (known === undefined) return undefined
    const node = rolledTo(known.node, atMs)
    if (node === known.node) return known
    const next = { ...known, node }
    nodes.set(key, next)
    return next
  }

  return {
    at,
    saw: (atMs) => void (clock = Math.max(clock, atMs)),
    get,
    put: (known) => void nodes.set(keyOf(known.simulated, known.name), known),
    tell(told) {
      clock = Math.max(clock, told.at)
      const atMs = at()
      for (const { node: name, caps, tick_ms: tickMs, asks, spent } of told.nodes) {
        const key = keyOf(told.simulated, name)
        const later = booked(key, told.to)
        const before = get(told.simulated, name, atMs)?.node
        const sameTicks = before?.tickMs === tickMs
        const fresh = newNode(
          caps,
          tickMs,
          atMs,
          perSpan((span) => {
            const isNow = periodOf(span, told.at, tickMs) === periodOf(span, atMs, tickMs)
            const known = (isNow ? spent[span] : 0) + sumOf(later, span, tickMs, atMs)
            return before === undefined || (span === 'tick' && !sameTicks) ? known : Math.max(known, before.sums[span].spentNanos)
          }),
        )
        nodes.set(key, { name, simulated: told.simulated, asks, node: withReserved(fresh, key, atMs) })
      }
    },
    make(simulated, name, caps, atMs = at()) {
      const key = keyOf(simulated, name)
      const known = get(simulated, name, atMs)
      // One that was found in the records alone has no cap yet.
      const capOf = (span: Span, had: Nanos | null) =>
        had === null || caps[span] === null ? caps[span] : Math.max(had, caps[span])
      const spent = (span: Span) => sumOf(booked(key, 0), span, defaultTickMs, atMs)
      const node =
        known === undefined
          ? withReserved(newNode(caps, defaultTickMs, atMs, perSpan(spent)), key, atMs)
          : recapped(
              known.node,
              perSpan((span) => capOf(span, known.node.sums[span].capNanos)),
            )
      const made = { name, simulated, asks: false, node }
      nodes.set(key, made)
      return made
    },
    recap(isMeant, caps) {
      for (const [key, known] of nodes) if (isMeant(known.name)) nodes.set(key, { ...known, node: recapped(known.node, caps) })
    },
    book(simulated, name, { nanos, beganMs }, costNanos) {
      const known = get(simulated, name)
      if (known === undefined) return
      const { node } = known
      const sums = perSpan((span) => {
        const sum = node.sums[span]
        const isNow = periodOf(span, beganMs, node.tickMs) === sum.period
        return isNow ? { ...sum, spentNanos: sum.spentNanos + costNanos, reservedNanos: sum.reservedNanos - nanos } : sum
      })
      nodes.set(keyOf(simulated, name), { ...known, node: { ...node, sums } })
    },
    forget(isForgotten) {
      for (const [key, { name }] of nodes) if (isForgotten(name)) nodes.delete(key)
    },
    told(to) {
      const atMs = at()
      return [false, true].flatMap((simulated) => {
        const mine = [...nodes.values()].filter((known) => known.simulated === simulated)
        if (mine.length === 0) return []
        const kept = mine.map(({ name, asks }) => {
          const { node } = get(simulated, name, atMs)!
          const caps = perSpan((span) => node.sums[span].capNanos)
          const spent = perSpan((span) => node.sums[span].spentNanos)
          return { node: name, caps, tick_ms: node.tickMs, asks, spent }
        })
        return [{ simulated, at: atMs, to, nodes: kept }]
      })
    },
    get size() {
      return nodes.size
    },
  }
}
