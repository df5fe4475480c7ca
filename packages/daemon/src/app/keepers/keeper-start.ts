import { takesUp } from '@anchorhold/core/session-states'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import { OpenWindows, type Rates } from '@anchorhold/protocol/gate-commands'
import { nanosOfMicros } from '@anchorhold/protocol/money'
import { slownessOf } from '@anchorhold/protocol/rungs'
import { isDeepStrictEqual } from 'node:util'
import { hiddenFolder } from '../../workspace/hidden-folder.ts'
import { keeperPlace } from '../../processes/keeper-place.ts'
import { agentOf, type Runtime } from '../../processes/runtime.ts'
import type { SessionRow } from '../../store/store.ts'
import { authorityFor } from '../policy/authority.ts'
import { cacheOf } from '../workspace/caches.ts'
import { boundCredentials, modelHosts, placeholders } from '../secrets/credentials.ts'
import { requireRung, usualFilter } from '../sessions/create-session.ts'
import { type Network, noExtras } from '@anchorhold/protocol/sessions'
import { rootFor } from './images.ts'
import { insideVariables } from '../secrets/inside-secrets.ts'
import { ledgerOf } from '../money/ledger.ts'
import { networkNow } from '../policy/network.ts'
import { requireCalm } from '../house/panic.ts'
import { type Holds, isEnded, type Judges, type Opens, type Parts, type Reads, sessionFor } from '../parts.ts'
import { effectiveFor, requireStanding } from '../policy/policy.ts'
import { forgesFor } from '../workspace/repos.ts'
import { forGate, providerFor } from '../money/providers.ts'

/** Opens the session's windows, and says what its keeper is to be started with. */
export async function keeperStart(
  parts: Holds & Pick<Parts, 'doctor'>,
  runtime: Runtime,
  gitIdentity: Promise<KeeperStart['policy']['git_identity']>,
  id: SessionId,
): Promise<{ readonly start: KeeperStart; readonly runAs: SessionRow['runAs'] }> {
  const session = sessionFor(parts, id, null)
  if (isEnded(parts, id)) throw new Failure('wrong_state', `Cannot start a keeper for session "${id}": it is ${session.state}`)
  requireCalm(parts, session.ownerId)
  // Engine and policy may be others than when the session was made.
  const required = effectiveFor(parts, session).rung
  if (required !== null && required !== 'none') await requireRung(parts, session.rung, required)
  // The windows' folder stands before the gate is told of it.
  const place = placeFor(parts, runtime, session)
  const { authority: sessionCa } = await openWindows(parts, id, { forCell: true })
  return {
    runAs: session.runAs,
    start: {
      place,
      agent: agentFor(parts, runtime, session),
      policy: await policyFor(parts, runtime, session, { sessionCa, gitIdentity: await gitIdentity }),
    },
  }
}

function placeFor(
  { folders, config }: Pick<Parts, 'config' | 'folders'>,
  runtime: Runtime,
  session: SessionRow,
): KeeperStart['place'] {
  const { id, runAs, rung, workspace, options } = session
  const root = rootFor({ folders, config }, rung, options.image)
  const wanted = { session: id, runAs, workspace, rung, root, extras: options.extras ?? noExtras }
  return keeperPlace({ folders, runtime, limits: config.limits }, wanted)
}

function agentFor({ store, config }: Reads & Pick<Parts, 'config'>, runtime: Runtime, session: SessionRow): KeeperStart['agent'] {
  const { id, options } = session
  return {
    ...agentOf(runtime),
    model: session.model,
    // A forwarder would stand on the loopback of everybody's.
    model_route: session.network === 'host' ? 'socket' : config.modelRoute,
    conversation: session.conversation,
    resume: session.conversing,
    turns: session.turns,
    // A fork that has gone on by itself has its own past.
    forget_after: session.turns === 0 ? [...session.forgetAfter] : [],
    unfinished: store.prompts.unfinished(id).map(({ id: prompt, text, images }) => ({ id: prompt, text, images: [...images] })),
    take_up: takesUp(session.standing),
    checked_out: session.checkedOut,
    tools: options.tools ?? null,
    system_prompt: options.system_prompt ?? null,
    // A plan that was approved is not asked for again.
    plan: (options.plan ?? false) && !store.requests.hasApprovedPlan(id),
    workspace_settings: options.workspace_settings ?? 'ignore',
  }
}

type PolicyPart = KeeperStart['policy']

async function policyFor(
  parts: Holds,
  runtime: Runtime,
  session: SessionRow,
  { sessionCa, gitIdentity }: { readonly sessionCa: string | null; readonly gitIdentity: PolicyPart['git_identity'] },
): Promise<PolicyPart> {
  const { folders, config } = parts
  const { id, options } = session
  return {
    authority: authorityFor(parts, id, 'keeper'),
    require_limits: [...config.requireLimits],
    timeout_ms: options.timeout_ms ?? null,
    idle_ms: config.idleMs,
    unused_ms: Math.min(config.idleMs, config.warmMs),
    snapshot: options.workspace_access === 'snapshot',
    repo_filter: options.repo_filter ?? usualFilter(config, options),
    hidden: hiddenFolder(folders, session),
    caches: cacheOf(parts, session),
    toolchains: options.toolchains ?? [],
    owner_home: config.home,
    git_identity: gitIdentity,
    network: requireNetwork(parts, session),
    net_ca: sessionCa === null ? null : `${config.netCa ?? ''}\n${sessionCa}`,
    forges: Object.keys(config.forges),
    env: {
      ...(session.network === 'proxy_only' ? placeholders(parts, userOf(parts, session)) : {}),
      ...(await insideVariables(parts, options)),
    },
    // As root the gate is another user than the keeper, so the keeper cannot start it.
    gate: config.root ? null : { node: runtime.node, script: runtime.gate, folder: folders.gate, log: folders.gateLog },
  }
}

/** How many calls and tokens the session's owner may have in a minute, over all their sessions. */
function ratesFor(parts: Judges, session: SessionRow): { readonly rates?: Rates } {
  const { requestsPerMinute, tokensPerMinute } = effectiveFor(parts, session).rates
  if (requestsPerMinute === null && tokensPerMinute === null) return {}
  const actor = userOf(parts, session) ?? session.ownerId
  return { rates: { actor, requests_per_minute: requestsPerMinute, tokens_per_minute: tokensPerMinute } }
}

const userOf = ({ store }: Reads, { ownerId }: SessionRow): string | null => store.people.get(ownerId)?.name ?? null

/** A session that was made when the policy let it have more of the network than it can be kept from now does not go on. */
function requireNetwork(parts: Judges, session: SessionRow): Network {
  const { id, network } = session
  const held = effectiveFor(parts, session)
  const now = networkNow(session, held)
  if (now !== null) return now
  throw new Failure(
    'forbidden',
    `Session "${id}" cannot go on: it has network ${network}, and the policy says "${held.network}"`,
    {
      hint: 'Fork it into a cell, or let the owner change policy.yaml: network_mode',
    },
  )
}

/** Tells the gate what the session's windows may do. For a cell that is about to be made, it says whom that has to trust. */
export async function openWindows(parts: Opens, id: SessionId, { forCell = false } = {}): Promise<OpenWindows> {
  await parts.gate.ensure()
  // What was spent and up to which record must be read together: only then can the gate add what the log has not got yet.
  const session = sessionFor(parts, id, null)
  const { state, spend, budgetNanos, costNanos, options } = session
  const provider = providerFor(parts, session.provider)
  requireStanding(parts, session, provider)
  const authority = authorityFor(parts, id, 'gate')
  const opened = await parts.gate.do({
    do: 'open',
    dialect: 'messages',
    session: id,
    folder: parts.folders.windows(id),
    provider: forGate(provider),
    budget_nanos: budgetNanos,
    spent_nanos: costNanos,
    spent_to: parts.store.events.lastOf('gate'),
    closed: session.leaseClosed,
    paused: state === 'paused',
    spend,
    rules: { allow: [...parts.config.modelAllow], ...ratesFor(parts, session) },
    network: requireNetwork(parts, session),
    net: {
      ca: parts.config.netCa,
      mirrors: { ...parts.config.mirrors },
      forges: Object.fromEntries(forgesFor(parts.config, options)),
      credentials: session.network === 'proxy_only' ? boundCredentials(parts, userOf(parts, session)) : [],
      model_hosts: modelHosts(parts.store.providers),
      // As the cell before this one was; the one that is about to stand says it anew.
      slowness: slownessOf(session.limits),
    },
    ledger: ledgerOf(parts, session),
    agent_cap_nanos: options.agent_budget_micros === undefined ? null : nanosOfMicros(options.agent_budget_micros),
    authority,
    certificate: forCell,
  })
  // What was answered or changed in between went to a gate that may not have served the session yet.
  const now = sessionFor(parts, id, null)
  const changed = now.budgetNanos !== budgetNanos || (now.state === 'paused') !== (state === 'paused')
  if (changed || !isDeepStrictEqual(authority, authorityFor(parts, id, 'gate'))) return openWindows(parts, id, { forCell })
  // A gate of the release before this one says nothing.
  return OpenWindows.safeParse(opened).data ?? { authority: null }
}
