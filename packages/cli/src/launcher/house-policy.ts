import {
  effective,
  type EffectivePolicy,
  isWeaker,
  type PolicySettings,
  providerRefusal,
} from '@anchorhold/core/policy/effective'
import { filterFor } from '@anchorhold/core/policy/repo-filters'
import type { Config } from '@anchorhold/daemon/config'
import { readPolicy } from '@anchorhold/daemon/policy/read-policy'
import type { RequestAction } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { Nanos } from '@anchorhold/protocol/money'
import type { Policy } from '@anchorhold/protocol/policy'
import type { Provider } from '@anchorhold/protocol/providers'
import { type Rung, sharesHostNetwork, usualRung } from '@anchorhold/protocol/rungs'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const file = 'policy.yaml'
const wish = { autonomy: null, observe: false, mayWiden: true } as const

/** What a launched cell reaches. */
export type LaunchNetwork = 'none' | 'proxy' | 'host'

type HousePolicy = {
  readonly rung: Rung
  /** What it really reaches: without a wall that is the network of the host. */
  readonly network: LaunchNetwork
  /** What is decided by, together with these. */
  readonly policyWith: (more: PolicySettings) => Policy
  /** The filter of a host folder that is asked for, or the stricter one that the policy requires. */
  readonly repoFilter: RepoFilter
  /** What an agent may spend at this provider, where so much is asked for; null for any amount. Throws where it may not be used, or
   *  not without a limit. */
  readonly budgetAt: (provider: Pick<Provider, 'name' | 'kind'>, asked: Nanos | null) => Nanos | null
  /** Whether this is the one before, because the file is empty or gone. */
  readonly isKept: boolean
}

/** The policy that the owner wrote. Invariant: it holds without a daemon as well, also where it is emptied or gone: a daemon then goes by
 *  the one that it keeps in `memory`. */
export function housePolicy(
  { config: folder, repoFilter, rung: usual }: Pick<Config, 'config' | 'repoFilter' | 'rung'>,
  memory: string,
  /** Null where the command line says nothing. */
  wanted: {
    readonly rung: Rung | null
    readonly network: LaunchNetwork | null
    readonly repoFilter: RepoFilter | null
  },
): HousePolicy {
  const rung = rungOf(wanted.rung, usual)
  const network = networkOf(rung, wanted.network)
  const reached = { rung, network }
  const path = join(folder, file)
  const without = (more: PolicySettings) => effective([more], wish).policy
  const text = textOf(path)
  const kept = isEmpty(text) ? textOf(join(memory, file)) : null
  const isKept = !isEmpty(kept)
  const inForce = isKept ? kept : text
  if (inForce === null)
    return { ...reached, policyWith: without, repoFilter: wanted.repoFilter ?? repoFilter, budgetAt: (_, asked) => asked, isKept }
  const { settings, problems } = readPolicy(file, inForce)
  if (settings === null)
    throw new Failure('forbidden', `"${path}" cannot be used: line ${problems[0]?.line ?? 1}: ${problems[0]?.message ?? ''}`, {
      hint: 'Fix it: anchorhold policy check',
    })
  if (settings.disabledAt !== null)
    throw new Failure('forbidden', `"${path}", line ${settings.disabledAt}, has access: disabled`, {
      hint: 'The owner opens it again there',
    })
  const held = effective([settings], wish)
  if (held.rung !== null && isWeaker(rung, held.rung))
    throw new Failure('forbidden', `A cell of rung "${rung}" is weaker than the policy requires`, {
      hint: `Ask for it: --rung ${held.rung}`,
    })
  if ((held.network === 'none' && network !== 'none') || (held.network === 'proxy_only' && network === 'host'))
    throw new Failure('forbidden', `The policy gives a cell no network beyond "${held.network}"`, {
      hint:
        rung === 'none'
          ? "Choose a rung that is a wall: without one, a command is on the host's network. The owner sets this in policy.yaml: network_mode"
          : 'The owner sets this in policy.yaml: network_mode',
    })
  return {
    ...reached,
    policyWith: (more) => effective([settings, more], wish).policy,
    repoFilter: filterFor(repoFilter, wanted.repoFilter ?? undefined, held) ?? wanted.repoFilter ?? repoFilter,
    budgetAt: (provider, asked) => budgetAt(held, provider, asked),
    isKept,
  }
}

/** Invariant: a cell without a wall is asked for by name each time. A configuration says it once, and is then forgotten. */
function rungOf(asked: Rung | null, usual: Rung): Rung {
  if (asked === null && usual === 'none')
    throw new Failure('forbidden', 'Cannot start without a wall: config.yaml says "rung: none", and the command line does not', {
      hint: `Say it here too: --rung none; or choose a wall: --rung ${usualRung(process.platform)}`,
    })
  return asked ?? usual
}

const withoutLoopback: readonly Rung[] = ['none', 'seatbelt']

/** Refuses what cannot be held, rather than to say one thing and do another. */
function networkOf(rung: Rung, asked: LaunchNetwork | null): LaunchNetwork {
  if (asked === 'host' && !sharesHostNetwork(rung))
    throw new Failure('cell_unavailable', `A cell of rung "${rung}" cannot share the host's network`, {
      hint: 'Leave --net host out',
    })
  if (asked === 'proxy' && withoutLoopback.includes(rung))
    throw new Failure('cell_unavailable', `A cell of rung "${rung}" has no net window`, { hint: 'Leave --net proxy out' })
  if (asked === 'none' && rung === 'none')
    throw new Failure('cell_unavailable', "Without a wall, a command cannot be kept off the host's network", {
      hint: 'Choose a rung that is a wall, or leave out what denies the network: --net deny, and ALLOW_NETWORK in sandbox.conf',
    })
  return asked ?? (rung === 'none' ? 'host' : 'none')
}

const textOf = (path: string): string | null => (existsSync(path) ? readFileSync(path, 'utf8') : null)
const isEmpty = (text: string | null): boolean => (text ?? '').trim() === ''

function budgetAt({ providers, money }: EffectivePolicy, provider: Pick<Provider, 'name' | 'kind'>, asked: Nanos | null) {
  const against = providerRefusal({ providers }, provider)
  if (against !== null)
    throw new Failure('forbidden', `Cannot use the provider "${provider.name}": ${against}`, {
      hint: 'Choose another with --provider; the owner sets this in policy.yaml: allowed_providers',
    })
  if (money.requireMaxCost && asked === null)
    throw new Failure('bad_request', 'Cannot start without a budget: the policy requires one', { hint: 'Give one: --budget 5' })
  return asked ?? money.defaultMaxCostNanos
}

/** What was refused, and the rule that would allow it. */
export function blockedWords(action: RequestAction, folder: string): string {
  const where = join(folder, file)
  if (action.kind !== 'net') return `blocked: ${action.kind}; a rule in ${where} would allow it`
  const { host, port } = action
  return `blocked: ${host}:${port}; a rule in ${where} would allow it: { on: net, match: { host: ${host}, port: ${port} }, effect: allow }`
}
