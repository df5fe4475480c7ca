import { z } from 'zod'

/** Whole nano-USD: the unit of every sum inside. $9 million fit into a safe integer. */
export const Nanos = z.int().min(0)
export type Nanos = z.infer<typeof Nanos>
/** Whole micro-USD: the unit of every sum on the wire, rounded up. */
export const Micros = z.int().min(0)
export type Micros = z.infer<typeof Micros>

const nanosPerUsd = 1_000_000_000

export const microsUp = (nanos: Nanos): Micros => Math.ceil(nanos / 1000)
export const nanosOfMicros = (micros: Micros): Nanos => micros * 1000

/** `0.05`, `$5` or `5.00` as nano-USD. Null when it is not an amount of money with at most six decimals. */
export function parseUsd(text: string): Nanos | null {
  const match = /^\$?(\d{1,6})(?:\.(\d{1,6}))?$/.exec(text.trim())
  if (match === null) return null
  const [, whole = '0', fraction = ''] = match
  return Number(whole) * nanosPerUsd + Number(fraction.padEnd(9, '0'))
}

/** Of a text that `parseUsd` does not read, in words. */
export function whyNotUsd(text: string): string {
  const [, whole, fraction] = /^\$?(\d+)(?:\.(\d+))?$/.exec(text.trim()) ?? []
  if (whole === undefined) return 'is not an amount in dollars'
  return fraction !== undefined && fraction.length > 6
    ? 'is finer than can be counted, which is six decimals'
    : 'is more than can be counted, which is less than a million dollars'
}

/** `$0.0123`: as many decimals as matter, two from a dollar on. */
export function formatUsd(micros: Micros): string {
  const decimals = micros === 0 || micros >= 1_000_000 ? 2 : micros >= 100 ? 4 : 6
  return `$${(micros / 1_000_000).toFixed(decimals)}`
}
