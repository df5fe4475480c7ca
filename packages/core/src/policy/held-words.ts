import { formatUsd, microsUp } from '@anchorhold/protocol/money'
import { defaultPolicy } from './default-policy.ts'
import type { EffectivePolicy } from './effective.ts'

/** One setting that is in force, by the key that sets it. */
export type HeldSetting = { readonly key: string; readonly value: string }

/** All that policies have set beside their rules, in the words of a file; what is as it would be without any is left out. */
export function heldWords(held: EffectivePolicy): readonly HeldSetting[] {
  const { policy, money, rates } = held
  const found: HeldSetting[] = []
  const say = (key: string, value: string | number | null, usual: string | number | null = null) => {
    if (value !== null && value !== usual) found.push({ key, value: String(value) })
  }
  const usd = (nanos: number | null) => (nanos === null ? null : formatUsd(microsUp(nanos)))
  const seconds = (ms: number | null) => (ms === null ? null : ms / 1000)
  const hours = (ms: number) => ms / 3_600_000
  for (const list of policy.tools) say('allowed_tools', list.join(', '))
  for (const { allowed, blocked } of policy.models) {
    if (allowed.length > 0) say('allowed_models', allowed.join(', '))
    if (blocked.length > 0) say('blocked_models', blocked.join(', '))
  }
  for (const list of held.providers) say('allowed_providers', list.join(', '))
  say('max_context_tokens', policy.max_context_tokens)
  say('max_cost_usd_per_tick', usd(money.perTickNanos))
  say('max_cost_usd_per_day', usd(money.perDayNanos))
  say('tick_seconds', seconds(money.tickMs))
  say('default_max_cost_usd', usd(money.defaultMaxCostNanos))
  if (money.requireMaxCost) say('require_max_cost', 'true')
  say('budget.approval_threshold_usd', usd(money.approvalThresholdNanos))
  if (money.approvers !== null) say('budget.approvers', money.approvers.join(', ') || 'nobody but an owner')
  say('max_concurrent', held.maxConcurrent)
  say('rates.requests_per_minute', rates.requestsPerMinute)
  say('rates.tokens_per_minute', rates.tokensPerMinute)
  if (held.requireIdempotency) say('require_idempotency', 'true')
  say('rung', held.rung)
  say('network_mode', held.network)
  for (const filter of held.repoFilters) say('repo_filter', typeof filter === 'string' ? filter : JSON.stringify(filter))
  for (const name of ['repeats', 'errors', 'turns'] as const)
    if (policy.breakers[name] !== defaultPolicy.breakers[name]) say(`breakers.${name}`, policy.breakers[name] ?? 'off')
  say('park_after_seconds', seconds(policy.park_after_ms), seconds(defaultPolicy.park_after_ms))
  say('request_hours', hours(policy.request_ms), hours(defaultPolicy.request_ms))
  say('grant_hours', hours(policy.grant_ms), hours(defaultPolicy.grant_ms))
  return found
}
