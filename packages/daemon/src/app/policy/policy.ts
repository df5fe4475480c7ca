import { type Actor, may } from '@anchorhold/core/actors'
import { compilePolicy, type CompiledPolicy } from '@anchorhold/core/policy/decide'
import {
  agentSessionsMax,
  effective,
  type EffectivePolicy,
  isMilder,
  isWeaker,
  modelRefusal,
  narrowing,
  noSettings,
  type PolicySettings,
  providerRefusal,
} from '@anchorhold/core/policy/effective'
import { filterFor } from '@anchorhold/core/policy/repo-filters'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId, UserId } from '@anchorhold/protocol/ids'

import type { Policy } from '@anchorhold/protocol/policy'
import type { Rung } from '@anchorhold/protocol/rungs'
import type { SessionOptions } from '@anchorhold/protocol/session-options'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import { allDenied } from '../../policy/all-denied.ts'
import type { ProviderRow, SessionRow } from '../../store/store.ts'
import { type Judges, type Parts, type Reads, sessionFor } from '../parts.ts'
import { forgeSettings } from '../workspace/repos.ts'

type Held = Pick<SessionRow, 'ownerId' | 'options'> & Partial<Pick<SessionRow, 'autonomyGiven'>>

/** A policy that applies to a session; the house's own has no name. */
export type Applied = { readonly name: string | null; readonly settings: PolicySettings }

/** The policy of the house, of the session's owner if that is an agent, and the one that it names. A person may name any that the
 *  owner of the house has written; of what an agent names, only what takes away counts. */
export function appliedTo(
  parts: Reads & Pick<Parts, 'policies'>,
  { ownerId, options }: Pick<Held, 'ownerId' | 'options'>,
): readonly Applied[] {
  const owner = parts.store.people.get(ownerId)
  const own = owner?.role === 'agent' ? owner.policy : null
  const given = [
    { name: null, settings: parts.policies.house().settings },
    ...(own === null ? [] : [{ name: own, settings: namedSettings(parts, own) }]),
  ]
  const name = options.policy ?? null
  if (name === null || name === own) return given
  const named = namedSettings(parts, name)
  if (owner !== null && owner.role !== 'agent') return [...given, { name, settings: named }]
  const without = effective(
    given.map((one) => one.settings),
    { autonomy: null, observe: false, mayWiden: false },
  )
  return [...given, { name, settings: narrowing(named, without) }]
}

/** What is in force for a session: all that applies to it, taken together. */
export function effectiveFor(parts: Judges, held: Held): EffectivePolicy {
  const { ownerId, options, autonomyGiven = false } = held
  const owner = parts.store.people.get(ownerId)
  // Whoever is not there any more widens nothing.
  const mayWiden = autonomyGiven || (owner !== null && owner.role !== 'agent')
  const settings = [...appliedTo(parts, held).map((one) => one.settings), forgeSettings(parts.config, options)]
  return effective(settings, { autonomy: options.autonomy ?? null, observe: options.observe ?? false, mayWiden })
}

/** For keeper and gate: all that they need to decide by themselves. */
export function effectivePolicy(parts: Judges, session: SessionId): Policy {
  return effectiveFor(parts, sessionFor(parts, session, null)).policy
}

export const compiledFor = (parts: Judges, session: SessionId): CompiledPolicy => compilePolicy(effectivePolicy(parts, session))

/** A policy that somebody was given and that never was lets nothing happen. */
function namedSettings({ policies }: Pick<Parts, 'policies'>, name: string): PolicySettings {
  const found = policies.named(name)
  if (found !== null) return found.settings
  const file = `policies/${name}.yaml`
  return { ...noSettings(file), ...allDenied(`${file} is not there`, 1) }
}

/** What a new session is held to, as far as it is settled when it is made. */
export type Admission = {
  readonly held: EffectivePolicy
  readonly rung: Rung
  /** For a host folder; null where the house's own is strict enough. */
  readonly repoFilter: RepoFilter | null
  readonly budgetNanos: number | null
}

export type Wanted = {
  readonly options: SessionOptions
  readonly owner: UserId
  /** Asked for by name, or where the owner has pinned the actor to it. */
  readonly rung: Rung | null
  readonly provider: ProviderRow
  readonly model: string
  readonly budgetNanos: number | null
  readonly hasKey: boolean
}

/** Holds a session to the policies before anything of it is made. */
export function admit(
  parts: Judges,
  actor: Actor,
  { options, owner, rung, provider, model, budgetNanos, hasKey }: Wanted,
): Admission {
  if (options.policy !== undefined) requirePolicy(parts, options.policy)
  for (const { file, inForce, problems } of parts.policies.list())
    if (inForce === 'locked' && (file === 'policy.yaml' || file === `policies/${options.policy}.yaml`))
      throw new Failure(
        'forbidden',
        `Cannot start a session: ${file} cannot be used: line ${problems[0]?.line ?? 1}: ${problems[0]?.message ?? ''}`,
        {
          hint: 'Fix it: anchorhold policy check',
        },
      )
  for (const { settings } of appliedTo(parts, { ownerId: owner, options }))
    if (settings.disabledAt !== null)
      throw new Failure(
        'forbidden',
        `Cannot start a session: ${settings.file}, line ${settings.disabledAt}, has access: disabled`,
        {
          hint: 'The owner opens it again there',
        },
      )
  const held = effectiveFor(parts, { ownerId: owner, options })
  requireNarrow(parts, actor, owner, options)
  if (held.requireIdempotency && !hasKey)
    throw new Failure('bad_request', 'Cannot start a session: the policy requires an idempotency key', {
      hint: 'Send idempotency_key',
    })
  const chosen = rung ?? (held.rung !== null && isWeaker(parts.config.rung, held.rung) ? held.rung : parts.config.rung)
  if (held.rung !== null && isWeaker(chosen, held.rung))
    throw new Failure('forbidden', `Cannot start a session of rung "${chosen}": the policy requires "${held.rung}" or stronger`, {
      hint: `Ask for "${held.rung}", or for none; the owner sets this in policy.yaml: isolation_mode`,
    })
  requireModel(held, provider, model)
  if (held.money.requireMaxCost && budgetNanos === null)
    throw new Failure('bad_request', 'Cannot start a session without a budget: the policy requires one', {
      hint: 'Give one: --budget 5, or budget_micros',
    })
  return {
    held,
    rung: chosen,
    repoFilter: options.workspace === undefined ? null : filterFor(parts.config.repoFilter, options.repo_filter, held),
    budgetNanos: budgetNanos ?? held.money.defaultMaxCostNanos,
  }
}

/** How many sessions somebody may have at once; asked again in the transaction that makes one. */
export function requireRoom(parts: Reads, actor: Actor, held: Pick<EffectivePolicy, 'maxConcurrent'>): void {
  const max = held.maxConcurrent ?? (actor.kind === 'agent' ? agentSessionsMax : null)
  if (max === null || actor.user === null) return
  const open = parts.store.sessions.openOf(actor.user)
  if (open >= max)
    throw new Failure(
      'too_many',
      `Cannot start a session: "${actor.name}" has ${open} that are not ended, and the policy allows ${max}`,
      {
        hint: 'Stop or archive one of them; the owner sets this in policy.yaml: max_concurrent',
      },
    )
}

/** The same where somebody takes up one of theirs that had ended, and so does not count. */
export function requireRoomFor(parts: Judges, actor: Actor, session: SessionRow): void {
  if (session.ownerId === actor.user) requireRoom(parts, actor, effectiveFor(parts, session))
}

/** A session that was made when the policy let it have more than it does now, and cannot be kept to less, does not go on. */
export function requireStanding(parts: Judges, session: SessionRow, provider: ProviderRow): void {
  const { id, rung, options } = session
  const held = effectiveFor(parts, session)
  if (held.rung !== null && isWeaker(rung, held.rung))
    throw new Failure(
      'forbidden',
      `Session "${id}" cannot go on: its cell is of rung "${rung}", and the policy requires "${held.rung}" or stronger`,
      {
        hint: 'Start another on that rung; the owner sets this in policy.yaml: isolation_mode',
      },
    )
  requireProvider(held, provider)
  if (options.workspace !== undefined) filterFor(parts.config.repoFilter, options.repo_filter ?? parts.config.repoFilter, held)
}

/** A model that the policy does not allow is refused before anything is asked of it. */
export function requireModel(held: EffectivePolicy, provider: Pick<ProviderRow, 'name' | 'kind'>, model: string): void {
  requireProvider(held, provider)
  const refusal = modelRefusal(held.policy.models, model)
  if (refusal !== null)
    throw new Failure('forbidden', `Cannot use the model "${model}": the policy's ${refusal}`, {
      hint: 'Choose another model; the owner sets this in policy.yaml',
    })
}

function requireProvider(held: EffectivePolicy, provider: Pick<ProviderRow, 'name' | 'kind'>): void {
  const against = providerRefusal(held, provider)
  if (against !== null)
    throw new Failure('forbidden', `Cannot use the provider "${provider.name}": ${against}`, {
      hint: 'Choose one of these; the owner sets this in policy.yaml: allowed_providers',
    })
}

/** Who may widen nothing may only ask for less than the policy gives. */
export function requireNarrow(
  parts: Judges,
  actor: Actor,
  owner: UserId,
  options: Pick<SessionOptions, 'autonomy' | 'observe' | 'policy'>,
): void {
  if (may(actor, 'session.create_wider')) return
  const refuse = (what: string) => {
    throw new Failure('forbidden', `"${actor.name}" may not start a session with ${what}: an agent widens nothing`, {
      hint: 'Leave it out, or let a person start the session',
    })
  }
  if (options.observe === true) refuse('observe')
  const { autonomy: _, ...rest } = options
  const given = effectiveFor(parts, { ownerId: owner, options: rest }).policy.autonomy
  if (options.autonomy !== undefined && isMilder(options.autonomy, given))
    refuse(`autonomy ${options.autonomy} where the policy gives ${given}`)
}

export function requirePolicy({ policies }: Pick<Parts, 'policies'>, name: string): void {
  const found = policies.named(name)
  if (found !== null && found.inForce !== 'gone') return
  const names = policies.list().flatMap((one) => (one.name === null ? [] : [`"${one.name}"`]))
  throw new Failure('not_found', `There is no policy "${name}"`, {
    hint: names.length === 0 ? `Write policies/${name}.yaml in the config folder` : `There is ${names.join(', ')}`,
  })
}
