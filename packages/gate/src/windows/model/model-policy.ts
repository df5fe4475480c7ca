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
  /** Why a prompt of so many tokens is too long; null where it is not. */
  refuseContext: ((tokens: number) => string | null) | null
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
    refuseContext:
      max === null
        ? null
        : (tokens) =>
            tokens <= max
              ? null
              : `The policy allows prompts of ${max} tokens (max_context_tokens), and this one may have ${tokens}: let the agent compact its conversation, or start another session`,
  }
}
