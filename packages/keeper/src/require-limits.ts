import { Failure } from '@anchorhold/protocol/failures'
import type { LimitInForce, LimitName } from '@anchorhold/protocol/rungs'

/** Throws unless each of these is really in force. */
export function requireLimits(limits: readonly LimitInForce[], required: readonly LimitName[]): void {
  const lacking = limits.filter(({ name, enforcement }) => enforcement === 'not enforced' && required.includes(name))
  if (lacking.length === 0) return
  const words = lacking.map(({ name, how }) => `${name} (${how})`).join(', ')
  throw new Failure('cell_unavailable', `Limits that the policy requires are not enforced here: ${words}`, {
    hint: 'Choose another rung (anchorhold doctor shows what each can limit), or take them out of require_limits',
  })
}
