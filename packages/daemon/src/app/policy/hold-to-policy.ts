import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { enforcePolicy } from './authority.ts'
import { openWindows } from '../keepers/keeper-start.ts'
import type { Holds } from '../parts.ts'

/** What applies to these sessions has changed: what is under way in them goes on under that. */
export function holdToPolicy(parts: Holds, sessions: readonly SessionId[]): void {
  const tell = (error: unknown) => parts.log(error instanceof Error ? error.message : String(error))
  for (const id of sessions) {
    // One that may not have what it has is not let go on with it.
    void openWindows(parts, id).catch((error: unknown) => {
      tell(error)
      if (error instanceof Failure && error.code === 'forbidden') void parts.keepers.end(id, error.message).catch(tell)
    })
    void enforcePolicy(parts, id).catch(tell)
  }
}
