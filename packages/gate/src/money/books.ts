import { type Node, raised } from '@anchorhold/core/ledger'
import { sharedRuns } from '@anchorhold/link/shared-runs'
import type { NodeName, Raise } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { ToldNodes } from '@anchorhold/protocol/link'
import { type Account, agentCaps, agentsOf, type HeldAccount, holdAccount, isAgents, type Money, sessionOf } from './account.ts'
import type { KeptLease, Leases } from './leases.ts'
import { ledgerNodes } from './nodes.ts'
import { type Asks, openRecords, type RecordsParts } from './records.ts'

/** What sessions and the nodes above them may spend, have spent and have set aside. Whatever happens to the gate, it all follows from its outbox and
 *  the leases that it kept.
 *  Invariant: a call is dialled only after its reservation is on the disk; a reservation is settled exactly once. */
export type Books = {
  /** Leases that a gate before this one kept and that are not open. */
  readonly kept: ReadonlyMap<SessionId, KeptLease>
  /** The disk failed: nothing is written down any more, so nothing may be spent. */
  readonly broken: boolean
  /** Books every call that a gate before this one left open at all that was set aside for it, and says how many. */
  recover(): Promise<number>
  /** What was asked of a session's people and what was used of their grants, as long as a record of it is in the outbox. */
  asks(session: SessionId): Asks
  /** Whether all nodes of a lease are known here. */
  knows(lease: Pick<KeptLease, 'nodes' | 'provider'>): boolean
  /** What the daemon knows of the nodes above sessions. It comes before the sessions that go through them are opened. */
  tell(nodes: ToldNodes): void
  raise(simulated: boolean, raises: readonly Raise[]): void
  /** What is spent and set aside at a node. */
  node(simulated: boolean, name: NodeName): Node | undefined
  /** Keeps the nodes for a gate that comes after this one. */
  keepNodes(): Promise<void>
  open(session: SessionId, money: Money): Account
  /** Revokes the session's lease. */
  close(session: SessionId): Promise<void>
  flush(): Promise<void>
}

export type BooksParts = RecordsParts & {
  readonly leases: Leases
  /** The time of day. */
  readonly now: () => number
  readonly newCall: () => string
  /** Nodes that others wait at may hold more than before. */
  readonly onFreed?: () => void
}

const nothing = { input: 0, output: 0, cache_read: 0, cache_write: 0 }

export async function openBooks(parts: BooksParts): Promise<Books> {
  const { outbox, leases, now, newCall, onFreed = () => {} } = parts
  const records = await openRecords(parts)
  const held = new Map<SessionId, HeldAccount>()
  const kept = new Map((await leases.list()).map((lease) => [lease.session, lease]))
  const nodes = ledgerNodes({ now, booked: records.bookedAt, reserved: records.reservedAt })
  for (const beganMs of records.beginnings()) nodes.saw(beganMs)

  /** Up to which record the nodes are kept. */
  let nodesSavedTo = Infinity
  for (const told of await leases.nodes()) {
    nodes.tell(told)
    nodesSavedTo = Math.min(nodesSavedTo, told.to)
  }
  // A gate that was killed before it kept the nodes once more has left those of sessions whose windows it had closed.
  nodes.forget((name) => {
    const session = sessionOf(name)
    return session !== null && !kept.has(session) && records.lastOf(session) === 0
  })
  // Nobody tells of sub-agents: what they spent is known from here alone.
  for (const { simulated, name } of records.nodesSeen.values())
    if (isAgents(name) && nodes.get(simulated, name) === undefined) nodes.make(simulated, name, agentCaps(null))
  const forgetAgents = (session: SessionId) => nodes.forget((name) => name.startsWith(agentsOf(session)))

  const saveNodes = sharedRuns(async () => {
    if (nodes.size === 0) return
    const to = records.last
    const told = nodes.told(to)
    nodesSavedTo = Math.min(nodesSavedTo, to)
    await records.flush()
    await leases.putNodes(told)
    nodesSavedTo = to
  })

  /** The last record, up to one, that no call under way and no lease which only lies there needs. */
  function unneededTo(n: number): number {
    let free = n
    for (const call of records.openCalls.values()) free = Math.min(free, call.n - 1)
    for (const [session, { spent_to }] of kept) if (records.lastOf(session) > spent_to) free = Math.min(free, spent_to)
    return free
  }

  // A record may go when its call is settled and its cost is in a lease that was kept, or in the daemon's log for good.
  outbox.onTrim(async (n, least) => {
    // To keep leases takes the disk's time: for a call that stays open long, all of them would be kept anew with every acknowledgement, and
    // nothing could go.
    let free = unneededTo(n)
    if (free < least) return free
    const behind = () => [...held.values()].filter(({ account, savedTo }) => account.last > savedTo)
    const nodesBehind = () => nodes.size > 0 && records.lastAtNodes > nodesSavedTo
    await Promise.allSettled([...behind().map(({ account }) => account.save()), ...(nodesBehind() ? [saveNodes()] : [])])
    for (const { savedTo } of behind()) free = Math.min(free, savedTo)
    if (nodesBehind()) free = Math.min(free, nodesSavedTo)
    const isHeld = (session: SessionId) => held.has(session)
    for (const session of records.forgetUpTo(free, isHeld)) if (!kept.has(session)) forgetAgents(session)
    return free
  })

  return {
    kept,
    get broken() {
      return records.broken
    },
    async recover() {
      const left = [...records.openCalls.values()]
      for (const { boot: _boot, ...open } of left) {
        const { session, nanos, n: _, beganMs, ...about } = open
        const usage = { tokens: nothing, cost_nanos: nanos, estimated: true, status: 0, duration_ms: 0 }
        records.book(session, { ...about, began_at: beganMs, ...usage }, beganMs)
        for (const name of about.nodes ?? []) nodes.book(about.simulated, name, open, nanos)
      }
      if (left.length > 0) await records.flush()
      return left.length
    },
    asks: records.asks,
    knows: ({ nodes: names, provider }) => names.every((name) => nodes.get(provider.kind === 'rehearsal', name) !== undefined),
    tell: (told) => nodes.tell(told),
    raise(simulated, raises) {
      for (const { node: name, span, period, cap_nanos } of raises) {
        const known = nodes.get(simulated, name)
        if (known !== undefined) nodes.put({ ...known, node: raised(known.node, span, period, cap_nanos) })
      }
    },
    node: (simulated, name) => nodes.get(simulated, name)?.node,
    keepNodes: saveNodes,
    open(session, money) {
      const lease = kept.get(session)
      const before = lease === undefined ? null : { terms: lease, savedTo: lease.spent_to, agentCapNanos: lease.agent_cap_nanos }
      const shared = { records, nodes, leases, saveNodes, newCall, onFreed }
      const one = holdAccount(session, money, { ...shared, kept: before })
      kept.delete(session)
      held.set(session, one)
      return one.account
    },
    async close(session) {
      const one = held.get(session)
      held.delete(session)
      kept.delete(session)
      // Also where a gate before this one kept it and nobody has opened it here.
      nodes.forget((name) => sessionOf(name) === session)
      await (one?.close() ?? leases.remove(session))
    },
    flush: records.flush,
  }
}
