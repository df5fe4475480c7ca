/** Ctrl-C, kept for whoever will hear it: what is on its way to the daemon cannot be taken back before it has arrived. */
export type Interrupts = Disposable & {
  /** From now on each one, and those that were kept. */
  hear(onInterrupt: () => void): void
}

/** From the call on. A second one that nobody has heard yet ends the process, as the first would have. */
export function keepInterrupts(): Interrupts {
  let kept = 0
  let hears: (() => void) | null = null
  const onInterrupt = () => {
    if (hears !== null) return hears()
    if (++kept < 2) return
    stop()
    process.kill(process.pid, 'SIGINT')
  }
  const stop = () => void process.off('SIGINT', onInterrupt)
  process.on('SIGINT', onInterrupt)
  return {
    hear(onInterrupt) {
      hears = onInterrupt
      for (; kept > 0; kept--) onInterrupt()
    },
    [Symbol.dispose]: stop,
  }
}
