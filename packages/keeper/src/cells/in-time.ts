import { type Clock, systemClock } from '@anchorhold/link/clock'
import { Failure } from '@anchorhold/protocol/failures'
import type { Rung } from '@anchorhold/protocol/rungs'
import type { CellDriver } from './cell.ts'

/** A cell that does not stand by then hangs, as gVisor does when one of its own processes was killed over it. A machine may have to be
 *  prepared first, and be worked out in software. */
const standMs = (rung: Rung) => (rung === 'microvm' ? 10 : 2) * 60 * 1000

/** The same driver, which gives up a cell that never comes to stand. */
export function inTime(driver: CellDriver, clock: Clock = systemClock): CellDriver {
  return {
    ...driver,
    async start(spec, signal) {
      const late = new AbortController()
      const withinMs = standMs(driver.rung)
      const stop = clock.after(withinMs, () => {
        const what = `The ${driver.rung} cell did not come to stand within ${withinMs / 60_000} minutes`
        late.abort(
          new Failure('cell_unavailable', what, {
            hint: 'Try again, and look what this machine can do: anchorhold doctor --fresh',
          }),
        )
      })
      try {
        return await driver.start(spec, AbortSignal.any([signal, late.signal]))
      } finally {
        stop()
      }
    },
  }
}
