import { addressKind, parseAddress } from '@anchorhold/core/net/addresses'
import { routesOf } from '@anchorhold/core/net/routes'
import { type EffectivePolicy, modelRefusal, providerRefusal } from '@anchorhold/core/policy/effective'
import type { Action, NetAction, SpendAction } from '@anchorhold/protocol/actions'
import type { LimitView } from '@anchorhold/protocol/api/policy'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'
import { SessionId, type UserId } from '@anchorhold/protocol/ids'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import type { SessionRow } from '../../store/store.ts'
import { ledgerOf } from '../money/ledger.ts'
import { networkNow } from './network.ts'
import type { Judges, Parts } from '../parts.ts'

/** What stands in an action's way beside the rules, and what only its run would tell. */
export type Limits = { readonly limits: readonly LimitView[]; readonly unseen: readonly string[] }

/** Whose limits are asked for: a session's; those of one that is asked for like this; or what a text alone says. */
export type Whose = { readonly session: SessionRow } | { readonly ownerId: UserId; readonly options: SessionOptions } | 'a text'

export function limitsOn(parts: Judges & Pick<Parts, 'now'>, held: EffectivePolicy, whose: Whose, action: Action): Limits {
  switch (action.kind) {
    case 'net':
      return netLimits(held, whose, action)
    case 'spend':
      return spendLimits(parts, held, whose, action)
    case 'tool':
    case 'host':
      return { limits: [], unseen: [] }
  }
}

/** One that there is not yet, so nothing is booked for it. */
const nextSession = SessionId.parse('ses_0000000000000000')

function netLimits(held: EffectivePolicy, whose: Whose, { host, port }: NetAction): Limits {
  const mode = whose !== 'a text' && 'session' in whose ? networkNow(whose.session, held) : held.network
  const limits: LimitView[] = []
  if (mode === 'none')
    limits.push({
      effect: 'deny',
      by: 'network_mode none: the cell reaches its model and nothing else',
      change: 'network_mode: proxy_only',
    })
  const address = parseAddress(host)
  if (address === null) return { limits, unseen: ['the address that the name leads to: one of a private network is refused'] }
  const kind = addressKind(address)
  const { ownNetwork } = routesOf(held.policy.rules)({ host, port, isAddress: true })
  if (kind === 'never') limits.push({ effect: 'deny', by: `no cell is ever led to ${host}`, change: 'Nothing: no rule opens it' })
  else if (kind === 'own' && !ownNetwork)
    limits.push({
      effect: 'deny',
      by: `${host} is this machine or in a private network`,
      change: `A rule that allows ${host} with port ${port} and own_network: true`,
    })
  return { limits, unseen: [] }
}

function spendLimits(
  parts: Judges & Pick<Parts, 'now'>,
  held: EffectivePolicy,
  whose: Whose,
  { model, provider, needed_nanos: needed }: SpendAction,
): Limits {
  const session = whose !== 'a text' && 'session' in whose ? whose.session : null
  const limits: LimitView[] = []
  const unseen = ['max_context_tokens and rates: they are held when the call is made']
  const against = modelRefusal(held.policy.models, model)
  if (against !== null)
    limits.push({ effect: 'deny', by: `the policy's ${against}`, change: 'Another model, or another list of them' })
  const name = provider ?? session?.provider
  const row = name === undefined ? null : (parts.store.providers.get(name) ?? { name, kind: name })
  if (row === null && held.providers.length > 0) unseen.push('allowed_providers: say of which provider the model is')
  const refusal = row === null ? null : providerRefusal(held, row)
  if (refusal !== null) limits.push({ effect: 'deny', by: refusal, change: 'Another provider, or another allowed_providers' })
  const raise = 'Somebody who answers the request, or a higher cap'
  if (whose === 'a text') {
    const { perDayNanos, perTickNanos, approvalThresholdNanos } = held.money
    const caps = {
      'max cost of a day': perDayNanos,
      'max cost of a tick': perTickNanos,
      'approval threshold': approvalThresholdNanos,
    }
    for (const [what, cap] of Object.entries(caps))
      if (cap !== null && needed > cap)
        limits.push({ effect: 'ask', by: `the ${what} is ${formatUsd(microsUp(cap))}`, change: raise })
    return { limits, unseen: [...unseen, 'what is spent already'] }
  }
  const payer = 'session' in whose ? whose.session : { id: nextSession, costNanos: 0, simulated: false, ...whose }
  for (const { node, caps, spent, asks } of ledgerOf(parts, payer).nodes)
    for (const span of ['tick', 'day', 'life'] as const) {
      const cap = caps[span]
      if (cap === null || spent[span] + needed <= cap) continue
      const what = asks ? 'what a session may spend without being approved' : `the budget of ${node} by ${span}`
      limits.push({
        effect: 'ask',
        by: `${what} is ${formatUsd(microsUp(cap))}, of which ${formatUsd(microsUp(spent[span]))} are spent`,
        change: raise,
      })
    }
  if (session === null) return { limits, unseen: [...unseen, 'the budget of the session itself'] }
  if (session.budgetNanos !== null && session.costNanos + needed > session.budgetNanos)
    limits.push({
      effect: 'ask',
      by: `the budget of the session is ${formatUsd(microsUp(session.budgetNanos))}, of which ${formatUsd(microsUp(session.costNanos))} are spent`,
      change: raise,
    })
  return { limits, unseen }
}
