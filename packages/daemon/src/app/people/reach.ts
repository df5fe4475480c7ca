import type { Actor } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import { type Parts, type Reads, require } from '../parts.ts'

/** By this the daemon is known again when it is asked through its public URL: nobody else has it. */
export function openReach(parts: Reads & Pick<Parts, 'attempts'>, actor: Actor): { readonly nonce: string } {
  require(parts, actor, 'house.run')
  return { nonce: parts.attempts.keep({ kind: 'reach' }) }
}

/** Open to anybody who has the nonce. */
export function reached(
  parts: Pick<Parts, 'attempts' | 'config'>,
  nonce: string,
  { address, forwarded }: { readonly address: string | null; readonly forwarded: boolean },
) {
  if (parts.attempts.see('reach', nonce) === null) throw new Failure('not_found', 'There is no such nonce here')
  return { nonce, address, doubted: forwarded && parts.config.trustedProxies === 0 }
}
