import { deniedTools, type DeniedTools } from '@anchorhold/core/policy/denied-tools'
import { modelRefusal } from '@anchorhold/core/policy/effective'
import type { Policy } from '@anchorhold/protocol/policy'

/** What a policy says of model calls, made ready once for many of them. */
export type ModelPolicy = {
  readonly denied: DeniedTools | null
  /** Whether a rule speaks of spending. */
  readonly judgesSpending: boolean
  /** Why this model may not be called; null where it may. */
  refuseModel(model: string): string | null
  /** Whether it allows a variant of a model by its own name, and not by one that others have too. */
  namesVariant(model: string): boolean
  /** Why a prompt of so many tokens is too long; null where it is not. */
  refuseContext: ((tokens: number) => string | null) | null
}

/** What stands behind the colon of a reseller's model; null where nothing does. */
const variantOf = (model: string): string | null => /:([^:/]*)$/.exec(model)?.[1] ?? null
const isModel = (glob: string, model: string) => modelRefusal([{ allowed: [glob], blocked: [] }], model) === null

/** Variants that can only cost less than their model, and those that are the same model from elsewhere or with more room. */
const cheaper = new Set(['free', 'floor'])
const elsewhere = new Set(['nitro', 'exacto', 'thinking', 'extended'])

/** Why a variant of a reseller's model is not let out; null where it is, or there is none. One may cost more than its model does, or
 *  search the web from the reseller's own machines (`:online`), past all rules on tools. */
export function refuseVariant(
  model: string,
  on: { readonly capped: boolean; readonly allow: ReadonlySet<string>; readonly policy: ModelPolicy },
): string | null {
  const variant = variantOf(model)
  if (variant === null || cheaper.has(variant) || (!on.capped && elsewhere.has(variant))) return null
  if (on.allow.has(`variant:${variant}`) || on.policy.namesVariant(model)) return null
  return `Anchorhold does not let the variant ":${variant}" of a model out of the cell${on.capped ? ' under a budget' : ''}: the owner can allow it with the rule "variant:${variant}", or by its full name in allowed_models`
}

export function modelPolicy(policy: Policy): ModelPolicy {
  const max = policy.max_context_tokens
  return {
    denied: deniedTools(policy),
    judgesSpending: policy.rules.some(({ on }) => on === 'spend'),
    refuseModel(model) {
      const against = policy.models.length === 0 ? null : modelRefusal(policy.models, model)
      return against === null ? null : `The policy does not let this session use the model "${model}": ${against}`
    },
    namesVariant: (model) =>
      policy.models.some(({ allowed }) => allowed.some((glob) => glob.endsWith(`:${variantOf(model)}`) && isModel(glob, model))),
    refuseContext:
      max === null
        ? null
        : (tokens) =>
            tokens <= max
              ? null
              : `The policy allows prompts of ${max} tokens (max_context_tokens), and this one may have ${tokens}: let the agent compact its conversation, or start another session`,
  }
}
