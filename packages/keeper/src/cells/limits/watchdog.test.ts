import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { atMost, twice, watch } from './watchdog.ts'

test('watch() lets no watcher wait for another that takes long', async () => {
  let looks = 0
  const slow = () => delay(10_000, 'late', { ref: false })
  const quick = async () => (++looks === 3 ? 'three looks' : null)
  const begun = performance.now()
  expect(await watch([{ look: slow }, { look: quick }], AbortSignal.timeout(20_000))).toBe('three looks')
  expect(performance.now() - begun).toBeLessThan(5_000)
})

test('watch() tells when a watcher fails, and ends with its signal', async () => {
  const fails = async () => Promise.reject(new Error('no /proc'))
  expect(await watch([{ look: fails }], new AbortController().signal)).toBe('its limits can no longer be watched (no /proc)')
  expect(await watch([{ look: async () => null }], AbortSignal.timeout(300))).toBeNull()
  expect(await watch([], new AbortController().signal)).toBeNull()
})

test('watch() looks as soon as a watcher says that it must, and no later than usual', async () => {
  const looked = { soon: 0, usual: 0 }
  const soon = { look: async () => (++looked.soon, null), waitMs: () => -5 }
  const usual = { look: async () => (++looked.usual === 2 ? 'two looks' : null), waitMs: () => Infinity }
  expect(await watch([soon, usual], AbortSignal.timeout(20_000))).toBe('two looks')
  expect(looked.soon).toBeGreaterThan(4)
})

test('watch() asks nobody any more once one has a reason', async () => {
  let asked = 0
  const counts = async () => {
    asked++
    return null
  }
  const ends = async () => (asked > 0 ? 'over' : null)
  expect(await watch([{ look: counts }, { look: ends }], new AbortController().signal)).toBe('over')
  const then = asked
  await delay(500)
  expect(asked).toBe(then)
})

test('atMost() counts every rise, whatever others give back, from what was last known', () => {
  const most = atMost(100)
  expect([110, 60, 90, 90].map(most.see)).toEqual([10, 10, 40, 40])
  most.know(5)
  expect(most.see(92)).toBe(7)
})

test('twice() is true from the second time on', () => {
  const again = twice()
  expect([true, true, false, true, true].map(again)).toEqual([false, true, false, false, true])
})
