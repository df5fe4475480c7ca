import { runs } from '@anchorhold/protocol/test-runs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { afford, type Lease, leftNanos, newLease, recap, release, reserve, settle } from './ledger.ts'

type Move =
  | { readonly start: number }
  | { readonly end: number; readonly cost: number }
  | { readonly drop: number }
  | { readonly cap: number }

/** Plays calls that start and end in any order against a lease; `cost` is a share of what was reserved. */
function play(lease: Lease, moves: readonly Move[], seen: (lease: Lease) => void): Lease {
  const open: number[] = []
  for (const move of moves) {
    if ('start' in move) {
      const next = reserve(lease, move.start)
      if (next !== null) open.push(move.start)
      lease = next ?? lease
    } else if ('cap' in move) {
      lease = recap(lease, move.cap)
    } else if (open.length > 0) {
      const [reserved] = open.splice(('end' in move ? move.end : move.drop) % open.length, 1)
      lease = 'end' in move ? settle(lease, reserved!, Math.floor(reserved! * move.cost)) : release(lease, reserved!)
    }
    seen(lease)
  }
  for (const reserved of open) lease = settle(lease, reserved, 0)
  return lease
}

const nanos = fc.nat({ max: 1_000_000 })
const start = fc.record({ start: nanos })
const end = (costMax: number) => fc.record({ end: fc.nat(), cost: fc.double({ min: 0, max: costMax, noNaN: true }) })
const drop = fc.record({ drop: fc.nat() })

test('reserve() keeps spent and reserved within the cap in every interleaving', () => {
  fc.assert(
    fc.property(nanos, fc.array(fc.oneof(start, end(1), drop), { maxLength: 60 }), (cap, moves) => {
      const last = play(newLease(cap, 0), moves, (lease) => {
        expect(lease.spentNanos + lease.reservedNanos).toBeLessThanOrEqual(cap)
        expect(lease.closed).toBe(false)
      })
      expect(last.reservedNanos).toBe(0)
    }),
    { numRuns: runs(2000) },
  )
})

test('settle() books what exceeds a reservation and closes the lease until a new cap is set', () => {
  fc.assert(
    fc.property(nanos, fc.array(fc.oneof(start, end(1.5), drop), { maxLength: 60 }), nanos, (cap, moves, newCap) => {
      let exceeded = false
      const last = play(newLease(cap, 0), moves, (lease) => {
        if (lease.spentNanos + lease.reservedNanos > cap) exceeded = true
        if (exceeded) expect(lease.closed).toBe(true)
        if (lease.closed) expect(reserve(lease, 0)).toBeNull()
      })
      expect(last.reservedNanos).toBe(0)
      const left = leftNanos(recap(last, newCap))
      expect(left).toBe(Math.max(0, newCap - last.spentNanos))
    }),
    { numRuns: runs(2000) },
  )
})

test('reserve() never says no when there is no cap', () => {
  const lease = settle(reserve(newLease(null, 5), 10)!, 10, 1000)
  expect(lease).toEqual({ capNanos: null, spentNanos: 1005, reservedNanos: 0, closed: false })
  expect(leftNanos(lease)).toBeNull()
})

const wish = { promptNanos: 1000, perOutputToken: 10, maxTokens: 32_000, thinkingTokens: 0 }
test.each([
  ['asks for the whole answer when it can be paid', newLease(321_000, 0), wish, { maxTokens: 32_000, nanos: 321_000 }],
  ['shortens the answer to what is left', newLease(21_000, 0), wish, { maxTokens: 2000, nanos: 21_000 }],
  ['goes down to 1,024 tokens', newLease(11_240, 0), wish, { maxTokens: 1024, nanos: 11_240 }],
  ['refuses below 1,024 tokens', newLease(11_239, 0), wish, null],
  ['refuses below the thinking budget', newLease(21_000, 0), { ...wish, thinkingTokens: 2000 }, null],
  [
    'leaves one token more than the thinking budget',
    newLease(21_010, 0),
    { ...wish, thinkingTokens: 2000 },
    { maxTokens: 2001, nanos: 21_010 },
  ],
  ['lets a call that asks for little have little', newLease(1010, 0), { ...wish, maxTokens: 1 }, { maxTokens: 1, nanos: 1010 }],
  ['refuses when the prompt alone is too dear', newLease(999, 0), wish, null],
  ['counts what others have reserved', reserve(newLease(30_000, 0), 20_000)!, wish, null],
  ['refuses a closed lease', { ...newLease(1_000_000, 0), closed: true }, wish, null],
  ['asks for everything without a cap', newLease(null, 0), wish, { maxTokens: 32_000, nanos: 321_000 }],
])('afford() %s', (_, lease, wanted, expected) => {
  expect(afford(lease, wanted)).toEqual(expected)
})

test('afford() never promises what reserve() then refuses', () => {
  const anyWish = fc.record({
    promptNanos: nanos,
    perOutputToken: fc.nat({ max: 100_000 }),
    maxTokens: fc.integer({ min: 1, max: 64_000 }),
    thinkingTokens: fc.nat({ max: 64_000 }),
  })
  fc.assert(
    fc.property(nanos, nanos, anyWish, (cap, spent, wanted) => {
      const lease = newLease(cap, spent)
      const promise = afford(lease, wanted)
      if (promise === null) return
      expect(reserve(lease, promise.nanos)).not.toBeNull()
      expect(promise.maxTokens).toBeLessThanOrEqual(wanted.maxTokens)
    }),
  )
})
