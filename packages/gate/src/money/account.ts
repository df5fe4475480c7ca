import {
  afford,
  type Caps,
  type Lease,
  nears,
  newLease,
  type Path,
  recap,
  reserveAll,
  settleAll,
  shortIn,
  spans,
  strictest,
  type Wish,
} from '@anchorhold/core/ledger'
import { sharedRuns } from '@anchorhold/link/shared-runs'
import type { EventBody, NewEvent, NodeName } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Reservation } from '@anchorhold/protocol/link'
import type { Nanos } from '@anchorhold/protocol/money'
import { type KeptLease, type Leases, type ServedOn, servedOn } from './leases.ts'
import { type Known, namesOf, type Nodes, type Shortage } from './nodes.ts'
import type { OpenCall, Records } from './records.ts'
import { warning } from './warnings.ts'

/** A session's money, as somebody knows it who has seen the gate's records up to one. */
export type Money = Pick<KeptLease, 'budget_nanos' | 'spent_nanos' | 'spent_to' | 'closed' | 'nodes' | 'agent_cap_nanos'> & {
  readonly simulated: boolean
}
/** What a call may cost, written down. */
export type Reserved = {
  readonly call: string
  readonly nanos: Nanos
  readonly maxTokens: number
  /** Resolves when it is on the disk: not before may the call be dialled. */
  readonly safe: Promise<void>
}

/** One session's part of the books. */
export type Account = {
  readonly lease: Lease
  /** Whether anything on the whole way up has a cap. */
  readonly capped: boolean
  /** The nodes beside the session's own lease that cannot take so much more from this agent of the session. */
  short(nanos: Nanos, agent?: string): readonly Shortage[]
  /** The last record that was written of this session. */
  readonly last: number
  /** Sets the price of a call aside and writes that down; null when the lease does not hold it. Throws when the disk fails. */
  reserve(wish: Wish, about: Omit<Reservation, 'call' | 'nanos' | 'began_at' | 'nodes'>): Reserved | null
  /** Books what the call cost. When that cannot be written, the reservation stands. */
  settle(reserved: Reserved, usage: Omit<EventBody<'usage'>, 'call' | 'began_at' | 'nodes' | 'agent'>): void
  note(event: NewEvent): void
  recap(capNanos: Nanos | null): void
  /** What the daemon knows. What was spent here is never forgotten. */
  update(money: Money): void
  /** Keeps the lease, with these terms or those it had, for a gate that comes after this one. */
  save(terms?: ServedOn): Promise<void>
}

/** An account with what only the books need to know of it. */
export type HeldAccount = {
  readonly account: Account
  /** Up to which record its lease is kept. */
  readonly savedTo: number
  /** Revokes its lease. */
  close(): Promise<void>
}

export type AccountParts = {
  readonly records: Records
  readonly nodes: Nodes
  readonly leases: Leases
  /** Keeps the nodes, before a lease that goes through them. */
  readonly saveNodes: () => Promise<void>
  readonly newCall: () => string
  /** Nodes that others wait at may hold more than before. */
  readonly onFreed: () => void
  /** What a gate before this one kept of the session, and up to which record. */
  readonly kept: { readonly terms: ServedOn; readonly savedTo: number; readonly agentCapNanos: Nanos | null } | null
}

/** So many sub-agents of a session have a sum of their own: code in a cell can call itself whatever it likes. */
const agentsMax = 100

/** The nodes of a session's sub-agents begin like this. */
export const agentsOf = (session: SessionId) => `agent/${session}/`
export const isAgents = (name: NodeName) => name.startsWith('agent/')
/** The session that a node is of alone: one of its sub-agents, or what it may spend without being approved. Null of those above sessions. */
export function sessionOf(name: NodeName): SessionId | null {
  const [kind, session] = name.split('/')
  return kind === 'agent' || kind === 'approval' ? (session as SessionId) : null
}
/** A sub-agent is capped over its whole life. */
export const agentCaps = (life: Nanos | null): Caps => ({ life, day: null, tick: null })

export function holdAccount(
  session: SessionId,
  money: Money,
  { records, nodes, leases, saveNodes, newCall, onFreed, kept }: AccountParts,
): HeldAccount {
  const { simulated } = money
  let lease = leaseOf(money)
  let above = money.nodes
  let agentCap = kept === null ? money.agent_cap_nanos : kept.agentCapNanos
  let terms: ServedOn | null = kept?.terms ?? null
  let savedTo = kept?.savedTo ?? Infinity
  let saving: Promise<void> = Promise.resolve()
  let revoked = false
  const agents = new Set<string>()
  capAgents(money.agent_cap_nanos)

  /** What was raised for one sub-agent stands until all of them are given another cap. */
  function capAgents(capNanos: Nanos | null): void {
    if (capNanos === agentCap) return
    agentCap = capNanos
    nodes.recap((name) => name.startsWith(agentsOf(session)), agentCaps(capNanos))
  }

  function leaseOf({ budget_nanos, spent_nanos, spent_to, closed }: Money): Lease {
    const { nanos, exceeds } = records.spentAfter(session, spent_to)
    return { ...newLease(budget_nanos, spent_nanos + nanos), closed: closed || (budget_nanos !== null && exceeds) }
  }

  /** The nodes that a call of this agent of the session goes through, as of one moment. */
  function wayOf(agent: string | undefined, atMs: number): Known[] {
    const way = above.map((name) => {
      const node = nodes.get(simulated, name, atMs)
      // What may be spent there is not known, so nothing may.
      if (node === undefined) throw new Failure('gate_unavailable', `Nobody has told of the ledger's node "${name}"`)
      return node
    })
    if (agent === undefined || agentCap === null) return way
    if (agents.size < agentsMax) agents.add(agent)
    const name: NodeName = `${agentsOf(session)}${agents.has(agent) ? agent : '*'}`
    return [...way, nodes.make(simulated, name, agentCaps(agentCap), atMs)]
  }
  function pathOf(way: readonly Known[]): Path {
    return { lease, nodes: way.map(({ node }) => node) }
  }
  /** Takes over what a call has changed on its way. */
  function change(way: readonly Known[], path: Path): void {
    lease = path.lease
    for (const [index, known] of way.entries()) nodes.put({ ...known, node: path.nodes[index]! })
  }

  /** Books at every node what became of a sum that was set aside. */
  function bookAt({ nanos, beganMs, nodes: names = [] }: OpenCall, costNanos: Nanos) {
    const way = names.flatMap((name) => nodes.get(simulated, name) ?? [])
    const before = pathOf(way)
    const after = settleAll(before, { nanos, beganMs }, costNanos)
    change(way, after)
    return { way, before, after }
  }

  /** People hear of a cap that is near, once for each period. */
  function warn(way: readonly Known[], before: Path, after: Path): void {
    if (nears(before.lease, after.lease)) account.note(warning({ name: 'session' }, 'life', after.lease))
    for (const [index, { name, node }] of way.entries()) {
      for (const span of spans) {
        const [was, is] = [before.nodes[index]!.sums[span], after.nodes[index]!.sums[span]]
        if (nears(was, is)) account.note(warning({ name, tickMs: node.tickMs }, span, is))
      }
    }
  }

  const saveShared = sharedRuns(async () => {
    if (revoked || terms === null) return
    const served = servedOn(terms)
    const { capNanos, spentNanos, closed } = lease
    const sums = { budget_nanos: capNanos, spent_nanos: spentNanos, spent_to: records.last, closed }
    // What comes after this sum is needed with it, from before it is kept.
    savedTo = Math.min(savedTo, sums.spent_to)
    // The sum must not go further than the records that it is made of.
    await records.flush()
    if (above.length > 0) await saveNodes()
    await leases.put({ session, ...served, nodes: above, agent_cap_nanos: agentCap, ...sums })
    savedTo = sums.spent_to
  })

  const account: Account = {
    get lease() {
      return lease
    },
    get last() {
      return records.lastOf(session)
    },
    get capped() {
      if (lease.capNanos !== null || agentCap !== null) return true
      return above.some((name) => {
        const known = nodes.get(simulated, name)
        return known === undefined || spans.some((span) => known.node.sums[span].capNanos !== null)
      })
    },
    short(nanos, agent) {
      const way = wayOf(agent, nodes.at())
      return shortIn(pathOf(way), nanos).map(({ node: index, span, sum }) => {
        const { name, asks, node } = way[index]!
        return { node: name, asks, span, tickMs: node.tickMs, sum }
      })
    },
    reserve(wish, about) {
      // It is set aside in the very periods that it is written down for, and settled in: one reading of the clock for both.
      const beganMs = nodes.at()
      const way = wayOf(about.agent, beganMs)
      const affordable = afford(strictest(pathOf(way)), wish)
      const next = affordable === null ? null : reserveAll(pathOf(way), affordable.nanos)
      if (affordable === null || next === null) return null
      const { nanos } = affordable
      const call = newCall()
      records.reserve(session, { call, nanos, ...about, began_at: beganMs, ...namesOf(way) }, beganMs)
      change(way, next)
      // Nothing is lost with a call that costs nothing.
      const safe = nanos === 0 ? Promise.resolve(records.flushSoon()) : records.flush()
      safe.catch(() => {})
      return { call, ...affordable, safe }
    },
    settle({ call }, usage) {
      const open = records.openCalls.get(call)
      if (open === undefined) return
      const { nanos, beganMs, nodes: names = [], agent } = open
      const where = {
        began_at: beganMs,
        ...(names.length > 0 ? { nodes: names } : {}),
        ...(agent === undefined ? {} : { agent }),
        ...(lease.capNanos !== null && usage.cost_nanos > nanos ? { exceeds: true as const } : {}),
      }
      try {
        records.book(session, { call, ...usage, ...where }, beganMs)
      } catch {
        return
      }
      const { way, before, after } = bookAt(open, usage.cost_nanos)
      warn(way, before, after)
      records.flushSoon()
      if (usage.cost_nanos < nanos && names.length > 0) onFreed()
    },
    note(event) {
      try {
        records.note(session, event)
      } catch {
        return
      }
      records.flushSoon()
    },
    recap(capNanos) {
      lease = recap(lease, capNanos)
    },
    update(told) {
      const spentNanos = Math.max(lease.spentNanos, leaseOf(told).spentNanos)
      lease = { ...lease, spentNanos }
      if (told.budget_nanos !== lease.capNanos) lease = recap(lease, told.budget_nanos)
      above = told.nodes
      capAgents(told.agent_cap_nanos)
    },
    save(next) {
      terms = next ?? terms
      saving = saveShared()
      return saving
    },
  }
  return {
    account,
    get savedTo() {
      return savedTo
    },
    async close() {
      revoked = true
      await saving.catch(() => {})
      await leases.remove(session)
    },
  }
}
