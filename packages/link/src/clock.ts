/** Time, as the processes of the house use it, so that a simulation can stand in for it. */
export interface Clock {
  /** The time of day in milliseconds. It may jump. */
  now(): number
  /** Milliseconds since some moment. They only go forward, and evenly: what waits, waits by these. */
  elapsed(): number
  /** Calls back once, after so long. The function it gives takes that back. */
  after(ms: number, then: () => void): () => void
  /** Calls back when what is being done now is done. */
  soon(then: () => void): void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  after(ms, then) {
    const timer = setTimeout(then, ms)
    return () => clearTimeout(timer)
  },
  soon: (then) => void setImmediate(then),
}

export const pause = (clock: Clock, ms: number): Promise<void> => new Promise((resolve) => void clock.after(ms, resolve))
