import { isLost } from './attach.ts'
import type { Clock } from './clock.ts'

export type PulseOptions = {
  readonly clock: Clock
  /** How often it is asked. */
  readonly beatMs: number
  /** So many times in a row it may owe the answer. They are counted, and not the time: of a daemon that was itself stopped, all timers
   *  are due at once. */
  readonly missedMax: number
  readonly onHung: () => void
}

type Asked = { readonly open: boolean; do(command: { readonly do: 'ping' }): Promise<unknown> }

/** Asks a process whether it still answers, for as long as the link to it stands. One that hangs keeps its lock and its connections, so
 *  nothing else would tell. */
export function watchPulse(to: Asked, { clock, beatMs, missedMax, onHung }: PulseOptions): void {
  let owes = false
  let missed = 0
  const beat = () => {
    if (!to.open) return
    if (owes) missed++
    else ask()
    if (missed >= missedMax) return onHung()
    clock.after(beatMs, beat)
  }
  function ask(): void {
    missed = 0
    owes = true
    // Whatever it says, it lives; that it said nothing in time is no word of its own.
    const answered = () => void (owes = false)
    to.do({ do: 'ping' }).then(answered, (error: unknown) => isLost(error) || answered())
  }
  clock.after(beatMs, beat)
}
