import type { Event } from '@anchorhold/protocol/events'
import { slownessOf } from '@anchorhold/protocol/rungs'
import { openWindows } from './keeper-start.ts'
import type { Opens, Parts } from '../parts.ts'

/** A session's windows are open before its cell stands, which then says how slow it is: the windows are told, so that they wait for it
 *  that much longer. Where no cell is slow, nothing is done. */
export function heardOfSlowCells(parts: Opens & Pick<Parts, 'log'>, events: readonly Event[]): void {
  for (const event of events) {
    if (event.type !== 'keeper.started' || slownessOf(event.body.limits) === 1) continue
    void openWindows(parts, event.session).catch((error: unknown) =>
      parts.log(`the windows of ${event.session} do not know how slow its cell is: ${String(error)}`),
    )
  }
}
