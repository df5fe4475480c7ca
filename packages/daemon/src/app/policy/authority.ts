import type { RequestAction } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Authority } from '@anchorhold/protocol/authority'
import type { Judges, Parts } from '../parts.ts'
import { effectivePolicy } from './policy.ts'
import { tellGate, tellKeeper } from '../keepers/tell-processes.ts'

/** Who asks for what: the keeper for what its agent does in the cell, the gate for what leaves it. */
type Asker = 'keeper' | 'gate'
export const askerOf = ({ kind }: Pick<RequestAction, 'kind'>): Asker =>
  kind === 'net' || kind === 'host' || kind === 'spend' ? 'gate' : 'keeper'

/** Has whoever checks a live session's actions go by what is in force now. One that is just being started hears it when it stands;
 *  one that is leaving needs no more. */
export async function enforcePolicy(parts: Judges & Pick<Parts, 'gate' | 'keepers'>, id: SessionId): Promise<void> {
  if (!parts.keepers.sessions.includes(id)) return
  const policy = effectivePolicy(parts, id)
  await Promise.all([tellKeeper(parts, id, { do: 'policy', policy }), tellGate(parts, { do: 'policy', session: id, policy })])
}

/** What decides over a session's actions, for whoever checks them: the policy, what was allowed and is not used up, and what is
 *  being asked. What is answered counts as asked until it is told: whoever waits for it is to hear the answer, and not that there
 *  is none. */
export function authorityFor(parts: Judges & Pick<Parts, 'now'>, id: SessionId, asker: Asker): Authority {
  const { requests } = parts.store
  return {
    policy: effectivePolicy(parts, id),
    grants: requests.grants(id, parts.now()).flatMap(({ kind, ...grant }) => (askerOf({ kind }) === asker ? [grant] : [])),
    asked: [...requests.list({ openOnly: true, session: id, seenBy: null }), ...requests.untold(id)].flatMap(
      ({ id: request, action, digest, pins, expires_at }) =>
        askerOf(action) === asker && digest !== null ? [{ request, digest, pins: [...pins], expires_at }] : [],
    ),
  }
}
