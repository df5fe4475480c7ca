import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** A number of seconds that no other test sleeps for. */
export const uniqueSeconds = () => `${100_000 + Math.floor(Math.random() * 1e9)}`

const endTimeoutMs = 20_000
/** Whether it came to be so in time. */
export async function until(holds: () => boolean): Promise<boolean> {
  const deadline = performance.now() + endTimeoutMs
  while (!holds()) {
    if (performance.now() > deadline) return false
    await delay(20)
  }
  return true
}

type Stat = { readonly pid: number; readonly parent: number; readonly startedAt: string }

function stats(): Stat[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const text = readFileSync(`/proc/${name}/stat`, 'latin1')
        const [state, parent, ...rest] = text.slice(text.lastIndexOf(')') + 2).split(' ')
        return state === 'Z' || state === 'X' ? [] : [{ pid: Number(name), parent: Number(parent), startedAt: rest[17] ?? '' }]
      } catch {
        return [] // it has ended in between
      }
    })
}

export function descendantsOf(root: number): Stat[] {
  const every = stats()
  const below = (parent: number): Stat[] => every.flatMap((one) => (one.parent === parent ? [one, ...below(one.pid)] : []))
  return below(root)
}
export const isGone = ({ pid, startedAt }: Stat) => !stats().some((one) => one.pid === pid && one.startedAt === startedAt)

/** Command lines of living processes of the host that mention one of these. A zombie has none. */
export function hostProcesses(...marks: readonly string[]): string[] {
  return stats().flatMap(({ pid }) => {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'latin1')
      return marks.some((mark) => line.includes(mark)) ? [line.replaceAll('\0', ' ').slice(0, 100)] : []
    } catch {
      return []
    }
  })
}
