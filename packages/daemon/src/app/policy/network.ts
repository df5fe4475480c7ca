import type { EffectivePolicy } from '@anchorhold/core/policy/effective'
import { Failure } from '@anchorhold/protocol/failures'
import { type Rung, sharesHostNetwork } from '@anchorhold/protocol/rungs'
import type { Network } from '@anchorhold/protocol/sessions'
import type { Config } from '../../config.ts'

/** What a session has of the network now: what it was made with, or what policies have left of it since. Null where it could be
 *  kept to that by nobody. */
export function networkNow(
  { network, rung }: { readonly network: Network; readonly rung: Rung },
  { network: most }: Pick<EffectivePolicy, 'network'>,
): Network | null {
  if (network === 'host') return most === 'host' || (rung === 'none' && most === null) ? network : null
  return most === 'none' ? most : network
}

/** A cell has no network of its own, unless the host's is asked for by name and a policy lets it be; what is no cell has the host's, and
 *  nothing could keep it from that. */
export function networkFor(
  { network: usual }: Pick<Config, 'network'>,
  rung: Rung,
  asked: Network | undefined,
  { network: most }: Pick<EffectivePolicy, 'network'>,
): Network {
  const isShared = rung === 'none' || asked === 'host'
  if (most !== null && ((isShared && most !== 'host') || (most === 'none' && asked === 'proxy_only')))
    throw new Failure(
      'forbidden',
      `Cannot start a session ${isShared ? 'on the host network' : 'with a net window'}: the policy says "${most}"`,
      {
        hint: 'The owner sets this in policy.yaml: network_mode',
      },
    )
  if (rung === 'none') {
    if (asked === undefined || asked === 'host') return 'host'
    throw new Failure('cell_unavailable', 'An agent without a cell cannot be kept off the host network', {
      hint: 'Choose a rung that is a wall, or say --network host',
    })
  }
  if (asked === 'host') {
    if (!sharesHostNetwork(rung))
      throw new Failure('cell_unavailable', `A cell of rung "${rung}" cannot share the host's network`, {
        hint: 'Open what it needs with rules (proxy_only), or choose the rung bwrap',
      })
    if (most === 'host') return 'host'
    throw new Failure('forbidden', 'Cannot start a session on the host network: no policy allows it', {
      hint: 'The owner allows it in policy.yaml: network_mode: host',
    })
  }
  if (rung !== 'seatbelt') return asked ?? (most === 'none' ? most : usual)
  if (asked !== 'proxy_only') return 'none'
  throw new Failure('cell_unavailable', 'A cell of rung "seatbelt" has no loopback of its own that a net window could be on', {
    hint: 'Leave --network out: such a cell reaches its model and nothing else',
  })
}
