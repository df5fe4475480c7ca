import type { Clock } from '@anchorhold/link/clock'
import { expect, test } from 'vitest'
import { rateLimits } from './rates.ts'

/** A clock that goes on when it is told to. */
function handClock() {
  let elapsed = 0
  let timers: { readonly dueMs: number; readonly run: () => void }[] = []
  const clock: Clock = {
    now: () => 0,
    elapsed: () => elapsed,
    after(ms, then) {
      const timer = { dueMs: elapsed + ms, run: then }
      timers.push(timer)
      return () => void (timers = timers.filter((one) => one !== timer))
    },
    soon: (then) => void setImmediate(then),
  }
  const settle = () => new Promise(setImmediate)
  return {
    clock,
    async pass(ms: number) {
      const endMs = elapsed + ms
      for (;;) {
        await settle()
        const [next] = timers.toSorted((a, b) => a.dueMs - b.dueMs)
        if (next === undefined || next.dueMs > endMs) break
        timers = timers.filter((one) => one !== next)
        elapsed = next.dueMs
        next.run()
      }
      elapsed = endMs
      await settle()
    },
  }
}
const never = new AbortController().signal
const ann = (requests_per_minute: number | null, tokens_per_minute: number | null = null) => ({
  actor: 'ann',
  requests_per_minute,
  tokens_per_minute,
})
/** The answers that have come by now, by the order of the calls. */
function answers(calls: readonly Promise<string | null>[]) {
  const come: (string | null | undefined)[] = calls.map(() => undefined)
  for (const [index, call] of calls.entries()) void call.then((answer) => (come[index] = answer))
  return come
}

test('admit() lets as many calls go at once as a minute has, and holds the others in their order', async () => {
  const { clock, pass } = handClock()
  const limits = rateLimits(clock)
  const come = answers(Array.from({ length: 4 }, () => limits.admit(ann(2), never)))
  await pass(0)
  expect(come).toEqual([null, null, undefined, undefined])
  await pass(29_999)
  expect(come[2]).toBeUndefined()
  await pass(2)
  expect(come).toEqual([null, null, null, undefined])
  await pass(30_001)
  expect(come[3]).toBeNull()
})

test('admit() refuses what would have to wait longer than agents do, and says why', async () => {
  const { clock, pass } = handClock()
  const limits = rateLimits(clock)
  const come = answers(Array.from({ length: 5 }, () => limits.admit(ann(1), never)))
  await pass(10 * 60_000)
  expect(come).toEqual([null, null, null, expect.stringContaining('1 model calls a minute'), expect.any(String)])
})

test('admit() holds calls until the tokens of those before are made up for', async () => {
  const { clock, pass } = handClock()
  const limits = rateLimits(clock)
  await limits.admit(ann(null, 1000), never)
  limits.used('ann', 1500)
  const come = answers([limits.admit(ann(null, 1000), never)])
  await pass(29_000)
  expect(come).toEqual([undefined])
  await pass(2000)
  expect(come).toEqual([null])
})

test('admit() counts actors apart, and one that hangs up makes room', async () => {
  const { clock, pass } = handClock()
  const limits = rateLimits(clock)
  const hangUp = new AbortController()
  const come = answers([
    limits.admit(ann(1), never),
    limits.admit(ann(1), hangUp.signal),
    limits.admit({ ...ann(1), actor: 'bob' }, never),
    limits.admit(ann(1), never),
  ])
  await pass(0)
  expect(come).toEqual([null, undefined, null, undefined])
  hangUp.abort()
  await pass(60_001)
  expect(come).toEqual([null, 'Nobody waits for it any more', null, null])
})

test('admit() does not hold what was used against a limit that came later', async () => {
  const { clock, pass } = handClock()
  const limits = rateLimits(clock)
  await limits.admit(ann(10), never)
  limits.used('ann', 500_000)
  const come = answers([limits.admit(ann(10, 1000), never)])
  await pass(0)
  expect(come).toEqual([null])
  // From here on it counts.
  limits.used('ann', 1500)
  const later = answers([limits.admit(ann(10, 1000), never)])
  await pass(29_000)
  expect(later).toEqual([undefined])
  await pass(2000)
  expect(later).toEqual([null])
})

test('admit() gives nothing back to an actor whose sessions have different limits', async () => {
  const { clock, pass } = handClock()
  const limits = rateLimits(clock)
  const come = answers([
    limits.admit(ann(2), never),
    limits.admit(ann(3), never),
    limits.admit(ann(null, 1000), never),
    limits.admit(ann(2), never),
  ])
  await pass(0)
  expect(come).toEqual([null, null, null, undefined])
  await pass(60_001)
  expect(come[3]).toBeNull()
})
