import type { Usage } from '@anchorhold/protocol/api/money'

export type Bar = { readonly label: string; readonly day: string; readonly micros: number; readonly calls: number }

const dayMs = 24 * 60 * 60 * 1000

/** What was spent on each of the last days, also on those without any. */
export function lastDays(days: Usage['days'], simulated: boolean, now: number, count: number): readonly Bar[] {
  const known = new Map(days.filter((one) => one.simulated === simulated).map((one) => [one.day, one]))
  return Array.from({ length: count }, (_, index) => {
    const at = new Date(now - (count - 1 - index) * dayMs)
    const day = at.toISOString().slice(0, 10)
    const label = at.toLocaleDateString(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' })
    return { day, label, micros: known.get(day)?.cost_micros ?? 0, calls: known.get(day)?.calls ?? 0 }
  })
}

/** The round number that the tallest bar is held against. */
export function ceiling(micros: number): number {
  if (micros <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(micros))
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= micros) ?? 10 * power
}
