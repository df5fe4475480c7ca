import { parseAddress } from '@anchorhold/core/net/addresses'
import { authorityOf, connectTarget, type Target } from '@anchorhold/core/net/target'
import type { Dialler } from './dial.ts'

/** Leads some targets to places of the owner's, whatever their names resolve to. A mirror is chosen after the target was judged and
 *  by the config alone, so rules speak of the name, and TLS must be for the name too.
 *  Invariant: only what is listed is led elsewhere, and only to the one address and port that is listed. */
export function mirrored(dialler: Dialler, mirrors: () => Readonly<Record<string, string>>): Dialler {
  const mirrorOf = (target: Target): Target | null => {
    const all = mirrors()
    const name = authorityOf(target)
    return Object.hasOwn(all, name) ? placeOf(all[name]!) : null
  }
  return {
    refuses: (target, options) => (mirrorOf(target) === null ? dialler.refuses(target, options) : null),
    async dial(target, options, signal) {
      const mirror = mirrorOf(target)
      if (mirror === null) return dialler.dial(target, options, signal)
      const dialled = await dialler.dial(mirror, { ownNetwork: true }, signal)
      // Where the mirror is concerns no cell.
      return 'socket' in dialled
        ? dialled
        : { failed: `Cannot reach "${target.host}" on port ${target.port}: its mirror does not answer` }
    },
  }
}

function placeOf(place: string): Target | null {
  const target = connectTarget(place)
  return 'misnamed' in target || parseAddress(target.host) === null ? null : target
}
