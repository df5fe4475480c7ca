import { filterRefusal } from '@anchorhold/core/policy/repo-filters'
import {
  type EffectivePolicy,
  isMilder,
  isWeaker,
  modelRefusal,
  type PolicySettings,
  providerRefusal,
} from '@anchorhold/core/policy/effective'
import type { SessionRow } from '../../store/store.ts'
import { networkNow } from './network.ts'
import type { Reads } from '../parts.ts'

/** Why a policy would not have let a session start that did; null where it would have. All the reasons, since each needs its own
 *  remedy. */
export function wouldRefuse(
  parts: Reads,
  settings: PolicySettings,
  held: EffectivePolicy,
  { provider, model, rung, network, budgetNanos, ownerId, options }: SessionRow,
): string | null {
  const row = parts.store.providers.get(provider) ?? { name: provider, kind: provider }
  const [ofProvider, ofModel] = [providerRefusal(held, row), modelRefusal(held.policy.models, model)]
  const isAgent = parts.store.people.get(ownerId)?.role === 'agent'
  const given = settings.autonomy ?? 'full'
  const { workspace, repo_filter } = options
  const reasons = [
    settings.disabledAt === null ? null : `line ${settings.disabledAt} has access: disabled`,
    ofProvider === null ? null : `provider "${provider}": ${ofProvider}`,
    ofModel === null ? null : `model "${model}": ${ofModel}`,
    held.rung !== null && isWeaker(rung, held.rung) ? `rung "${rung}": it requires "${held.rung}" or stronger` : null,
    networkNow({ network, rung }, held) !== network ? `network "${network}": network_mode is "${held.network}"` : null,
    workspace === undefined || repo_filter === undefined ? null : filterRefusal(repo_filter, held),
    held.money.requireMaxCost && budgetNanos === null ? 'it had no budget, and require_max_cost wants one' : null,
    isAgent && options.autonomy !== undefined && isMilder(options.autonomy, given)
      ? `autonomy "${options.autonomy}": an agent is given ${given}`
      : null,
  ].filter((reason) => reason !== null)
  return reasons.length === 0 ? null : reasons.join('; ')
}
