import { runs } from '@anchorhold/protocol/test-runs'
import { periodOf, type Span, spans } from '@anchorhold/core/ledger'
import { type MemoryDisk, memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox, type Outbox } from '@anchorhold/link/outbox'
import { eventBodies, type NodeName } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { OutboxRecord, Reservation, ToldNodes } from '@anchorhold/protocol/link'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Books, openBooks } from './books.ts'
import type { Account, Reserved } from './account.ts'
import type { KeptLease, Leases } from './leases.ts'
import { about, hourMs, type NodeCaps, sessions, terms, tick, usage, wish } from './test-books.ts'
import { rehearsal } from '../test-gate.ts'

/** The last one spends play money. */
const isPlay = (session: SessionId) => session === sessions[3]
/** Which nodes each session's calls go through: the last two share no group with the first two. */
const aboveOf = (session: SessionId): NodeName[] => [
  'owner',
  ...(session === sessions[2] ? [] : ['policy/bots']),
  session === sessions[0] || session === sessions[1] ? 'group/a' : 'group/b',
]
const nodeNames: NodeName[] = ['owner', 'policy/bots', 'group/a', 'group/b']
const agentCap = 900

type Call = {
  readonly session: SessionId
  readonly reserved: Reserved
  safe: boolean
  lostUnsafe: boolean
}
/** What a call weighs now, by the test's own account: what is set aside for it, or what it cost. */
type Weight = { readonly keys: readonly string[]; readonly beganMs: number; readonly nanos: number }
const keyIn = (simulated: boolean, name: string) => `${simulated} ${name}`

/** A gate's books, a daemon that stores what they say, and all that can befall the two. */
async function world(caps: readonly number[], nodeCaps: Readonly<Record<string, NodeCaps>>) {
  let disk: MemoryDisk = memoryDisk()
  let outbox: Outbox
  let books: Books
  let accounts = new Map<SessionId, Account>()
  /** Those whose leases are kept: nobody can call before that. */
  const served = new WeakSet<Account>()
  let soon: (() => void)[] = []
  let life = 0
  let broken = false
  let calls = 0
  const kept = new Map<SessionId, KeptLease>()
  let keptNodes: readonly ToldNodes[] = []
  const capOf = new Map(sessions.map((session, index) => [session, caps[index]!]))
  const capsOf = new Map(Object.entries(nodeCaps))
  let tickMs = hourMs
  let nowMs = 1_700_000_000_000
  const weights = new Map<string, Weight>()
  /** A session's sub-agents are gone when its windows are closed, and so are their sums. */
  const closedAt = new Map<SessionId, number>()
  /** The last that was written. */
  let reservation: Reservation | null = null
  /** Calls that were dialled, and those that are under way. */
  const all = new Map<string, Call>()
  let open: Call[] = []
  /** The daemon's log. */
  const stored: OutboxRecord[] = []
  const lastStored = () => stored.at(-1)?.n ?? 0
  const weigh = (
    {
      call = '',
      simulated,
      nodes = [],
      began_at: beganMs = 0,
    }: Omit<Reservation, 'call' | 'nanos'> & { call?: string | undefined },
    nanos: number,
  ) => void weights.set(call, { keys: nodes.map((name) => keyIn(simulated, name)), beganMs, nanos })
  /** What goes through a node in the period of a moment, by the test's own account. */
  const sumOf = (simulated: boolean, name: string, span: Span, atMs: number, ticks = tickMs) =>
    [...weights.values()].reduce((sum, { keys, beganMs, nanos }) => {
      const isMine = keys.includes(keyIn(simulated, name)) && periodOf(span, beganMs, ticks) === periodOf(span, atMs, ticks)
      return isMine ? sum + nanos : sum
    }, 0)
  /** What the daemon knows, from nothing but the usage that it has stored. */
  function toldNodes(simulated: boolean, names: readonly NodeName[]): ToldNodes {
    const usages = stored.flatMap(({ type, body }) => (type === 'usage' ? [eventBodies.usage.parse(body)] : []))
    const at = Math.max(nowMs, ...usages.map(({ began_at = 0 }) => began_at))
    const spentIn = (name: NodeName, span: Span) =>
      usages.reduce((sum, usage) => {
        const isMine = usage.simulated === simulated && usage.nodes?.includes(name)
        return isMine && periodOf(span, usage.began_at!, tickMs) === periodOf(span, at, tickMs) ? sum + usage.cost_nanos : sum
      }, 0)
    const nodes = names.map((name) => ({
      node: name,
      caps: capsOf.get(name)!,
      tick_ms: tickMs,
      asks: false,
      spent: { life: spentIn(name, 'life'), day: spentIn(name, 'day'), tick: spentIn(name, 'tick') },
    }))
    return { simulated, at, to: lastStored(), nodes }
  }
  /** The daemon tells of every node that the gate knows, as it does when a gate stands. */
  function tellAgain(): void {
    for (const simulated of [false, true])
      books.tell(
        toldNodes(
          simulated,
          nodeNames.filter((name) => books.node(simulated, name) !== undefined),
        ),
      )
    compareNodes()
  }
  function noneSetAside(): void {
    for (const simulated of [false, true])
      for (const name of nodeNames)
        for (const span of spans) expect(books.node(simulated, name)?.sums[span].reservedNanos ?? 0).toBe(0)
  }
  /** The books hold at every node what the test says that they hold. */
  function compareNodes(): void {
    for (const simulated of [false, true])
      for (const name of nodeNames) {
        const node = books.node(simulated, name)
        if (node === undefined) continue
        for (const span of spans) {
          const { spentNanos, reservedNanos, period } = node.sums[span]
          const atMs = span === 'life' ? 0 : period * (span === 'day' ? 24 * hourMs : node.tickMs)
          const sum = sumOf(simulated, name, span, atMs, node.tickMs)
          expect({ name, span, sum: spentNanos + reservedNanos }).toEqual({ name, span, sum })
        }
      }
  }
  const costOf = (session: SessionId) =>
    stored.reduce((sum, { session: of, type, body }) => {
      return of === session && type === 'usage' ? sum + eventBodies.usage.parse(body).cost_nanos : sum
    }, 0)

  function leases(): Leases {
    const born = life
    const alive = async () => {
      await tick()
      if (born !== life) await new Promise<never>(() => {})
    }
    return {
      nodes: async () => keptNodes,
      async putNodes(nodes) {
        await alive()
        keptNodes = nodes
      },
      list: async () => [...kept.values()],
      async put(lease) {
        await alive()
        kept.set(lease.session, lease)
      },
      async remove(session) {
        await alive()
        kept.delete(session)
      },
    }
  }

  /** A gate starts on what the one before it left, as `gate()` does. */
  async function begin(next: MemoryDisk): Promise<void> {
    for (;;) {
      life++
      disk = next
      accounts = new Map()
      soon = []
      open = []
      broken = false
      try {
        const opened = await openOutbox({ disk, now: () => nowMs, segmentBytes: 1000 })
        outbox = Object.create(opened, {
          append: {
            value(of: SessionId, entry: Parameters<Outbox['append']>[1]) {
              const n = opened.append(of, entry)
              if (entry.type !== 'reservation') return n
              reservation = entry.body
              return n
            },
          },
        }) as Outbox
        books = await openBooks({
          outbox,
          leases: leases(),
          now: () => nowMs,
          newCall: () => `call${++calls}`,
          soon: () => new Promise((resolve) => soon.push(resolve)),
          onBroken: () => (broken = true),
        })
        await books.recover()
        break
      } catch {
        // The disk failed while it recovered.
        next = disk.kill()
      }
    }
    // What it found is on the disk by now.
    for (const one of all.values()) one.safe = true
    // What counts from here on is what the log and the outbox say: each call once, and none open.
    weights.clear()
    const seen = [...stored, ...(await outbox.read(lastStored(), Infinity))]
    for (const { n, session: of, type, body } of seen) {
      if (type !== 'usage') continue
      const one = eventBodies.usage.parse(body)
      const nodes = n > (closedAt.get(of) ?? 0) ? one.nodes : aboveOf(of)
      weigh({ ...one, nodes }, one.cost_nanos)
    }
    for (const lease of books.kept.values()) {
      if (!books.knows(lease)) continue
      const account = books.open(lease.session, { ...lease, simulated: isPlay(lease.session) })
      accounts.set(lease.session, account)
      served.add(account)
    }
    compareNodes()
    noneSetAside()
    tellAgain()
    for (const account of accounts.values()) expect(account.lease.reservedNanos).toBe(0)
  }

  const it = {
    get disk() {
      return disk
    },
    accounts: () => accounts,
    async call(session: SessionId, nanos: number, agent: string | null) {
      const account = accounts.get(session)
      if (account === undefined || !served.has(account)) return
      let reserved: Reserved | null
      const simulated = isPlay(session)
      try {
        reserved = account.reserve(wish(nanos), { ...about, simulated, ...(agent === null ? {} : { agent }) })
      } catch {
        expect(broken).toBe(true)
        return it.kill()
      }
      if (reserved === null) return
      const { capNanos, spentNanos, reservedNanos } = account.lease
      // What costs nothing goes on also where the budget was lowered below what is spent.
      if (reserved.nanos > 0) expect(spentNanos + reservedNanos).toBeLessThanOrEqual(capNanos!)
      const agents: NodeName[] = agent === null ? [] : [`agent/${session}/${agent}`]
      const beganMs = reservation!.began_at!
      // No call begins before one that is known, whatever the time of day is.
      expect(beganMs).toBeGreaterThanOrEqual(Math.max(nowMs, ...[...weights.values()].map((one) => one.beganMs)))
      expect(reservation!.nodes).toEqual([...aboveOf(session), ...agents])
      weigh(reservation!, reserved.nanos)
      for (const name of aboveOf(session))
        for (const span of spans) {
          const cap = capsOf.get(name)![span]
          if (cap !== null && reserved.nanos > 0) expect(sumOf(simulated, name, span, beganMs)).toBeLessThanOrEqual(cap)
        }
      for (const name of agents)
        if (reserved.nanos > 0) expect(sumOf(simulated, name, 'life', beganMs)).toBeLessThanOrEqual(agentCap)
      compareNodes()
      const one: Call = { session, reserved, safe: false, lostUnsafe: false }
      // What costs nothing does not wait for the disk.
      if (reserved.nanos > 0)
        reserved.safe.then(
          () => (one.safe = true),
          () => {},
        )
      all.set(reserved.call, one)
      open.push(one)
    },
    async settle(index: number, share: number) {
      const [one] = open.splice(index % open.length, 1)
      if (one === undefined) return
      const before = accounts.get(one.session)!.lease
      const cost = Math.floor(one.reserved.nanos * share)
      accounts.get(one.session)!.settle(one.reserved, { ...usage(cost), simulated: isPlay(one.session) })
      weights.set(one.reserved.call, { ...weights.get(one.reserved.call)!, nanos: cost })
      if (!broken) compareNodes()
      const after = accounts.get(one.session)!.lease
      expect(after.spentNanos + after.reservedNanos).toBeLessThanOrEqual(before.spentNanos + before.reservedNanos)
      if (broken) await it.kill()
    },
    async kill() {
      await begin(disk.kill())
    },
    async cutPower(kept: number) {
      for (const one of all.values()) if (!one.safe) one.lostUnsafe = true
      await begin(disk.powerCut((bytes) => Math.floor(bytes * kept)))
    },
    failNext(fails: 'write' | 'sync', at: number) {
      if (fails === 'write') disk.failWrite(at, 'ENOSPC', 25)
      else disk.failSync(at, 'EIO')
    },
    async rest() {
      disk.finishSyncs()
      for (const work of soon.splice(0)) work()
      await tick()
      await tick()
      if (broken) await it.kill()
    },
    /** The daemon stores what there is, and says so. */
    async pull() {
      for (const record of await outbox.read(lastStored(), Infinity)) {
        expect(record.n).toBe(lastStored() + 1)
        stored.push(record)
      }
      outbox.trim(lastStored()).catch(() => {})
    },
    /** The daemon opens a session's windows, or tells the gate of them again. Resolves when its lease is kept. */
    open(session: SessionId): Promise<unknown> {
      const simulated = isPlay(session)
      const money = {
        budget_nanos: capOf.get(session)!,
        spent_nanos: costOf(session),
        spent_to: lastStored(),
        closed: false,
        nodes: aboveOf(session),
        agent_cap_nanos: agentCap,
        simulated,
      }
      books.tell(toldNodes(simulated, aboveOf(session)))
      compareNodes()
      const before = accounts.get(session)
      const account = before ?? books.open(session, money)
      accounts.set(session, account)
      if (before !== undefined) {
        const { spentNanos } = before.lease
        account.update(money)
        // The gate knew it all: the daemon's sum and the records that it has not got are the same sum.
        expect(account.lease.spentNanos).toBe(spentNanos)
      }
      const saved = account.save({ ...terms, ...(simulated ? { provider: rehearsal } : {}) })
      return saved.then(
        () => served.add(account),
        () => {},
      )
    },
    budget(session: SessionId, cap: number) {
      capOf.set(session, cap)
      const account = accounts.get(session)
      account?.recap(cap)
      account?.save().catch(() => {})
    },
    /** The owner changes what a node may spend, everywhere. */
    nodeCaps(name: NodeName, caps: NodeCaps) {
      capsOf.set(name, caps)
      tellAgain()
    },
    /** The owner changes how long a tick is. */
    ticks(minutes: number) {
      tickMs = minutes * 60_000
      tellAgain()
    },
    /** The time of day jumps, or goes by. */
    clock(ms: number) {
      nowMs = Math.max(0, nowMs + ms)
    },
    async close(session: SessionId) {
      // A window that closes ends its calls first, and each is booked.
      for (const one of open.filter((call) => call.session === session)) {
        accounts.get(session)!.settle(one.reserved, { ...usage(one.reserved.nanos), simulated: isPlay(session) })
      }
      open = open.filter((call) => call.session !== session)
      accounts.delete(session)
      closedAt.set(session, outbox.written)
      for (const [call, one] of weights)
        weights.set(call, { ...one, keys: one.keys.filter((key) => !key.includes(`agent/${session}`)) })
      const closed = books.close(session)
      disk.finishSyncs()
      await closed
      if (broken) await it.kill()
    },
    /** Everything comes to rest: the books must balance to the nano. */
    async balance() {
      await it.kill()
      await books.flush()
      await it.pull()
      for (const session of sessions) {
        void it.open(session)
        expect(accounts.get(session)!.lease).toMatchObject({ spentNanos: costOf(session), reservedNanos: 0 })
      }
      compareNodes()
      noneSetAside()
      const booked = stored.flatMap(({ type, body }) => (type === 'usage' ? [eventBodies.usage.parse(body)] : []))
      expect(new Set(booked.map(({ call }) => call)).size).toBe(booked.length)
      const byCall = new Map(booked.map((one) => [one.call, one]))
      for (const [name, { reserved, lostUnsafe }] of all) {
        const one = byCall.get(name)
        // Only the power going before a call is dialled can lose it.
        if (!lostUnsafe) expect(one).toBeDefined()
        if (one?.status === 0) expect(one).toMatchObject({ estimated: true, cost_nanos: reserved.nanos })
      }
    },
  }
  await begin(disk)
  await Promise.all(sessions.map((session) => it.open(session)))
  return it
}

const session = fc.constantFrom(...sessions)
const agent = fc.constantFrom(null, null, 'a1', 'a2', 'forged')
const cap = fc.option(fc.nat({ max: 4000 }), { freq: 3 })
const caps = fc.record({ life: cap, day: cap, tick: cap })
const jump = fc.oneof(fc.integer({ min: 0, max: 2 * hourMs }), fc.integer({ min: -40 * hourMs, max: 40 * hourMs }))
const nanos = fc.oneof(fc.integer({ min: 1, max: 1000 }), fc.integer({ min: 0, max: 40 }))
const share = fc.double({ min: 0, max: 1, noNaN: true })
/** All that can befall the books, with calls that may cost so much, and clocks that go so far. */
const deedsWith = (nanos: fc.Arbitrary<number>, jump: fc.Arbitrary<number>) => ({
  call: fc.tuple(fc.constant('call' as const), session, nanos, agent),
  settle: fc.tuple(fc.constant('settle' as const), fc.nat(), share),
  rest: fc.tuple(fc.constant('rest' as const)),
  pull: fc.tuple(fc.constant('pull' as const)),
  hold: fc.tuple(fc.constant('hold' as const)),
  open: fc.tuple(fc.constant('open' as const), session),
  budget: fc.tuple(fc.constant('budget' as const), session, fc.nat({ max: 5000 })),
  close: fc.tuple(fc.constant('close' as const), session),
  clock: fc.tuple(fc.constant('clock' as const), jump),
  caps: fc.tuple(fc.constant('caps' as const), fc.constantFrom(...nodeNames), caps),
  ticks: fc.tuple(fc.constant('ticks' as const), fc.constantFrom(1, 60, 90)),
  kill: fc.tuple(fc.constant('kill' as const)),
  power: fc.tuple(fc.constant('power' as const), share),
  fail: fc.tuple(fc.constant('fail' as const), fc.constantFrom('write', 'sync'), fc.integer({ min: 1, max: 4 })),
})
type Deeds = ReturnType<typeof deedsWith>
type Deed = Deeds[keyof Deeds] extends fc.Arbitrary<infer T> ? T : never
const oftenAs = (deeds: Deeds, weights: Partial<Record<keyof Deeds, number>>): fc.Arbitrary<Deed> =>
  fc.oneof(
    ...Object.entries(weights).map(([name, weight]) => ({ weight, arbitrary: deeds[name as keyof Deeds] as fc.Arbitrary<Deed> })),
  )

const anything = oftenAs(deedsWith(nanos, jump), {
  ...{ call: 10, settle: 8, rest: 4, pull: 3, hold: 2, open: 2, budget: 2, close: 1 },
  ...{ clock: 3, caps: 1, ticks: 1, kill: 2, power: 1, fail: 1 },
})

test('openBooks() loses and doubles no call, whatever dies at whichever write or sync', { timeout: 300_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat({ max: 5000 }), { minLength: 4, maxLength: 4 }),
      fc.record(Object.fromEntries(nodeNames.map((name) => [name, caps]))),
      fc.array(anything, { maxLength: 80, size: 'max' }),
      live,
    ),
    { numRuns: runs(1500) },
  )
})

async function live(
  budgets: readonly number[],
  nodeCaps: Readonly<Record<string, NodeCaps>>,
  deeds: readonly Deed[],
): Promise<void> {
  const it = await world(budgets, nodeCaps)
  for (const one of deeds) {
    if (one[0] === 'call') await it.call(one[1], one[2], one[3])
    else if (one[0] === 'settle') await it.settle(one[1], one[2])
    else if (one[0] === 'rest') await it.rest()
    else if (one[0] === 'pull') await it.pull()
    else if (one[0] === 'hold') it.disk.holdSyncs()
    else if (one[0] === 'open') void it.open(one[1])
    else if (one[0] === 'budget') it.budget(one[1], one[2])
    else if (one[0] === 'close') await it.close(one[1])
    else if (one[0] === 'clock') it.clock(one[1])
    else if (one[0] === 'caps') it.nodeCaps(one[1], one[2])
    else if (one[0] === 'ticks') it.ticks(one[1])
    else if (one[0] === 'kill') await it.kill()
    else if (one[0] === 'power') await it.cutPower(one[1])
    else it.failNext(one[1], one[2])
  }
  await it.balance()
}
