import type { Actor } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { Parts } from '../parts.ts'

/** How long a proof is fresh. */
export const freshMs = 5 * 60_000

/** Before what would let a borrowed or stolen browser reach farther than itself: whoever sits at it has shown within the last
 *  minutes who they are. Programs with a token and the machine's own command line are not asked: there is nobody to show it. */
export function requireProof({ now }: Pick<Parts, 'now'>, { provenAt }: Actor, deed: string): void {
  if (provenAt === undefined) return
  const ageMs = provenAt === null ? Infinity : now() - provenAt
  // A clock that was set back makes no proof fresh.
  if (ageMs >= 0 && ageMs <= freshMs) return
  throw new Failure('proof_needed', `Cannot ${deed}: you last proved who you are more than five minutes ago`, {
    hint: 'Show a passkey or your password, or open a new login link: anchorhold login-link',
  })
}
