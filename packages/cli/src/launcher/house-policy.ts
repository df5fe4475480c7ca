import { defaultPolicy } from '@anchorhold/core/policy/default-policy'
import { effective, isWeaker } from '@anchorhold/core/policy/effective'
import { readPolicy } from '@anchorhold/daemon/policy/read-policy'
import type { RequestAction } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { Policy } from '@anchorhold/protocol/policy'
import type { Rung } from '@anchorhold/protocol/rungs'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const file = 'policy.yaml'

/** The rules that the owner wrote hold without a daemon as well. */
export function housePolicy(folder: string, rung: Rung, network: 'none' | 'proxy' | 'host'): Policy {
  const path = join(folder, file)
  if (!existsSync(path)) return defaultPolicy
  const { settings, problems } = readPolicy(file, readFileSync(path, 'utf8'))
  if (settings === null)
    throw new Failure('forbidden', `"${path}" cannot be used: line ${problems[0]?.line ?? 1}: ${problems[0]?.message ?? ''}`, {
      hint: 'Mend it: anchorhold policy check',
    })
  const held = effective([settings], { autonomy: null, observe: false, mayWiden: true })
  if (held.rung !== null && isWeaker(rung, held.rung))
    throw new Failure('forbidden', `A cell of rung "${rung}" is weaker than the policy requires`, {
      hint: `Ask for it: --rung ${held.rung}`,
    })
  if ((held.network === 'none' && network !== 'none') || (held.network === 'proxy_only' && network === 'host'))
    throw new Failure('forbidden', `The policy gives a cell no network beyond "${held.network}"`, {
      hint: 'The owner sets this in policy.yaml: network_mode',
    })
  return held.policy
}

/** What was refused, and the rule that would allow it. */
export function blockedWords(action: RequestAction, folder: string): string {
  const where = join(folder, file)
  if (action.kind !== 'net') return `blocked: ${action.kind}; a rule in ${where} would allow it`
  const { host, port } = action
  return `blocked: ${host}:${port}; a rule in ${where} would allow it: { on: net, match: { host: ${host}, port: ${port} }, effect: allow }`
}
