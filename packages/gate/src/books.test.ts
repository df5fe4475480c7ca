import { type MemoryDisk, memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox, type Outbox, readDeadOutbox } from '@anchorhold/link/outbox'
import { eventBodies, type NodeName } from '@anchorhold/protocol/events'
import { callNanosMax } from '@anchorhold/core/prices'
import { periodOf, type Span, spans } from '@anchorhold/core/ledger'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { LedgerNode, OutboxRecord, Reservation, ToldNodes } from '@anchorhold/protocol/link'
import fc from 'fast-check'
import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { type Account, type Books, openBooks, type Reserved } from './books.ts'
import type { KeptLease, Leases } from './leases.ts'
import type { PurseSize } from './purse.ts'
import { local, rehearsal, plainAuthority } from './test-gate.ts'

const sessions = ['ses_0000000000000001', 'ses_0000000000000002', 'ses_0000000000000003', 'ses_0000000000000004'] as SessionId[]
/** The last one spends play money. */
const isPlay = (session: SessionId) => session === sessions[3]
/** Which nodes each session's calls go through: the last two share no group with the first two. */
const aboveOf = (session: SessionId): NodeName[] => [
  'owner',
  ...(session === sessions[2] ? [] : ['policy/bots']),
  session === sessions[0] || session === sessions[1] ? 'group/a' : 'group/b',
]
const nodeNames: NodeName[] = ['owner', 'policy/bots', 'group/a', 'group/b']
const hourMs = 3_600_000
const agentCap = 900
const about = { provider: 'p', model: 'm', simulated: false, notional: false }
const terms = {
  folder: '/w',
  provider: local('http://localhost'),
  rules: { allow: [] },
  paused: false,
  spend: 'stop' as const,
  network: 'none' as const,
  net: { ca: null, mirrors: {}, forges: {}, credentials: [], model_hosts: [], slowness: 1 },
  authority: plainAuthority,
}
const wish = (nanos: number) => ({ promptNanos: nanos, perOutputToken: 0, maxTokens: 1, thinkingTokens: 0 })
const usage = (cost_nanos: number) => ({
  ...about,
  tokens: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
  cost_nanos,
  estimated: false,
  status: 200,
  duration_ms: 1,
})
const alone = { nodes: [], agent_cap_nanos: null, simulated: false }
const tick = () => new Promise(setImmediate)

type Call = {
  readonly session: SessionId
  readonly reserved: Reserved
  safe: boolean
  lostUnsafe: boolean
  /** What it cost, or the most that it can have cost. */
  costNanos: number
}
type NodeCaps = LedgerNode['caps']
/** What a call weighs now, by the test's own account: what is set aside for it, or what it cost. */
type Weight = { readonly keys: readonly string[]; readonly beganMs: number; readonly nanos: number }
const keyIn = (simulated: boolean, name: string) => `${simulated} ${name}`

/** A gate's books, a daemon that stores what they say, and all that can befall the two. */
async function world(caps: readonly number[], nodeCaps: Readonly<Record<string, NodeCaps>>, purseNanos: number | null) {
  let boot = 0
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
              if (entry.body.boot === undefined) reservation = entry.body
              else if (entry.body.nanos > 0) weigh(entry.body, entry.body.nanos)
              else weights.delete(entry.body.call)
              return n
            },
          },
        }) as Outbox
        books = await openBooks({
          outbox,
          leases: leases(),
          now: () => nowMs,
          newCall: () => `call${++calls}`,
          afterThis: async () => {},
          soon: () => new Promise((resolve) => soon.push(resolve)),
          purse: purseNanos === null ? null : { boot: `boot${boot}`, nanos: purseNanos },
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
    await lookIntoPurses()
    tellAgain()
    for (const account of accounts.values()) expect(account.lease.reservedNanos).toBe(0)
  }

  const usages = async () =>
    [...stored, ...(await outbox.read(lastStored(), Infinity))].flatMap(({ session: of, type, body }) =>
      type === 'usage' ? [{ of, ...eventBodies.usage.parse(body) }] : [],
    )
  /** How much of purses was booked for each session; known once a gate has begun. */
  const pursesBooked = () => new Map(pursed)
  async function lookIntoPurses(): Promise<void> {
    pursed = new Map(sessions.map((session) => [session, 0]))
    for (const { of, call = '', cost_nanos } of await usages()) if (!all.has(call)) pursed.set(of, pursed.get(of)! + cost_nanos)
  }
  let pursed = new Map<SessionId, number>()

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
      const one: Call = { session, reserved, safe: false, lostUnsafe: false, costNanos: reserved.nanos }
      reserved.safe?.then(
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
      one.costNanos = cost
      if (!broken) compareNodes()
      const after = accounts.get(one.session)!.lease
      expect(after.spentNanos + after.reservedNanos).toBeLessThanOrEqual(before.spentNanos + before.reservedNanos)
      if (broken) await it.kill()
    },
    async kill() {
      const before = pursesBooked()
      await begin(disk.kill())
      // Whoever is only killed has lost nothing that it wrote.
      expect(pursesBooked()).toEqual(before)
    },
    async cutPower(kept: number) {
      const atRisk = [...all.values()].filter(({ safe, lostUnsafe }) => !safe && !lostUnsafe)
      for (const one of atRisk) one.lostUnsafe = true
      const before = pursesBooked()
      boot++
      await begin(disk.powerCut((bytes) => Math.floor(bytes * kept)))
      // Of calls that did not wait for the disk, all that was lost is in the purses.
      const booked = new Set((await usages()).map(({ call }) => call))
      for (const session of sessions) {
        const lost = atRisk.filter(
          (one) => one.session === session && one.reserved.safe === null && !booked.has(one.reserved.call),
        )
        const lostNanos = lost.reduce((sum, { costNanos }) => sum + costNanos, 0)
        expect(lostNanos).toBeLessThanOrEqual(pursesBooked().get(session)! - before.get(session)!)
      }
    },
    /** A turn ends. */
    rested: (session: SessionId) => accounts.get(session)?.rest(),
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
        // Only the power going before the first byte of an answer can lose a call.
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
/** So small that budgets here hold many of them. */
const purse = fc.constantFrom(null, 40, 160)
const share = fc.double({ min: 0, max: 1, noNaN: true })
const step = fc.oneof(
  { weight: 10, arbitrary: fc.tuple(fc.constant('call' as const), session, nanos, agent) },
  { weight: 8, arbitrary: fc.tuple(fc.constant('settle' as const), fc.nat(), share) },
  { weight: 4, arbitrary: fc.tuple(fc.constant('rest' as const)) },
  { weight: 3, arbitrary: fc.tuple(fc.constant('pull' as const)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('hold' as const)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('open' as const), session) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('budget' as const), session, fc.nat({ max: 5000 })) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('close' as const), session) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('rested' as const), session) },
  { weight: 3, arbitrary: fc.tuple(fc.constant('clock' as const), jump) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('caps' as const), fc.constantFrom(...nodeNames), caps) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('ticks' as const), fc.constantFrom(1, 60, 90)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('kill' as const)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('power' as const), share) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constant('fail' as const), fc.constantFrom('write', 'sync'), fc.integer({ min: 1, max: 4 })),
  },
)

test('openBooks() loses and doubles no call, whatever dies at whichever write or sync', { timeout: 300_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat({ max: 5000 }), { minLength: 4, maxLength: 4 }),
      fc.record(Object.fromEntries(nodeNames.map((name) => [name, caps]))),
      purse,
      fc.array(step, { maxLength: 80, size: 'max' }),
      live,
    ),
    { numRuns: 1500 },
  )
})

/** Sessions and nodes that hold many purses, and calls that are small. */
const small = fc.oneof(fc.nat({ max: 6 }), fc.nat({ max: 45 }))
const plentiful = fc.oneof(
  { weight: 12, arbitrary: fc.tuple(fc.constant('call' as const), session, small, agent) },
  { weight: 8, arbitrary: fc.tuple(fc.constant('settle' as const), fc.nat(), share) },
  { weight: 6, arbitrary: fc.tuple(fc.constant('rest' as const)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('pull' as const)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('hold' as const)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('open' as const), session) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('close' as const), session) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('rested' as const), session) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('clock' as const), fc.integer({ min: 0, max: hourMs })) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('kill' as const)) },
  { weight: 3, arbitrary: fc.tuple(fc.constant('power' as const), share) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constant('fail' as const), fc.constantFrom('write', 'sync'), fc.integer({ min: 1, max: 4 })),
  },
)

test('openBooks() loses nothing of small calls that did not wait for the disk, whatever goes', { timeout: 300_000 }, async () => {
  const enough = fc.constantFrom(20_000, 100_000)
  const many = fc.constantFrom(null, 20_000)
  await fc.assert(
    fc.asyncProperty(
      fc.array(enough, { minLength: 4, maxLength: 4 }),
      fc.record(Object.fromEntries(nodeNames.map((name) => [name, fc.record({ life: many, day: many, tick: many })]))),
      fc.constantFrom(24, 160),
      fc.array(plentiful, { maxLength: 80, size: 'max' }),
      live,
    ),
    { numRuns: 1000 },
  )
})

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never
async function live(
  budgets: readonly number[],
  nodeCaps: Readonly<Record<string, NodeCaps>>,
  purseNanos: number | null,
  steps: readonly Step[],
): Promise<void> {
  const it = await world(budgets, nodeCaps, purseNanos)
  for (const one of steps) {
    if (one[0] === 'call') await it.call(one[1], one[2], one[3])
    else if (one[0] === 'settle') await it.settle(one[1], one[2])
    else if (one[0] === 'rest') await it.rest()
    else if (one[0] === 'pull') await it.pull()
    else if (one[0] === 'hold') it.disk.holdSyncs()
    else if (one[0] === 'open') void it.open(one[1])
    else if (one[0] === 'budget') it.budget(one[1], one[2])
    else if (one[0] === 'close') await it.close(one[1])
    else if (one[0] === 'rested') it.rested(one[1])
    else if (one[0] === 'clock') it.clock(one[1])
    else if (one[0] === 'caps') it.nodeCaps(one[1], one[2])
    else if (one[0] === 'ticks') it.ticks(one[1])
    else if (one[0] === 'kill') await it.kill()
    else if (one[0] === 'power') await it.cutPower(one[1])
    else it.failNext(one[1], one[2])
  }
  await it.balance()
}

const id = sessions[0]!
/** Books over a disk of their own, whose leases are kept when the test lets them. */
async function plainBooks(purse: PurseSize | null = null) {
  const disk = memoryDisk()
  const outbox = await openOutbox({ disk, now: () => 0, segmentBytes: 500 })
  const puts: { readonly lease: KeptLease; readonly done: PromiseWithResolvers<void> }[] = []
  const books = await openBooks({
    outbox,
    now: () => 0,
    leases: {
      nodes: async () => [],
      putNodes: async () => {},
      list: async () => [],
      put(lease) {
        const done = Promise.withResolvers<void>()
        puts.push({ lease, done })
        return done.promise
      },
      remove: async () => {},
    },
    newCall: randomUUID,
    afterThis: async () => {},
    soon: () => new Promise(() => {}),
    purse,
    onBroken: () => {},
  })
  const account = books.open(id, { budget_nanos: null, spent_nanos: 0, spent_to: 0, closed: false, ...alone })
  return {
    disk,
    outbox,
    puts,
    account,
    async calls(count: number) {
      for (let i = 0; i < count; i++) {
        account.settle(account.reserve(wish(5), about)!, usage(5))
        await books.flush()
      }
    },
    async oldest() {
      for await (const [first] of (await readDeadOutbox(disk, 0)).records) return first?.n
      return undefined
    },
  }
}

const noLeases: Leases = {
  nodes: async () => [],
  putNodes: async () => {},
  list: async () => [],
  put: async () => {},
  remove: async () => {},
}

test('openBooks() takes what a call cost to the disk after a while, unless another call has done so by then', async () => {
  const disk = memoryDisk()
  let syncs = 0
  const counted = { ...disk, sync: () => (syncs++, disk.sync()), syncHere: () => false }
  const outbox = await openOutbox({ disk: counted, now: () => 0 })
  let whiles: (() => void)[] = []
  const books = await openBooks({
    outbox,
    now: () => 0,
    leases: noLeases,
    newCall: randomUUID,
    afterThis: async () => {},
    soon: () => new Promise((resolve) => whiles.push(resolve)),
    onBroken: () => {},
  })
  const aWhile = async () => {
    for (const over of whiles.splice(0)) over()
    await tick()
  }
  const account = books.open(sessions[0]!, { budget_nanos: null, spent_nanos: 0, spent_to: 0, closed: false, ...alone })
  const call = async () => {
    const reserved = account.reserve(wish(5), about)!
    await reserved.safe
    account.settle(reserved, usage(5))
  }
  syncs = 0
  for (let calls = 1; calls <= 5; calls++) {
    await call()
    await call()
    await aWhile()
    // Each call's own, and no other.
    expect(syncs).toBe(2 * calls)
  }
  expect(outbox.last).toBe(outbox.written - 1)
  await aWhile()
  expect(outbox.last).toBe(outbox.written)
  expect(whiles).toEqual([])
})

test('openBooks() lets old records go while a session stays open, by keeping its lease anew', async () => {
  const { disk, outbox, puts, account, calls } = await plainBooks()
  const saved = account.save(terms)
  await vi.waitUntil(() => puts.length === 1)
  puts[0]!.done.resolve()
  await saved
  await calls(20)
  const trimmed = outbox.trim(outbox.last)
  await vi.waitUntil(() => puts.length === 2)
  expect(puts[1]!.lease).toMatchObject({ spent_nanos: 100, spent_to: 40 })
  puts[1]!.done.resolve()
  await trimmed
  expect(disk.files.size).toBe(1)
})

test('openBooks() keeps no lease anew for acknowledgements behind a call that is still open', async () => {
  const { disk, outbox, puts, account, calls } = await plainBooks()
  const saved = account.save(terms)
  await vi.waitUntil(() => puts.length === 1)
  puts[0]!.done.resolve()
  await saved
  const long = account.reserve(wish(5), about)!
  for (let acknowledged = 0; acknowledged < 5; acknowledged++) {
    await calls(5)
    await outbox.trim(outbox.last)
  }
  expect([puts.length, disk.files.size > 5]).toEqual([1, true])
  account.settle(long, usage(5))
  await calls(1)
  const trimmed = outbox.trim(outbox.last)
  await vi.waitUntil(() => puts.length === 2)
  puts[1]!.done.resolve()
  await trimmed
  expect(disk.files.size).toBe(1)
})

test('keepNodes() is done once for all that want it before it has begun', async () => {
  const { it, first } = await twoSessions(ownerOf({}))
  await Promise.all(Array.from({ length: 5 }, () => first.books.keepNodes()))
  expect(it.nodesKept).toBe(1)
  await first.books.keepNodes()
  expect(it.nodesKept).toBe(2)
})

test('openBooks() lets no record go that a lease which is just being kept does not include', async () => {
  const { outbox, puts, account, calls, oldest } = await plainBooks()
  const saved = account.save(terms)
  await vi.waitUntil(() => puts.length === 1)
  await calls(20)
  const trimmed = outbox.trim(outbox.last)
  await Promise.race([trimmed, tick()])
  expect(puts[0]!.lease).toMatchObject({ spent_nanos: 0, spent_to: 0 })
  expect(await oldest()).toBe(1)
  puts[0]!.done.resolve()
  await saved
  await vi.waitUntil(() => puts.length === 2)
  puts[1]!.done.reject(new Error('ENOSPC'))
  await trimmed
  expect(await oldest()).toBe(1)
})

test('openBooks() knows what was asked and used from its records, as long as they are there', async () => {
  const outbox = await openOutbox({ disk: memoryDisk(), now: Date.now })
  let trim: (n: number, least: number) => Promise<number> = async (n) => n
  const books = await openBooks({
    outbox: { ...outbox, onTrim: (free) => void (trim = free) },
    now: () => 0,
    leases: noLeases,
    newCall: randomUUID,
    afterThis: tick,
    soon: tick,
    onBroken: () => {},
  })
  const account = books.open(sessions[0]!, { budget_nanos: 0, spent_nanos: 0, spent_to: 0, closed: false, ...alone })
  const id = 'req_0000000000000001' as RequestId
  const digest = 'a'.repeat(64)
  account.note({ type: 'request.opened', body: { id, call: null, action: { kind: 'plan', plan: 'p' }, digest } })
  account.note({ type: 'request.told', body: { id } })
  account.note({ type: 'grant.used', body: { request: id, digest, call: null } })
  // Whoever opens the session again while the daemon has not heard of it does not use it a second time.
  await books.close(sessions[0]!)
  const { opened, settled, told, used } = books.asks(sessions[0]!)
  expect([opened.map(({ n }) => n), ...[settled, told, used].map((set) => [...set])]).toEqual([[1], [id], [id], [id]])
  expect(await trim(2, 1)).toBe(2)
  expect([...books.asks(sessions[0]!).used]).toEqual([id])
  expect(await trim(3, 1)).toBe(3)
  expect([...books.asks(sessions[0]!).used]).toEqual([])
})

/** Books over records that an older gate, or nobody knows who, has written. */
async function booksOver(records: readonly { readonly session: SessionId; readonly type: string; readonly body: unknown }[]) {
  const outbox = await openOutbox({ disk: memoryDisk(), now: () => 7 })
  for (const { session, type, body } of records) outbox.append(session, { type, body } as never)
  await outbox.flush()
  const said: string[] = []
  const done = async () => {}
  const leases = { nodes: async () => [], putNodes: done, list: async () => [], put: done, remove: done }
  const parts = { newCall: randomUUID, afterThis: done, soon: tick, onBroken: () => {}, say: (one: string) => said.push(one) }
  return { outbox, said, books: await openBooks({ outbox, leases, now: () => 7, ...parts }) }
}
const owning = { budget_nanos: 1e12, spent_nanos: 0, spent_to: 0, closed: false, ...alone }

test('openBooks() opens over sums that no call can cost, and books the most that one can', async () => {
  const sum = 90_071_992_547_411_170_000
  const { books, outbox } = await booksOver([
    { session: sessions[0]!, type: 'reservation', body: { call: 'a', nanos: sum, ...about } },
    { session: sessions[1]!, type: 'reservation', body: { call: 'b', nanos: 5, ...about } },
    { session: sessions[1]!, type: 'usage', body: { call: 'b', ...usage(sum) } },
  ])
  expect(await books.recover()).toBe(1)
  const [last] = (await outbox.read(3, 1)).map(({ body }) => eventBodies.usage.parse(body))
  expect(last).toMatchObject({ call: 'a', cost_nanos: callNanosMax, estimated: true })
  expect(books.open(sessions[0]!, owning).lease.spentNanos).toBe(callNanosMax)
  expect(books.open(sessions[1]!, owning).lease).toMatchObject({ spentNanos: callNanosMax, closed: true })
})

test('openBooks() closes the budget of a session whose records cannot be read, and of no other', async () => {
  const action = { kind: 'spend', provider: 'p', model: 'm', needed_nanos: 1e20, left_nanos: 0, budget_nanos: 0 }
  const { books, said } = await booksOver([
    { session: sessions[0]!, type: 'reservation', body: null },
    { session: sessions[1]!, type: 'usage', body: { call: 'b', cost_nanos: 'lots' } },
    { session: sessions[2]!, type: 'request.opened', body: { id: 'req_0000000000000001', call: null, action } },
  ])
  const account = books.open(sessions[0]!, { ...owning, spent_to: 3 })
  expect(account.lease.closed).toBe(true)
  expect(account.reserve(wish(1), about)).toBeNull()
  expect(books.open(sessions[1]!, owning).lease.closed).toBe(true)
  expect(books.open(sessions[2]!, owning).reserve(wish(1), about)).not.toBeNull()
  account.recap(10)
  expect(account.reserve(wish(1), about)).not.toBeNull()
  expect(said.map((sentence) => sentence.slice(0, 30))).toEqual([1, 2, 3].map((n) => expect.stringContaining(`record ${n} `)))
})

test('reserve() and settle() write nothing that could not be read again, and keep what was set aside', async () => {
  const { books, outbox } = await booksOver([])
  const account = books.open(sessions[0]!, { ...owning, budget_nanos: null })
  expect(() => account.reserve(wish(1e20), about)).toThrow()
  const reserved = account.reserve(wish(5), about)!
  account.settle(reserved, usage(1e20))
  expect([books.broken, outbox.written]).toEqual([false, 1])
  expect(account.lease).toMatchObject({ spentNanos: 0, reservedNanos: 5 })
})

const hour = { tick_ms: hourMs, asks: false }
const noCaps = { life: null, day: null, tick: null }
const nothingSpent = { life: 0, day: 0, tick: 0 }
const ownerOf = (caps: Partial<NodeCaps>): LedgerNode => ({
  node: 'owner',
  caps: { ...noCaps, ...caps },
  ...hour,
  spent: nothingSpent,
})

/** Books of two sessions below one owner, on a disk and a clock that the test has in its hands. */
async function twoSessions(owner: LedgerNode, purse: PurseSize | null = null) {
  const it = {
    nowMs: 50 * 24 * hourMs,
    /** So much later it is after each look at the clock. */
    stepMs: 0,
    nodes: [] as readonly ToldNodes[],
    nodesKept: 0,
    purse,
    kept: new Map<SessionId, KeptLease>(),
  }
  const begin = async (disk: MemoryDisk) => {
    const outbox = await openOutbox({ disk, now: () => it.nowMs })
    const books = await openBooks({
      outbox,
      now: () => (it.nowMs += it.stepMs) - it.stepMs,
      leases: {
        nodes: async () => it.nodes,
        async putNodes(nodes) {
          it.nodes = nodes
          it.nodesKept++
        },
        list: async () => [...it.kept.values()],
        put: async (lease) => void it.kept.set(lease.session, lease),
        remove: async (session) => void it.kept.delete(session),
      },
      newCall: randomUUID,
      afterThis: async () => {},
      soon: tick,
      purse: it.purse,
      onBroken: () => {},
    })
    await books.recover()
    return { disk, outbox, books }
  }
  const first = await begin(memoryDisk())
  first.books.tell({ simulated: false, at: it.nowMs, to: 0, nodes: [owner] })
  const accounts = sessions.slice(0, 2).map((one) => first.books.open(one, { ...terms, ...money, nodes: ['owner'] }))
  return { it, first, accounts: accounts as [Account, Account], begin }
}
const money = { budget_nanos: null, spent_nanos: 0, spent_to: 0, closed: false, agent_cap_nanos: null, simulated: false }

test('reserve() lets two sessions together spend what their owner may, and no more', async () => {
  const {
    accounts: [one, other],
  } = await twoSessions(ownerOf({ day: 100 }))
  expect(one.reserve(wish(60), about)).not.toBeNull()
  expect(other.reserve(wish(41), about)).toBeNull()
  expect(other.short(41)).toMatchObject([{ node: 'owner', span: 'day', sum: { capNanos: 100, reservedNanos: 60 } }])
  expect(other.reserve(wish(40), about)).not.toBeNull()
})

test('a small call goes on without the disk when there is a purse that it can be paid from', async () => {
  const { it, first, accounts } = await twoSessions(ownerOf({}), { boot: 'one', nanos: 100 })
  const [account] = accounts
  const call = (nanos: number, agent?: string) =>
    account.reserve(wish(nanos), { ...about, ...(agent === undefined ? {} : { agent }) })!
  const [before, beside] = [call(5), call(5)]
  // The purse itself is on its way.
  expect(beside.safe).not.toBeNull()
  await Promise.all([before.safe, beside.safe])
  const paid = call(25)
  expect([paid.safe, account.lease.reservedNanos]).toEqual([null, 135])
  expect(call(26).safe).not.toBeNull()
  account.update({ ...money, nodes: ['owner'], agent_cap_nanos: 1000 })
  expect(call(5, 'a').safe).not.toBeNull()
  // What it cost stays in it: of 100, 100 - 10 - 3 * 25 are left.
  account.settle(paid, usage(10))
  for (let i = 0; i < 3; i++) expect(call(25).safe).toBeNull()
  const over = call(25)
  expect(over.safe).not.toBeNull()
  await over.safe
  expect(call(25).safe).toBeNull()
  it.nowMs += 60_000
  expect(call(25).safe).not.toBeNull()
  await first.books.flush()
  expect(call(25).safe).toBeNull()
  account.rest()
  expect(call(25).safe).not.toBeNull()
})

test('after a power cut a purse is booked in full, and after a kill not at all', async () => {
  const { it, first, accounts, begin } = await twoSessions(ownerOf({}), { boot: 'one', nanos: 100 })
  const [account] = accounts
  await account.reserve(wish(5), about)!.safe
  const lost = account.reserve(wish(7), about)!
  expect(lost.safe).toBeNull()
  account.settle(lost, usage(3))
  const killed = await begin(first.disk.kill())
  expect(killed.books.open(sessions[0]!, { ...money, nodes: ['owner'] }).lease).toMatchObject({ spentNanos: 8, reservedNanos: 0 })
  const { accounts: again, first: other } = await twoSessions(ownerOf({}), { boot: 'one', nanos: 100 })
  await again[0].reserve(wish(5), about)!.safe
  again[0].settle(again[0].reserve(wish(7), about)!, usage(3))
  it.purse = { boot: 'two', nanos: 100 }
  const cut = await begin(other.disk.powerCut(() => 0))
  expect(cut.books.open(sessions[0]!, { ...money, nodes: ['owner'] }).lease).toMatchObject({ spentNanos: 105, reservedNanos: 0 })
  const last = (await cut.outbox.read(0, Infinity)).at(-1)
  expect(last).toMatchObject({ type: 'usage', body: { cost_nanos: 100, estimated: true } })
})

test('nobody goes short for a purse, nor for that of another session', async () => {
  const { accounts } = await twoSessions(ownerOf({ day: 2100 }), { boot: 'one', nanos: 100 })
  const [one, other] = accounts
  await one.reserve(wish(5), about)!.safe
  expect(one.lease.reservedNanos).toBe(105)
  expect(other.reserve(wish(2095), about)).not.toBeNull()
  expect(one.lease.reservedNanos).toBe(5)
  // One that closes gives its own back.
  const { first, accounts: closing } = await twoSessions(ownerOf({}), { boot: 'one', nanos: 100 })
  await closing[0].reserve(wish(5), about)!.safe
  const setAside = () => first.books.node(false, 'owner')!.sums.life.reservedNanos
  expect(setAside()).toBe(105)
  await first.books.close(sessions[0]!)
  expect(setAside()).toBe(5)
  // What it is still asked for takes none: nobody would give it back.
  closing[0].reserve(wish(5), about)
  expect(setAside()).toBe(10)
  // Where little is left, there is none.
  one.settle(one.reserve(wish(0), about)!, usage(0))
  const { accounts: poor } = await twoSessions(ownerOf({ day: 1999 }), { boot: 'one', nanos: 100 })
  await poor[0].reserve(wish(5), about)!.safe
  expect([poor[0].lease.reservedNanos, poor[0].reserve(wish(5), about)!.safe === null]).toEqual([5, false])
})

test('a purse keeps no old record in the outbox', async () => {
  const { disk, outbox, puts, account, calls } = await plainBooks({ boot: 'one', nanos: 100 })
  const saved = account.save(terms)
  await vi.waitUntil(() => puts.length === 1)
  puts[0]!.done.resolve()
  await saved
  await calls(20)
  const trimmed = outbox.trim(outbox.last)
  await vi.waitUntil(() => puts.length === 2)
  puts[1]!.done.resolve()
  await trimmed
  expect([account.lease.reservedNanos, disk.files.size]).toEqual([0, 1])
})

test('a clock that jumps back gives nothing back, and a call settles in the day in which it began', async () => {
  const {
    it,
    first,
    accounts: [one],
  } = await twoSessions(ownerOf({ day: 100 }))
  const early = one.reserve(wish(70), about)!
  it.nowMs += 24 * hourMs
  expect(first.books.node(false, 'owner')!.sums.day).toMatchObject({ spentNanos: 0, reservedNanos: 0 })
  const late = one.reserve(wish(90), about)!
  one.settle(early, usage(70))
  expect(first.books.node(false, 'owner')!.sums.day).toMatchObject({ spentNanos: 0, reservedNanos: 90 })
  one.settle(late, usage(90))
  it.nowMs -= 3 * 24 * hourMs
  expect(one.reserve(wish(11), about)).toBeNull()
  expect(one.reserve(wish(10), about)).not.toBeNull()
  it.nowMs += 4 * 24 * hourMs
  expect(one.reserve(wish(100), about)).not.toBeNull()
})

test('reserve() sets aside in the tick that it writes down, also where that ends while it decides', async () => {
  const {
    it,
    first,
    accounts: [one, other],
  } = await twoSessions(ownerOf({ tick: 100 }))
  it.nowMs += hourMs - 1
  it.stepMs = 1
  const early = one.reserve(wish(60), about)!
  it.stepMs = 0
  it.nowMs = 50 * 24 * hourMs + hourMs
  // The next tick holds all of its own, and nothing of the last one's.
  const late = other.reserve(wish(100), about)!
  one.settle(early, usage(60))
  expect(first.books.node(false, 'owner')!.sums.tick).toMatchObject({ spentNanos: 0, reservedNanos: 100 })
  other.settle(late, usage(100))
  expect(first.books.node(false, 'owner')!.sums.tick).toMatchObject({ spentNanos: 100, reservedNanos: 0 })
})

test('nodes are kept as of one moment, also where a tick ends while they are read', async () => {
  const { it, first } = await twoSessions(ownerOf({}))
  const group: LedgerNode = { ...ownerOf({}), node: 'group/a' }
  first.books.tell({ simulated: false, at: it.nowMs, to: 0, nodes: [group] })
  const account = first.books.open(sessions[2]!, { ...money, nodes: ['owner', 'group/a'] })
  account.settle(account.reserve(wish(60), about)!, usage(60))
  for (const beforeMs of [3, 2, 1]) {
    it.nowMs = 50 * 24 * hourMs + hourMs - beforeMs
    it.stepMs = 1
    await first.books.keepNodes()
    it.stepMs = 0
    const [kept] = it.nodes
    expect(kept!.nodes.map(({ spent }) => [periodOf('tick', kept!.at, hourMs), spent.tick])).toEqual([
      [50 * 24, 60],
      [50 * 24, 60],
    ])
  }
})

test('a gate that is started again holds the nodes as the one before it left them, without the daemon', async () => {
  const {
    it,
    first,
    accounts: [one],
    begin,
  } = await twoSessions(ownerOf({ life: 100 }))
  await one.save(terms)
  one.settle(one.reserve(wish(30), about)!, usage(30))
  one.reserve(wish(50), about)
  const { books } = await begin(first.disk.kill())
  const lease = books.kept.get(sessions[0]!)!
  expect(books.knows(lease)).toBe(true)
  expect(books.node(false, 'owner')!.sums.life).toMatchObject({ capNanos: 100, spentNanos: 80, reservedNanos: 0 })
  expect(books.open(lease.session, { ...lease, simulated: false }).reserve(wish(21), about)).toBeNull()
  it.nodes = []
  const { books: blind } = await begin(first.disk.kill())
  expect(blind.knows(lease)).toBe(false)
})

test('a cap is warned of once for each period, when four fifths are spent', async () => {
  const {
    it,
    first,
    accounts: [one, other],
  } = await twoSessions(ownerOf({ tick: 100 }))
  const spend = (account: Account, nanos: number) => account.settle(account.reserve(wish(nanos), about)!, usage(nanos))
  const warnings = async () => {
    await first.books.flush()
    return (await first.outbox.read(0, Infinity)).flatMap(({ type, body }) =>
      type === 'notice' ? [eventBodies.notice.parse(body).message] : [],
    )
  }
  spend(one, 79)
  expect(await warnings()).toEqual([])
  spend(other, 1)
  spend(one, 5)
  expect(await warnings()).toEqual([expect.stringContaining('the budget of the whole house for this tick')])
  it.nowMs += hourMs
  spend(one, 85)
  expect(await warnings()).toHaveLength(2)
})

test('a sub-agent has a cap of its own, and one that takes many names shares a last one', async () => {
  const { first } = await twoSessions(ownerOf({}))
  const account = first.books.open(sessions[2]!, { ...money, nodes: ['owner'], agent_cap_nanos: 50 })
  expect(account.reserve(wish(51), about)).not.toBeNull()
  expect(account.reserve(wish(51), { ...about, agent: 'a' })).toBeNull()
  expect(account.reserve(wish(50), { ...about, agent: 'a' })).not.toBeNull()
  expect(account.reserve(wish(1), { ...about, agent: 'a' })).toBeNull()
  for (let i = 0; i < 200; i++) account.reserve(wish(50), { ...about, agent: `b${i}` })
  expect(account.reserve(wish(1), { ...about, agent: 'another' })).toBeNull()
})

test('a sub-agent keeps what somebody raised its cap to, also at the next gate, until all are given another', async () => {
  const { it, first, begin } = await twoSessions(ownerOf({}))
  const of = { ...money, nodes: ['owner'], agent_cap_nanos: 50 }
  const account = first.books.open(sessions[2]!, of)
  const by = { ...about, agent: 'a' }
  account.settle(account.reserve(wish(50), by)!, usage(50))
  expect(account.reserve(wish(30), by)).toBeNull()
  const node: NodeName = `agent/${sessions[2]}/a`
  first.books.raise(false, [{ node, span: 'life', period: 0, cap_nanos: 90 }])
  account.settle(account.reserve(wish(30), by)!, usage(30))
  // Told of the same again, it is as before; another sub-agent has what it had.
  account.update(of)
  expect([account.short(10, 'a'), account.short(51, 'b')]).toMatchObject([[], [{ sum: { capNanos: 50 } }]])
  await account.save(terms)
  const { books } = await begin(first.disk.kill())
  const next = books.open(sessions[2]!, of)
  expect([next.short(10, 'a'), next.short(11, 'a')]).toMatchObject([[], [{ sum: { capNanos: 90, spentNanos: 80 } }]])
  next.update({ ...of, agent_cap_nanos: 85 })
  expect([next.short(5, 'a'), next.short(6, 'a')]).toMatchObject([[], [{ sum: { capNanos: 85 } }]])
  // Nobody was there to be told when it changed.
  await next.save()
  const lower = (await begin(first.disk.kill())).books.open(sessions[2]!, { ...of, agent_cap_nanos: 60 })
  expect(lower.short(1, 'a')).toMatchObject([{ sum: { capNanos: 60, spentNanos: 80 } }])
  // Found in the records alone, it has no cap before a call gives it one.
  it.nodes = []
  it.kept.clear()
  const { books: blind } = await begin(first.disk.kill())
  expect(blind.node(false, node)!.sums.life).toMatchObject({ capNanos: null, spentNanos: 80 })
  blind.tell({ simulated: false, at: it.nowMs, to: 0, nodes: [ownerOf({})] })
  expect(blind.open(sessions[2]!, of).short(1, 'a')).toMatchObject([{ sum: { capNanos: 50, spentNanos: 80 } }])
})

test('close() forgets what only the session went through, also where it was kept by a gate before and is held by none', async () => {
  const { it, first, begin } = await twoSessions(ownerOf({}))
  const own: NodeName[] = [`agent/${sessions[2]}/a`, `approval/${sessions[2]}`]
  const approval: LedgerNode = { ...ownerOf({ life: 500 }), node: own[1]!, asks: true }
  first.books.tell({ simulated: false, at: it.nowMs, to: 0, nodes: [approval] })
  const account = first.books.open(sessions[2]!, { ...money, nodes: ['owner', own[1]!], agent_cap_nanos: 50 })
  account.settle(account.reserve(wish(50), { ...about, agent: 'a' })!, usage(50))
  await account.save(terms)
  const known = (books: Books) => ['owner', ...own].filter((name) => books.node(false, name) !== undefined)
  const { disk, books } = await begin(first.disk.kill())
  expect(known(books)).toEqual(['owner', ...own])
  await books.close(sessions[2]!)
  expect(known(books)).toEqual(['owner'])
  // It is killed before it keeps that: the nodes are there again, and nothing else is that speaks of the session.
  disk.kill()
  expect(it.nodes[0]!.nodes.map(({ node }) => node)).toEqual(expect.arrayContaining(own))
  expect(known((await begin(memoryDisk())).books)).toEqual(['owner'])
})

test('openBooks() books a call once that its outbox has twice, because it went on behind a number and its gate was killed', async () => {
  const { it, first, begin, accounts } = await twoSessions(ownerOf({ life: 1000 }))
  const [one] = accounts
  one.settle(one.reserve(wish(30), about)!, usage(30))
  await one.save(terms)
  one.settle(one.reserve(wish(50), about)!, usage(50))
  one.reserve(wish(70), about)
  await first.outbox.goOnBehind(100)
  // Killed before anything of the old numbers is removed. The call that is open is booked in full, and no other.
  const { books, outbox } = await begin(first.disk.kill())
  const booked = (await outbox.read(105, 10)).map(({ body }) => eventBodies.usage.parse(body).cost_nanos)
  expect(booked).toEqual([70])
  expect(books.node(false, 'owner')!.sums.life).toMatchObject({ spentNanos: 150, reservedNanos: 0 })
  // By the lease that was kept under the old numbers, and by what the daemon knows, who has stored some or all of the new ones.
  const lease = it.kept.get(sessions[0]!)!
  expect(lease).toMatchObject({ spent_nanos: 30, spent_to: 2 })
  const open = (known: { spent_nanos: number; spent_to: number }) =>
    books.open(sessions[0]!, { ...money, nodes: ['owner'], ...known }).lease.spentNanos
  expect(open(lease)).toBe(150)
  expect(open({ spent_nanos: 1000, spent_to: 100 })).toBe(1150)
  expect(open({ spent_nanos: 1030, spent_to: 102 })).toBe(1150)
  expect(open({ spent_nanos: 1080, spent_to: 105 })).toBe(1150)
  expect(open({ spent_nanos: 1150, spent_to: 106 })).toBe(1150)
  // The owner has spent elsewhere what these files know nothing of.
  const told = { ...ownerOf({ life: 5000 }), spent: { ...nothingSpent, life: 1000 } }
  books.tell({ simulated: false, at: it.nowMs, to: 100, nodes: [told] })
  expect(books.node(false, 'owner')!.sums.life.spentNanos).toBe(1150)
})

test('openBooks() keeps leases and nodes anew before it lets the old ones of two copies go, so that no later gate adds the new ones', async () => {
  const { it, first, begin, accounts } = await twoSessions(ownerOf({ life: 1000 }))
  const [one, other] = accounts
  one.settle(one.reserve(wish(30), about)!, usage(30))
  await one.save(terms)
  expect(it.kept.get(sessions[0]!)).toMatchObject({ spent_nanos: 30, spent_to: 2 })
  await first.outbox.goOnBehind(100)
  // The daemon tells what it knows before it has stored what came behind that.
  one.update({ ...money, nodes: ['owner'], spent_nanos: 200, spent_to: 100 })
  expect([one.lease.spentNanos, one.last, other.last]).toEqual([230, 102, 0])
  await first.outbox.trim(102)
  expect([...first.disk.files.keys()]).toEqual(['0000000000000101.log'])
  const { books } = await begin(first.disk.kill())
  const lease = books.kept.get(sessions[0]!)!
  expect(books.open(sessions[0]!, { ...lease, simulated: false }).lease.spentNanos).toBe(230)
  expect(books.node(false, 'owner')!.sums.life.spentNanos).toBe(30)
})

test('openBooks() knows nodes and open calls by the numbers that they have gone on to', async () => {
  const { first, begin, accounts } = await twoSessions(ownerOf({ life: 1000 }))
  const [one] = accounts
  one.settle(one.reserve(wish(30), about)!, usage(30))
  await first.books.keepNodes()
  one.reserve(wish(70), about)
  await first.outbox.goOnBehind(100)
  await first.outbox.trim(103)
  expect([...first.disk.files.keys()]).toEqual(['0000000000000101.log'])
  const { books } = await begin(first.disk.kill())
  expect(books.node(false, 'owner')!.sums.life).toMatchObject({ spentNanos: 100, reservedNanos: 0 })
})
