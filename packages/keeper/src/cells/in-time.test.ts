import { systemClock } from '@anchorhold/link/clock'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import type { Cell, CellDriver, CellSpec } from './cell.ts'
import { inTime } from './in-time.ts'

const spec = {} as CellSpec
const cell = {} as Cell
/** A driver and a clock whose one timer the test sets off. */
function make(start: CellDriver['start']) {
  const timers = new Set<() => void>()
  const clock = {
    ...systemClock,
    after(_: number, then: () => void) {
      timers.add(then)
      return () => void timers.delete(then)
    },
  }
  return { timers, driver: inTime({ rung: 'gvisor', missing: async () => [], start }, clock) }
}
const hanging: CellDriver['start'] = async (_, signal) => {
  await once(signal, 'abort')
  throw signal.reason
}

test('inTime() gives up a cell that never comes to stand, and says so', async () => {
  const { driver, timers } = make(hanging)
  const started = driver.start(spec, new AbortController().signal)
  for (const late of timers) late()
  await expect(started).rejects.toMatchObject({
    code: 'cell_unavailable',
    message: expect.stringContaining('2 minutes') as string,
  })
})

test('inTime() lets a cell that stands be, and passes on who cancels it', async () => {
  const { driver, timers } = make(async () => cell)
  expect(await driver.start(spec, new AbortController().signal)).toBe(cell)
  expect(timers.size).toBe(0)
  const cancelled = make(hanging)
  const cancel = new AbortController()
  const started = cancelled.driver.start(spec, cancel.signal)
  cancel.abort(new Error('left'))
  await expect(started).rejects.toThrow('left')
  expect(cancelled.timers.size).toBe(0)
})
