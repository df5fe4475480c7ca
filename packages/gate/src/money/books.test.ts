import { periodOf } from '@anchorhold/core/ledger'
import { callNanosMax } from '@anchorhold/core/prices'
import { type MemoryDisk, memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox, readDeadOutbox } from '@anchorhold/link/outbox'
import { eventBodies, type NodeName } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { LedgerNode, ToldNodes } from '@anchorhold/protocol/link'
import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { type Books, openBooks } from './books.ts'
import type { Account } from './account.ts'
import type { KeptLease, Leases } from './leases.ts'
import { about, hourMs, type NodeCaps, sessions, terms, tick, usage, wish } from './test-books.ts'

const id = sessions[0]!
const alone = { nodes: [], agent_cap_nanos: null, simulated: false }

/** Books over a disk of their own, whose leases are kept when the test lets them. */
async function plainBooks() {
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
    soon: () => new Promise(() => {}),
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
  const counted = { ...disk, sync: () => (syncs++, disk.sync()) }
  const outbox = await openOutbox({ disk: counted, now: () => 0 })
  let whiles: (() => void)[] = []
  const books = await openBooks({
    outbox,
    now: () => 0,
    leases: noLeases,
    newCall: randomUUID,
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
  const parts = { newCall: randomUUID, soon: tick, onBroken: () => {}, say: (one: string) => said.push(one) }
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
async function twoSessions(owner: LedgerNode) {
  const it = {
    nowMs: 50 * 24 * hourMs,
    /** So much later it is after each look at the clock. */
    stepMs: 0,
    nodes: [] as readonly ToldNodes[],
    nodesKept: 0,
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
      soon: tick,
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

test('what an older gate set aside for small calls is booked in full where it was not given back', async () => {
  const { first, begin } = await twoSessions(ownerOf({}))
  const purse = (call: string, nanos: number) =>
    first.outbox.append(sessions[0]!, {
      type: 'reservation',
      body: { call, nanos, ...about, boot: 'one', began_at: 50 * 24 * hourMs, nodes: ['owner'] },
    })
  purse('kept', 100)
  purse('returned', 70)
  purse('returned', 0)
  await first.outbox.flush()
  const next = await begin(first.disk.kill())
  expect(next.books.open(sessions[0]!, { ...money, nodes: ['owner'] }).lease).toMatchObject({ spentNanos: 100, reservedNanos: 0 })
  const last = (await next.outbox.read(0, Infinity)).at(-1)
  expect(last).toMatchObject({ type: 'usage', body: { call: 'kept', cost_nanos: 100, estimated: true } })
  expect(last!.body).not.toHaveProperty('boot')
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
