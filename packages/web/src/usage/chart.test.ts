import { expect, test } from 'vitest'
import { ceiling, lastDays } from './chart.ts'

test('lastDays() has a bar for each day, today last, and keeps play money apart', () => {
  const days = [
    { day: '2026-11-15', simulated: false, cost_micros: 5, calls: 1 },
    { day: '2026-11-14', simulated: true, cost_micros: 7, calls: 1 },
    { day: '2026-01-01', simulated: false, cost_micros: 9, calls: 1 },
  ]
  const bars = lastDays(days, false, Date.UTC(2026, 10, 15, 12), 3)
  expect(bars.map(({ day, micros }) => [day, micros])).toEqual([
    ['2026-11-13', 0],
    ['2026-11-14', 0],
    ['2026-11-15', 5],
  ])
})

test.each([
  [0, 1],
  [3, 5],
  [5, 5],
  [124_200, 200_000],
  [999, 1000],
])('ceiling() of %d is %d', (micros, top) => {
  expect(ceiling(micros)).toBe(top)
})
