import {
  afford,
  type Lease,
  nears,
  newLease,
  type Node,
  type Path,
  raised,
  recap,
  reserveAll,
  settleAll,
  shortIn,
  type Span,
  spans,
  strictest,
  type Sum,
  type Wish,
} from '@anchorhold/core/ledger'
import type { Outbox } from '@anchorhold/link/outbox'
import { type EventBody, eventBodies, type NewEvent, type NodeName, parseNewEvent, type Raise } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { type Asked, type LinkRecord, Reservation, type ToldNodes } from '@anchorhold/protocol/link'
import type { Nanos } from '@anchorhold/protocol/money'
import type { KeptLease, Leases } from './leases.ts'
import { keyOf, type Known, ledgerNodes } from './nodes.ts'
import { warning } from './warnings.ts'

/** What sessions and the nodes above them may spend, have spent and have set aside. Whatever happens to the gate, it all follows from its outbox and
 *  the leases that it kept.
 *  Invariant: a call is dialled only after its reservation is written; a reservation is settled exactly once. */
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

/** A session's money, as somebody knows it who has seen the gate's records up to one. */
export type Money = Pick<KeptLease, 'budget_nanos' | 'spent_nanos' | 'spent_to' | 'closed' | 'nodes' | 'agent_cap_nanos'> & {
  readonly simulated: boolean
}
export type ServedOn = Pick<KeptLease, 'folder' | 'provider' | 'rules' | 'paused' | 'spend' | 'network' | 'net' | 'authority'>

/** By record, what is known of requests and grants beside what a lease or the daemon says. */
export type Asks = {
  readonly opened: readonly { readonly n: number; readonly asked: Asked }[]
  /** Taken back here, or heard to be answered. */
  readonly settled: ReadonlySet<RequestId>
  readonly told: ReadonlySet<RequestId>
  readonly used: ReadonlySet<RequestId>
}

/** What a call may cost, written down. */
export type Reserved = {
  readonly call: string
  readonly nanos: Nanos
  readonly maxTokens: number
  /** Resolves when it is on the disk: not before may any of the answer be passed on. */
  readonly safe: Promise<void>
}

/** A node that does not hold what a call may cost. */
export type Shortage = {
  readonly node: NodeName
  readonly asks: boolean
  readonly span: Span
  readonly tickMs: number
  readonly sum: Sum
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
  /** Books what the call cost. When that cannot be written, the books are broken and the reservation stands. */
  settle(reserved: Reserved, usage: Omit<EventBody<'usage'>, 'call' | 'began_at' | 'nodes' | 'agent'>): void
  note(event: NewEvent): void
  recap(capNanos: Nanos | null): void
  /** What the daemon knows. What was spent here is never forgotten. */
  update(money: Money): void
  /** Keeps the lease, with these terms or those it had, for a gate that comes after this one. */
  save(terms?: ServedOn): Promise<void>
}

export type BooksParts = {
  readonly outbox: Outbox
  readonly leases: Leases
  /** The time of day. */
  readonly now: () => number
  readonly newCall: () => string
  /** Resolves when what is being done now is done, and soon after it. What is due by then goes to the disk together.
   *  Where so many calls are open, others may be about to be. */
  readonly afterThis: (openCalls: number) => Promise<void>
  readonly soon: () => Promise<void>
  readonly onBroken: (error: Error) => void
  /** Nodes that others wait at may hold more than before. */
  readonly onFreed?: () => void
}

type Entry = { readonly n: number; readonly nanos: Nanos; readonly beganMs: number; readonly exceeds: boolean }
type OpenCall = Reservation & { readonly n: number; readonly session: SessionId; readonly beganMs: number }
/** An account with what only the books need to know of it. */
type Held = { readonly account: Account; savedTo: number; readonly close: () => Promise<void> }

const asksTypes: ReadonlySet<string> = new Set(['request.opened', 'request.answered', 'request.told', 'grant.used'])
const nothing = { input: 0, output: 0, cache_read: 0, cache_write: 0 }
/** So many sub-agents of a session have a sum of their own: code in a cell can call itself whatever it likes. */
const agentsMax = 100

export async function openBooks(parts: BooksParts): Promise<Books> {
  const { outbox, leases, now, newCall, afterThis, soon, onBroken, onFreed = () => {} } = parts
  const openCalls = new Map<string, OpenCall>()
  /** What the calls of each session, and those through each node, cost, by record, as long as the record is in the outbox. */
  const booked = new Map<string, Entry[]>()
  /** What records say of requests and grants. */
  const asking = new Map<SessionId, { readonly n: number; readonly event: NewEvent }[]>()
  const lastOf = new Map<SessionId, number>()
  const held = new Map<SessionId, Held>()
  const kept = new Map((await leases.list()).map((lease) => [lease.session, lease]))
  let broken = false
  let dialling: Promise<void> | null = null
  let flushDue = false
  /** The last record that changed a node, and up to which of them the nodes are kept. */
  let nodesLast = 0
  let nodesSavedTo = Infinity
  let savingNodes: Promise<void> = Promise.resolve()
  const nodes = ledgerNodes({
    now,
    booked: (key) => booked.get(key) ?? [],
    reserved: (key) => [...openCalls.values()].filter((call) => keysOf(call).includes(key)),
  })

  const agentsSeen = new Map<NodeName, readonly [simulated: boolean, name: NodeName]>()
  for (const { n, at, session, type, body } of await outbox.read(0, Infinity)) {
    lastOf.set(session, n)
    if (type === 'reservation') {
      const reservation = Reservation.parse(body)
      openCalls.set(reservation.call, { ...reservation, n, session, beganMs: reservation.began_at ?? at })
      for (const name of reservation.nodes ?? [])
        if (name.startsWith(agentsOf(session))) agentsSeen.set(name, [reservation.simulated, name])
    } else if (type === 'usage') {
      const usage = eventBodies.usage.parse(body)
      enter(session, n, usage, usage.began_at ?? at)
      for (const name of usage.nodes ?? []) if (name.startsWith(agentsOf(session))) agentsSeen.set(name, [usage.simulated, name])
    } else if (asksTypes.has(type)) remember(session, n, parseNewEvent(type, body))
  }

  for (const { beganMs } of [...openCalls.values(), ...[...booked.values()].flat()]) nodes.saw(beganMs)
  for (const told of await leases.nodes()) {
    nodes.tell(told)
    nodesSavedTo = Math.min(nodesSavedTo, told.to)
  }
  // Nobody tells of sub-agents: what they spent is known from here alone.
  for (const [simulated, name] of agentsSeen.values())
    if (nodes.get(simulated, name) === undefined) nodes.make(simulated, name, { life: null, day: null, tick: null })

  function remember(session: SessionId, n: number, event: NewEvent): void {
    if (!asksTypes.has(event.type)) return
    const known = asking.get(session)
    if (known === undefined) asking.set(session, [{ n, event }])
    else known.push({ n, event })
  }

  /** A call is in the books. */
  function enter(session: SessionId, n: number, usage: EventBody<'usage'>, beganMs: number): void {
    const { call = '', cost_nanos: nanos } = usage
    const reservation = openCalls.get(call)
    openCalls.delete(call)
    const exceeds = reservation !== undefined && nanos > reservation.nanos
    const keys = keysOf(usage)
    if (keys.length > 0) nodesLast = n
    for (const key of [session, ...keys]) {
      const entries = booked.get(key)
      if (entries === undefined) booked.set(key, [{ n, nanos, beganMs, exceeds }])
      else entries.push({ n, nanos, beganMs, exceeds })
    }
  }

  function breakOn(error: unknown): void {
    if (broken) return
    broken = true
    onBroken(error instanceof Error ? error : new Error(String(error)))
  }

  function append(session: SessionId, entry: NewEvent | LinkRecord): number {
    try {
      const n = outbox.append(session, entry)
      lastOf.set(session, n)
      return n
    } catch (error) {
      breakOn(error)
      throw error
    }
  }

  async function flush(): Promise<void> {
    try {
      await outbox.flush()
    } catch (error) {
      breakOn(error)
      throw error
    }
  }

  /** What is written is safe from the gate's own death; its way to the disk may be shared with others. */
  function flushSoon(): void {
    if (flushDue) return
    flushDue = true
    void soon().then(() => {
      flushDue = false
      return flush().catch(() => {})
    })
  }

  /** The dial goes first: the disk and the upstream work at the same time. */
  function flushAfterDial(): Promise<void> {
    if (dialling !== null) return dialling
    dialling = afterThis(openCalls.size).then(() => {
      dialling = null
      return flush()
    })
    dialling.catch(() => {})
    return dialling
  }

  /** The nodes are kept before a lease that goes through them. */
  function saveNodes(): Promise<void> {
    savingNodes = savingNodes
      .catch(() => {})
      .then(async () => {
        if (nodes.size === 0) return
        const to = outbox.written
        const told = nodes.told(to)
        nodesSavedTo = Math.min(nodesSavedTo, to)
        await flush()
        await leases.putNodes(told)
        nodesSavedTo = to
      })
    return savingNodes
  }

  function spentAfter(session: SessionId, n: number): { readonly nanos: Nanos; readonly exceeds: boolean } {
    const later = (booked.get(session) ?? []).filter((entry) => entry.n > n)
    return { nanos: later.reduce((sum, entry) => sum + entry.nanos, 0), exceeds: later.some(({ exceeds }) => exceeds) }
  }

  function known({ budget_nanos, spent_nanos, spent_to, closed }: Money, session: SessionId): Lease {
    const { nanos, exceeds } = spentAfter(session, spent_to)
    const lease = newLease(budget_nanos, spent_nanos + nanos)
    return { ...lease, closed: closed || (budget_nanos !== null && exceeds) }
  }

  function hold(session: SessionId, money: Money): Held {
    let lease = known(money, session)
    const { simulated } = money
    let above = money.nodes
    let agentCap = money.agent_cap_nanos
    let terms: ServedOn | null = kept.get(session) ?? null
    let saving: Promise<void> = Promise.resolve()
    let revoked = false
    const agents = new Set<string>()

    /** The nodes that a call of this agent of the session goes through. */
    function wayOf(agent: string | undefined): Known[] {
      const way = above.map((name) => {
        const node = nodes.get(simulated, name)
        // What may be spent there is not known, so nothing may.
        if (node === undefined) throw new Failure('gate_unavailable', `Nobody has told of the ledger's node "${name}"`)
        return node
      })
      if (agent === undefined || agentCap === null) return way
      if (agents.size < agentsMax) agents.add(agent)
      const name: NodeName = `${agentsOf(session)}${agents.has(agent) ? agent : '*'}`
      return [...way, nodes.make(simulated, name, { life: agentCap, day: null, tick: null })]
    }
    const pathOf = (way: readonly Known[]): Path => ({ lease, nodes: way.map(({ node }) => node) })
    /** Takes over what a call has changed on its way. */
    function change(way: readonly Known[], path: Path): void {
      lease = path.lease
      for (const [index, known] of way.entries()) nodes.put({ ...known, node: path.nodes[index]! })
    }

    async function saveNow(): Promise<void> {
      if (revoked || terms === null) return
      const { folder, provider, rules, paused, spend, network, net, authority } = terms
      const { capNanos, spentNanos, closed } = lease
      const money = { budget_nanos: capNanos, spent_nanos: spentNanos, spent_to: outbox.written, closed }
      // What comes after this sum is needed with it, from before it is kept.
      one.savedTo = Math.min(one.savedTo, money.spent_to)
      // The sum must not go further than the records that it is made of.
      await flush()
      if (above.length > 0) await saveNodes()
      await leases.put({
        session,
        folder,
        provider,
        rules,
        paused,
        spend,
        network,
        net,
        authority,
        nodes: above,
        agent_cap_nanos: agentCap,
        ...money,
      })
      one.savedTo = money.spent_to
    }

    const account: Account = {
      get lease() {
        return lease
      },
      get last() {
        return lastOf.get(session) ?? 0
      },
      get capped() {
        if (lease.capNanos !== null || agentCap !== null) return true
        return above.some((name) => {
          const known = nodes.get(simulated, name)
          return known === undefined || spans.some((span) => known.node.sums[span].capNanos !== null)
        })
      },
      short(nanos, agent) {
        const way = wayOf(agent)
        return shortIn(pathOf(way), nanos).map(({ node: index, span, sum }) => {
          const { name, asks, node } = way[index]!
          return { node: name, asks, span, tickMs: node.tickMs, sum }
        })
      },
      reserve(wish, about) {
        const way = wayOf(about.agent)
        const path = pathOf(way)
        const affordable = afford(strictest(path), wish)
        const next = affordable === null ? null : reserveAll(path, affordable.nanos)
        if (affordable === null || next === null) return null
        const beganMs = nodes.at()
        const where = way.length === 0 ? {} : { nodes: way.map(({ name }) => name) }
        const reservation = { call: newCall(), nanos: affordable.nanos, ...about, began_at: beganMs, ...where }
        const n = append(session, { type: 'reservation', body: reservation })
        openCalls.set(reservation.call, { ...reservation, n, session, beganMs })
        change(way, next)
        const safe = flushAfterDial()
        return { call: reservation.call, ...affordable, safe }
      },
      settle({ call }, usage) {
        const open = openCalls.get(call)
        if (open === undefined) return
        const { nanos, beganMs, nodes: names = [], agent } = open
        const way = names.flatMap((name) => nodes.get(simulated, name) ?? [])
        const before = pathOf(way)
        const after = settleAll(before, { nanos, beganMs }, usage.cost_nanos)
        change(way, after)
        const where = {
          began_at: beganMs,
          ...(names.length > 0 ? { nodes: names } : {}),
          ...(agent === undefined ? {} : { agent }),
        }
        const body = { call, ...usage, ...where }
        try {
          enter(session, append(session, { type: 'usage', body }), body, beganMs)
          warn(way, before, after)
        } catch {
          return
        }
        flushSoon()
        if (usage.cost_nanos < nanos && names.length > 0) onFreed()
      },
      note(event) {
        try {
          remember(session, append(session, event), event)
        } catch {
          return
        }
        flushSoon()
      },
      recap(capNanos) {
        lease = recap(lease, capNanos)
      },
      update(told) {
        const spentNanos = Math.max(lease.spentNanos, known(told, session).spentNanos)
        lease = { ...lease, spentNanos }
        if (told.budget_nanos !== lease.capNanos) lease = recap(lease, told.budget_nanos)
        above = told.nodes
        agentCap = told.agent_cap_nanos
      },
      save(next) {
        terms = next ?? terms
        saving = saving.catch(() => {}).then(saveNow)
        return saving
      },
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
    const one: Held = {
      account,
      savedTo: kept.get(session)?.spent_to ?? Infinity,
      async close() {
        revoked = true
        nodes.forget((name) => name.startsWith(agentsOf(session)))
        await saving.catch(() => {})
        await leases.remove(session)
      },
    }
    return one
  }

  // A record may go when its call is settled and its cost is in a lease that was kept, or in the daemon's log for good.
  outbox.onTrim(async (n) => {
    const behind = () => [...held.values()].filter(({ account, savedTo }) => account.last > savedTo)
    const nodesBehind = () => nodes.size > 0 && nodesLast > nodesSavedTo
    await Promise.allSettled([...behind().map(({ account }) => account.save()), ...(nodesBehind() ? [saveNodes()] : [])])
    let free = n
    for (const call of openCalls.values()) free = Math.min(free, call.n - 1)
    for (const { savedTo } of behind()) free = Math.min(free, savedTo)
    if (nodesBehind()) free = Math.min(free, nodesSavedTo)
    for (const [session, { spent_to }] of kept) if ((lastOf.get(session) ?? 0) > spent_to) free = Math.min(free, spent_to)
    for (const [key, entries] of booked) {
      const rest = entries.filter((entry) => entry.n > free)
      if (rest.length > 0) booked.set(key, rest)
      else booked.delete(key)
    }
    for (const [session, records] of asking) {
      const rest = records.filter((record) => record.n > free)
      if (rest.length > 0) asking.set(session, rest)
      else asking.delete(session)
    }
    for (const [session, last] of lastOf) {
      if (last > free || held.has(session)) continue
      lastOf.delete(session)
      if (!kept.has(session)) nodes.forget((name) => name.startsWith(agentsOf(session)))
    }
    return free
  })

  return {
    kept,
    get broken() {
      return broken
    },
    async recover() {
      const left = [...openCalls.values()]
      for (const { session, nanos, n: _, beganMs, ...about } of left) {
        const usage = { tokens: nothing, cost_nanos: nanos, estimated: true, status: 0, duration_ms: 0 }
        const body = { ...about, began_at: beganMs, ...usage }
        const n = append(session, { type: 'usage', body })
        enter(session, n, body, beganMs)
        for (const name of about.nodes ?? []) nodes.bookInFull(about.simulated, name, { n, nanos, beganMs })
      }
      if (left.length > 0) await flush()
      return left.length
    },
    asks: (session) => asksIn(asking.get(session) ?? []),
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
      const one = hold(session, money)
      kept.delete(session)
      held.set(session, one)
      return one.account
    },
    async close(session) {
      const one = held.get(session)
      held.delete(session)
      kept.delete(session)
      await (one?.close() ?? leases.remove(session))
    },
    flush,
  }
}

const agentsOf = (session: SessionId) => `agent/${session}/`
/** Under which names of nodes a call is booked. */
const keysOf = ({ simulated, nodes = [] }: Pick<Reservation, 'simulated' | 'nodes'>) =>
  nodes.map((name) => keyOf(simulated, name))

function asksIn(records: readonly { readonly n: number; readonly event: NewEvent }[]): Asks {
  const opened: { readonly n: number; readonly asked: Asked }[] = []
  const [settled, told, used] = [new Set<RequestId>(), new Set<RequestId>(), new Set<RequestId>()]
  for (const { n, event } of records) {
    if (event.type === 'request.opened' && event.body.digest !== undefined) {
      const { id: request, digest, pins = [], expires_at = null } = event.body
      opened.push({ n, asked: { request, digest, pins, expires_at } })
    }
    if (event.type === 'request.answered' || event.type === 'request.told') settled.add(event.body.id)
    if (event.type === 'request.told') told.add(event.body.id)
    if (event.type === 'grant.used') used.add(event.body.request)
  }
  return { opened, settled, told, used }
}
