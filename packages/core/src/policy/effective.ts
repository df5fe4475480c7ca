import type { Autonomy, Breakers, Policy, Preset, Rule } from '@anchorhold/protocol/policy'
import type { Rung } from '@anchorhold/protocol/rungs'
import type { Network, RepoFilter } from '@anchorhold/protocol/sessions'
import { presetRules } from '../net/presets.ts'
import { defaultPolicy } from './default-policy.ts'
import { compileGlob } from './patterns.ts'

/** Where a rule was written. */
export type Origin = { readonly file: string; readonly line: number }

/** What a policy says of money. Null where it says nothing. */
export type MoneyLimits = {
  readonly perTickNanos: number | null
  readonly perDayNanos: number | null
  /** A session that has spent this much needs somebody's approval to spend as much again. */
  readonly approvalThresholdNanos: number | null
  /** Who may give it, by name; null for everybody who may answer. */
  readonly approvers: readonly string[] | null
  readonly defaultMaxCostNanos: number | null
  readonly requireMaxCost: boolean
  readonly tickMs: number | null
}

export type RateLimits = { readonly requestsPerMinute: number | null; readonly tokensPerMinute: number | null }

/** One policy file, as it was understood. */
export type PolicySettings = {
  /** As its owner knows it: `policy.yaml`, `policies/ci.yaml`. */
  readonly file: string
  readonly rules: readonly { readonly rule: Rule; readonly line: number }[]
  /** No others may be used; null for all. */
  readonly tools: readonly string[] | null
  readonly models: { readonly allowed: readonly string[]; readonly blocked: readonly string[] }
  /** No others may be used; empty for all. */
  readonly providers: readonly string[]
  readonly autonomy: Autonomy | null
  readonly maxContextTokens: number | null
  readonly breakers: Partial<Breakers>
  readonly parkAfterMs: number | null
  readonly requestMs: number | null
  readonly grantMs: number | null
  /** The weakest cell, and the weakest filter of a host folder. */
  readonly rung: Rung | null
  readonly repoFilter: RepoFilter | null
  /** The most that a cell may reach. The network of the host is never given where no policy says so. */
  readonly network: Network | null
  readonly maxConcurrent: number | null
  readonly requireIdempotency: boolean
  readonly money: MoneyLimits
  readonly rates: RateLimits
  /** The line that switches everything off, where one does. */
  readonly disabledAt: number | null
}

export const noSettings = (file: string): PolicySettings => ({
  file,
  rules: [],
  tools: null,
  models: { allowed: [], blocked: [] },
  providers: [],
  autonomy: null,
  maxContextTokens: null,
  breakers: {},
  parkAfterMs: null,
  requestMs: null,
  grantMs: null,
  rung: null,
  repoFilter: null,
  network: null,
  maxConcurrent: null,
  requireIdempotency: false,
  money: {
    perTickNanos: null,
    perDayNanos: null,
    approvalThresholdNanos: null,
    approvers: null,
    defaultMaxCostNanos: null,
    requireMaxCost: false,
    tickMs: null,
  },
  rates: { requestsPerMinute: null, tokensPerMinute: null },
  disabledAt: null,
})

/** What the session itself asks for. */
export type SessionWish = {
  readonly autonomy: Autonomy | null
  readonly observe: boolean
  /** Whether it may ask for more than the policies give: an agent's session may not. */
  readonly mayWiden: boolean
}

export type EffectivePolicy = {
  readonly policy: Policy
  /** Where each rule of the policy stands, by the same place. */
  readonly origins: readonly Origin[]
  readonly providers: readonly (readonly string[])[]
  readonly rung: Rung | null
  readonly repoFilters: readonly RepoFilter[]
  readonly network: Network | null
  readonly maxConcurrent: number | null
  readonly requireIdempotency: boolean
  readonly money: MoneyLimits
  readonly rates: RateLimits
}

const autonomies: readonly Autonomy[] = ['full', 'supervised', 'restricted', 'read_only']
/** Bubblewrap and seatbelt are one rung of the ladder, on two systems. */
const strength: Readonly<Record<Rung, number>> = { none: 0, bwrap: 1, seatbelt: 1, container: 2, gvisor: 3, microvm: 4 }

/** Whether the first lets an agent do more than the second. */
export const isMilder = (a: Autonomy, b: Autonomy): boolean => autonomies.indexOf(a) < autonomies.indexOf(b)
export const isWeaker = (a: Rung, b: Rung): boolean => strength[a] < strength[b]

const strictest = (all: readonly (Autonomy | null)[]): Autonomy | null => autonomies.findLast((one) => all.includes(one)) ?? null
const least = (all: readonly (number | null | undefined)[]): number | null => {
  const said = all.filter((one) => one !== null && one !== undefined)
  return said.length === 0 ? null : Math.min(...said)
}

/** All that applies, taken together: in everything, what is strictest counts. */
export function effective(settings: readonly PolicySettings[], wish: SessionWish): EffectivePolicy {
  const each = <T>(pick: (one: PolicySettings) => T): T[] => settings.map(pick)
  const fallback = strictest(each((one) => one.autonomy)) ?? defaultPolicy.autonomy
  const rules = settings.flatMap(({ file, rules }) => rules.map(({ rule, line }) => ({ rule, origin: { file, line } })))
  const breaker = (name: keyof Breakers) => {
    const said = settings.flatMap(({ breakers }) => (breakers[name] === undefined ? [] : [breakers[name]]))
    return said.length === 0 ? defaultPolicy.breakers[name] : least(said)
  }
  return {
    policy: {
      rules: rules.map(({ rule }) => rule),
      autonomy: wish.autonomy === null ? fallback : wish.mayWiden ? wish.autonomy : strictest([fallback, wish.autonomy])!,
      observe: wish.observe && wish.mayWiden,
      models: each(({ models }) => ({ allowed: [...models.allowed], blocked: [...models.blocked] })).filter(
        ({ allowed, blocked }) => allowed.length + blocked.length > 0,
      ),
      tools: settings.flatMap(({ tools }) => (tools === null ? [] : [[...tools]])),
      max_context_tokens: least(each((one) => one.maxContextTokens)),
      breakers: { repeats: breaker('repeats'), errors: breaker('errors'), turns: breaker('turns') },
      park_after_ms: least(each((one) => one.parkAfterMs)) ?? defaultPolicy.park_after_ms,
      request_ms: least(each((one) => one.requestMs)) ?? defaultPolicy.request_ms,
      grant_ms: least(each((one) => one.grantMs)) ?? defaultPolicy.grant_ms,
    },
    origins: rules.map(({ origin }) => origin),
    providers: each((one) => one.providers).filter((list) => list.length > 0),
    rung: settings.reduce<Rung | null>(
      (found, { rung }) => (rung !== null && (found === null || isWeaker(found, rung)) ? rung : found),
      null,
    ),
    repoFilters: settings.flatMap(({ repoFilter }) => (repoFilter === null || repoFilter === 'none' ? [] : [repoFilter])),
    network: (['none', 'proxy_only', 'host'] as const).find((network) => settings.some((one) => one.network === network)) ?? null,
    maxConcurrent: least(each((one) => one.maxConcurrent)),
    requireIdempotency: settings.some((one) => one.requireIdempotency),
    money: {
      perTickNanos: least(each(({ money }) => money.perTickNanos)),
      perDayNanos: least(each(({ money }) => money.perDayNanos)),
      approvalThresholdNanos: least(each(({ money }) => money.approvalThresholdNanos)),
      approvers: common(each(({ money }) => money.approvers)),
      defaultMaxCostNanos: least(each(({ money }) => money.defaultMaxCostNanos)),
      requireMaxCost: settings.some(({ money }) => money.requireMaxCost),
      tickMs: settings.findLast(({ money }) => money.tickMs !== null)?.money.tickMs ?? null,
    },
    rates: {
      requestsPerMinute: least(each(({ rates }) => rates.requestsPerMinute)),
      tokensPerMinute: least(each(({ rates }) => rates.tokensPerMinute)),
    },
  }
}

/** An agent that no policy says more of has so many sessions at once. */
export const agentSessionsMax = 3

/** What counts of a policy that somebody has chosen for themselves who may widen nothing: all that takes away from what is given. */
export function narrowing(settings: PolicySettings, given: EffectivePolicy): PolicySettings {
  const { policy } = given
  const below = (said: number | null, bound: number | null) => (said !== null && (bound === null || said < bound) ? said : null)
  const breakers = Object.entries(settings.breakers).filter(
    ([name, said]) => below(said, policy.breakers[name as keyof Breakers]) !== null,
  )
  return {
    ...settings,
    rules: settings.rules.filter(({ rule }) => rule.effect !== 'allow'),
    network: settings.network === 'host' ? null : settings.network,
    autonomy: settings.autonomy !== null && isMilder(policy.autonomy, settings.autonomy) ? settings.autonomy : null,
    breakers: Object.fromEntries(breakers),
    parkAfterMs: below(settings.parkAfterMs, policy.park_after_ms),
    requestMs: below(settings.requestMs, policy.request_ms),
    grantMs: below(settings.grantMs, policy.grant_ms),
    maxConcurrent: below(settings.maxConcurrent, given.maxConcurrent ?? agentSessionsMax),
    money: { ...settings.money, tickMs: null },
  }
}

/** Those whom every list names. */
function common(lists: readonly (readonly string[] | null)[]): readonly string[] | null {
  const said = lists.filter((one) => one !== null)
  const [first, ...rest] = said
  return first === undefined ? null : first.filter((name) => rest.every((list) => list.includes(name)))
}

/** The seed's lists of tools and hosts as rules. A list that allows tools shuts out all others besides (`tools`). */
export const blockedTool = (tool: string): Rule => ({ on: 'tool', match: { tool }, effect: 'deny', why: 'blocked_tools' })
export const askedTool = (tool: string): Rule => ({ on: 'tool', match: { tool }, effect: 'ask', why: 'approval_required_tools' })
export const allowedTool = (tool: string): Rule => ({ on: 'tool', match: { tool }, effect: 'allow', why: 'allowed_tools' })
export const allowedHost = (host: string): Rule => ({
  on: 'net',
  match: { host: host.replace(/^\*\./, '.') },
  effect: 'allow',
  why: 'proxy_allowlist',
})
export const allowedPreset = (preset: Preset): Rule[] =>
  presetRules({ on: 'net', preset, effect: 'allow', why: 'proxy_allowlist' })

/** Why a model may not be used; null when it may. */
export function modelRefusal(models: Policy['models'], model: string): string | null {
  const fits = (globs: readonly string[]) => globs.find((glob) => compileGlob(glob).fits(model))
  for (const { allowed, blocked } of models) {
    const against = fits(blocked)
    if (against !== undefined) return `blocked_models has "${against}"`
    if (allowed.length > 0 && fits(allowed) === undefined)
      return `allowed_models has ${allowed.map((one) => `"${one}"`).join(', ')}`
  }
  return null
}

/** Why a provider may not be used; null where it may. In the seed the vendor's own service is called the cloud. */
export function providerRefusal(
  held: Pick<EffectivePolicy, 'providers'>,
  provider: { readonly name: string; readonly kind: string },
): string | null {
  const names = [provider.name, provider.kind, ...(provider.kind === 'anthropic' ? ['cloud'] : [])]
  const list = held.providers.find((allowed) => !names.some((name) => allowed.includes(name)))
  return list === undefined ? null : `the policy allows ${list.map((one) => `"${one}"`).join(', ')}`
}
