import { type MemoryDisk, memoryDisk } from '@anchorhold/link/memory-disk'
import { openOutbox, type Outbox, readDeadOutbox } from '@anchorhold/link/outbox'
import { eventBodies } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { OutboxRecord } from '@anchorhold/protocol/link'
import fc from 'fast-check'
import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { type Account, type Books, openBooks, type Reserved } from './books.ts'
import type { KeptLease, Leases } from './leases.ts'
import { rehearsal } from './test-gate.ts'

const sessions = ['ses_0000000000000001', 'ses_0000000000000002'] as SessionId[]
const about = { provider: 'p', model: 'm', simulated: false, notional: false }
const terms = { folder: '/w', provider: rehearsal, rules: { allow: [] }, paused: false, spend: 'stop' as const }
const wish = (nanos: number) => ({ promptNanos: nanos, perOutputToken: 0, maxTokens: 1, thinkingTokens: 0 })
const usage = (cost_nanos: number) => ({
  ...about,
  tokens: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
  cost_nanos,
  estimated: false,
  status: 200,
  duration_ms: 1,
})
const tick = () => new Promise(setImmediate)

type Call = {
  readonly session: SessionId
  readonly reserved: Reserved
  safe: boolean
  lostUnsafe: boolean
}

/** A gate's books, a daemon that stores what they say, and all that can befall the two. */
async function world(caps: readonly number[]) {
  let disk: MemoryDisk = memoryDisk()
  let outbox: Outbox
  let books: Books
  let accounts = new Map<SessionId, Account>()
  let soon: (() => void)[] = []
  let life = 0
  let broken = false
  let calls = 0
  const kept = new Map<SessionId, KeptLease>()
  const capOf = new Map(sessions.map((session, index) => [session, caps[index]!]))
  /** Calls that were dialled, and those that are under way. */
  const all = new Map<string, Call>()
  let open: Call[] = []
  /** The daemon's log. */
  const stored: OutboxRecord[] = []
  const lastStored = () => stored.at(-1)?.n ?? 0
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
        outbox = await openOutbox({ disk, now: () => 0, segmentBytes: 700 })
        books = await openBooks({
          outbox,
          leases: leases(),
          newCall: () => `call${++calls}`,
          afterThis: async () => {},
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
    for (const lease of books.kept.values()) accounts.set(lease.session, books.open(lease.session, lease))
    for (const account of accounts.values()) expect(account.lease.reservedNanos).toBe(0)
  }

  const it = {
    get disk() {
      return disk
    },
    accounts: () => accounts,
    async call(session: SessionId, nanos: number) {
      const account = accounts.get(session)
      if (account === undefined) return
      let reserved: Reserved | null
      try {
        reserved = account.reserve(wish(nanos), about)
      } catch {
        expect(broken).toBe(true)
        return it.kill()
      }
      if (reserved === null) return
      const { capNanos, spentNanos, reservedNanos } = account.lease
      expect(spentNanos + reservedNanos).toBeLessThanOrEqual(capNanos!)
      const one: Call = { session, reserved, safe: false, lostUnsafe: false }
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
      accounts.get(one.session)!.settle(one.reserved, usage(Math.floor(one.reserved.nanos * share)))
      const after = accounts.get(one.session)!.lease
      expect(after.spentNanos + after.reservedNanos).toBeLessThanOrEqual(before.spentNanos + before.reservedNanos)
      if (broken) await it.kill()
    },
    kill: () => begin(disk.kill()),
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
    /** The daemon opens a session's windows, or tells the gate of them again. */
    open(session: SessionId) {
      const money = { budget_nanos: capOf.get(session)!, spent_nanos: costOf(session), spent_to: lastStored(), closed: false }
      const account = accounts.get(session)
      if (account === undefined) accounts.set(session, books.open(session, money))
      else {
        const before = account.lease.spentNanos
        account.update(money)
        // The gate knew it all: the daemon's sum and the records that it has not got are the same sum.
        expect(account.lease.spentNanos).toBe(before)
      }
      accounts
        .get(session)!
        .save(terms)
        .catch(() => {})
    },
    budget(session: SessionId, cap: number) {
      capOf.set(session, cap)
      const account = accounts.get(session)
      account?.recap(cap)
      account?.save().catch(() => {})
    },
    async close(session: SessionId) {
      // A window that closes ends its calls first, and each is booked.
      for (const one of open.filter((call) => call.session === session)) {
        accounts.get(session)!.settle(one.reserved, usage(one.reserved.nanos))
      }
      open = open.filter((call) => call.session !== session)
      accounts.delete(session)
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
        it.open(session)
        expect(accounts.get(session)!.lease).toMatchObject({ spentNanos: costOf(session), reservedNanos: 0 })
      }
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
  for (const session of sessions) it.open(session)
  return it
}

const session = fc.constantFrom(...sessions)
const nanos = fc.integer({ min: 1, max: 1000 })
const share = fc.double({ min: 0, max: 1, noNaN: true })
const step = fc.oneof(
  { weight: 10, arbitrary: fc.tuple(fc.constant('call' as const), session, nanos) },
  { weight: 8, arbitrary: fc.tuple(fc.constant('settle' as const), fc.nat(), share) },
  { weight: 4, arbitrary: fc.tuple(fc.constant('rest' as const)) },
  { weight: 3, arbitrary: fc.tuple(fc.constant('pull' as const)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('hold' as const)) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('open' as const), session) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('budget' as const), session, fc.nat({ max: 5000 })) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('close' as const), session) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('kill' as const)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('power' as const), share) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constant('fail' as const), fc.constantFrom('write', 'sync'), fc.integer({ min: 1, max: 4 })),
  },
)

test('openBooks() loses and doubles no call, whatever dies at whichever write or sync', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(fc.nat({ max: 5000 }), fc.nat({ max: 5000 })),
      fc.array(step, { maxLength: 80, size: 'max' }),
      async (caps, steps) => {
        const it = await world(caps)
        for (const one of steps) {
          if (one[0] === 'call') await it.call(one[1], one[2])
          else if (one[0] === 'settle') await it.settle(one[1], one[2])
          else if (one[0] === 'rest') await it.rest()
          else if (one[0] === 'pull') await it.pull()
          else if (one[0] === 'hold') it.disk.holdSyncs()
          else if (one[0] === 'open') it.open(one[1])
          else if (one[0] === 'budget') it.budget(one[1], one[2])
          else if (one[0] === 'close') await it.close(one[1])
          else if (one[0] === 'kill') await it.kill()
          else if (one[0] === 'power') await it.cutPower(one[1])
          else it.failNext(one[1], one[2])
        }
        await it.balance()
      },
    ),
    { numRuns: 1500 },
  )
})

const id = sessions[0]!
/** Books over a disk of their own, whose leases are kept when the test lets them. */
async function plainBooks() {
  const disk = memoryDisk()
  const outbox = await openOutbox({ disk, now: () => 0, segmentBytes: 500 })
  const puts: { readonly lease: KeptLease; readonly done: PromiseWithResolvers<void> }[] = []
  const books = await openBooks({
    outbox,
    leases: {
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
    onBroken: () => {},
  })
  const account = books.open(id, { budget_nanos: null, spent_nanos: 0, spent_to: 0, closed: false })
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
    oldest: async () => (await readDeadOutbox(disk, 0))[0]?.n,
  }
}

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

test('openBooks() lets no record go that opened a request which nobody has settled', async () => {
  const outbox = await openOutbox({ disk: memoryDisk(), now: Date.now })
  let trim: (n: number) => Promise<number> = async (n) => n
  const books = await openBooks({
    outbox: { ...outbox, onTrim: (free) => void (trim = free) },
    leases: { list: async () => [], put: async () => {}, remove: async () => {} },
    newCall: randomUUID,
    afterThis: tick,
    soon: tick,
    onBroken: () => {},
  })
  const account = books.open(sessions[0]!, { budget_nanos: 0, spent_nanos: 0, spent_to: 0, closed: false })
  const id = 'req_0000000000000001' as RequestId
  const action = { kind: 'plan', plan: 'p' } as const
  account.note({ type: 'notice', body: { level: 'info', code: 'c', message: 'm' } })
  account.note({ type: 'request.opened', body: { id, call: null, action } })
  account.note({ type: 'notice', body: { level: 'info', code: 'c', message: 'm' } })
  await books.close(sessions[0]!)
  expect(await trim(3)).toBe(1)
  account.note({ type: 'request.answered', body: { id, answer: { decision: 'withdrawn' }, actor: 'gate', door: 'none' } })
  expect(await trim(4)).toBe(4)
})
