import { readFileSync } from 'node:fs'

/** One comparison: the product over a floor, both measured in the same run, turn by turn. */
export type Ratio = {
  readonly name: string
  readonly value: number
  /** What it must reach, and what would be a record; `above` when more is better. */
  readonly must: number
  readonly record: number
  readonly better: 'below' | 'above'
  readonly note: string
}

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

/** What contenders took that ran in turn. */
export type Rounds<N extends string> = {
  /** Milliseconds, medians. */
  readonly ms: Readonly<Record<N, number>>
  /** The median of what the rounds say each for itself: a machine that is slower for some seconds is so for both sides of a round, and two
   *  medians may be of different seconds. */
  ratio(of: N, to: N): number
}

/** Runs each contender once a round, in turn, so that a busy machine is busy for all of them. */
export async function interleave<N extends string>(
  rounds: number,
  contenders: Readonly<Record<N, () => Promise<number | void>>>,
  { warmUp = 1 }: { readonly warmUp?: number } = {},
): Promise<Rounds<N>> {
  const names = Object.keys(contenders) as N[]
  const times = perName(names, (): number[] => [])
  for (let round = -warmUp; round < rounds; round++) {
    for (const name of names) {
      const started = performance.now()
      const own = await contenders[name]()
      const took = typeof own === 'number' ? own : performance.now() - started
      if (round >= 0) times[name].push(took)
    }
  }
  return {
    ms: perName(names, (name) => median(times[name])),
    ratio: (of, to) => median(times[of].map((took, round) => took / times[to][round]!)),
  }
}
const perName = <N extends string, T>(names: readonly N[], make: (name: N) => T) =>
  Object.fromEntries(names.map((name) => [name, make(name)])) as Record<N, T>

/** Of all processors since the start, in the kernel's ticks; `stolen` is what a virtual machine wanted and its host gave to others. */
export function processorTime(): { readonly stolen: number; readonly all: number } | null {
  try {
    const [first = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
    const ticks = first.split(/ +/).slice(1, 9).map(Number)
    return { stolen: ticks[7] ?? 0, all: ticks.reduce((sum, some) => sum + some, 0) }
  } catch {
    return null
  }
}

export function verdict({ value, must, record, better }: Ratio): 'record' | 'must' | 'missed' {
  const reaches = (bar: number) => (better === 'below' ? value <= bar : value >= bar)
  return reaches(record) ? 'record' : reaches(must) ? 'must' : 'missed'
}
