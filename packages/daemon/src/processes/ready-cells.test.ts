import type { Rung } from '@anchorhold/protocol/rungs'
import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import type { Holds, Prepared } from './launch.ts'
import { readyCells, type Pool } from './ready-cells.ts'

/** ReadyCells over made-up processes and a clock that the test moves. */
function make(pool: Pool, rung: Rung = 'bwrap') {
  let [now, made, busy] = [0, 0, 0]
  const timers = new Map<() => void, number>()
  const alive = new Map<SessionId, PromiseWithResolvers<unknown>>()
  const cleared: SessionId[] = []
  const trouble: { full: boolean } = { full: false }
  const holds = new Map<SessionId, Holds>()
  const one = readyCells({
    pools: { [rung]: pool },
    clock: {
      now: () => now,
      elapsed: () => now,
      soon: (then) => void timers.set(then, now),
      after(ms, then) {
        timers.set(then, now + ms)
        return () => void timers.delete(then)
      },
    },
    busy: () => busy,
    log() {},
    make() {
      if (trouble.full) throw new Error('ENOSPC')
      const session = `ses_${String(made++).padStart(16, '0')}` as SessionId
      const gone = Promise.withResolvers<unknown>()
      alive.set(session, gone)
      const end = () => {
        alive.delete(session)
        gone.resolve(null)
      }
      const prepared = {
        get alive() {
          return alive.has(session)
        },
        get holds() {
          return holds.get(session) ?? 'nothing yet'
        },
        gone: gone.promise,
        dismiss: end,
        discard: end,
      } as unknown as Prepared
      return { session, runAs: null, prepared }
    },
    async clear(session) {
      if (trouble.full) throw new Error('ENOSPC')
      cleared.push(session)
    },
  })
  return {
    one,
    trouble,
    alive,
    cleared,
    tells: (session: SessionId, now: Holds) => void holds.set(session, now),
    made: () => made,
    work: (change: number) => (busy += change),
    kill: (session: SessionId) => void alive.delete(session),
    later(ms: number) {
      now += ms
      for (const [then, at] of [...timers]) if (at <= now && timers.delete(then)) then()
    },
  }
}

const pool = { min: 1, max: 3, idleMs: 60_000, scaleUpThreshold: 0.8 }

test('readyCells() has as many wait as the pool says, and one more when all are busy', () => {
  const { one, work } = make(pool)
  one.adjust()
  expect(one.waiting).toHaveLength(1)
  const taken = one.claim('bwrap')
  expect(taken).not.toBeNull()
  expect(one.take(taken!.session)).not.toBeNull()
  work(1)
  one.adjust()
  expect(one.waiting).toHaveLength(1)
  expect(one.claim('none')).toBeNull()
})

test('readyCells() starts none beyond max', () => {
  const { one, work } = make(pool)
  work(3)
  one.adjust()
  expect(one.waiting).toHaveLength(0)
  expect(one.claim('bwrap')).toBeNull()
})

test('readyCells() gives up what nobody took, but for min, and clears it away', async () => {
  const { one, work, later, cleared } = make({ ...pool, min: 0, max: 2 })
  work(1)
  one.adjust()
  expect(one.waiting).toHaveLength(1)
  work(-1)
  later(60_000)
  expect(one.waiting).toHaveLength(0)
  await Promise.resolve()
  expect(cleared).toHaveLength(1)
})

test('readyCells() goes on when the disk is full, and has cells again when there is room', async () => {
  const { one, kill, later, trouble } = make(pool)
  one.adjust()
  trouble.full = true
  kill(one.waiting[0]!.session)
  later(5000)
  await Promise.resolve()
  expect(one.waiting).toEqual([])
  trouble.full = false
  later(5000)
  expect(one.waiting).toHaveLength(1)
})

test('readyCells() replaces one whose process ended', () => {
  const { one, kill, later } = make(pool)
  one.adjust()
  const [first] = one.waiting
  kill(first!.session)
  expect(one.claim('bwrap')).toBeNull()
  later(5000)
  expect(one.waiting).toHaveLength(1)
  expect(one.waiting[0]!.session).not.toBe(first!.session)
})

test('readyCells() gives up a claimed cell whose session never comes, and all when it ends', () => {
  const { one, later, alive } = make(pool)
  one.adjust()
  const taken = one.claim('bwrap')!
  later(60_000)
  expect(alive.has(taken.session)).toBe(false)
  expect(one.take(taken.session)).toBeNull()
  void one.discard()
  expect(alive.size).toBe(0)
  one.adjust()
  expect(one.waiting).toHaveLength(0)
})

test('readyCells() shows why a cell does not stand, gives it to nobody, and tries again later each time', () => {
  const { one, later, tells, made } = make(pool)
  one.adjust()
  const first = one.waiting[0]!.session
  expect(one.waiting).toMatchObject([{ trouble: null }])
  tells(first, { trouble: 'Podman is not installed' })
  expect(one.waiting).toMatchObject([{ session: first, trouble: 'Podman is not installed' }])
  expect(one.claim('bwrap')).toBeNull()
  later(5000)
  expect([made(), one.waiting.length]).toEqual([1, 1])
  later(10_000)
  expect([made(), one.waiting.length]).toEqual([2, 2])
  tells(one.waiting[0]!.session, { trouble: 'Podman is not installed' })
  later(5000)
  later(15_000)
  expect(made()).toBe(2)
  later(5000)
  expect(made()).toBe(3)
  tells(one.waiting[0]!.session, 'ready')
  later(5000)
  expect(one.waiting).toMatchObject([{ trouble: null }])
  expect(one.claim('bwrap')).not.toBeNull()
})
