import { type Actor, may } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { nanosOfMicros } from '@anchorhold/protocol/money'
import type { ChangeSession } from '@anchorhold/protocol/api/sessions'
import type { Session } from '@anchorhold/protocol/sessions'
import { rm } from 'node:fs/promises'
import type { SessionRow } from '../store/store.ts'
import { reapHidden } from '../workspace/hidden-folder.ts'
import { removeTree } from '../workspace/trees.ts'
import { removeCgroups } from '../processes/cgroups.ts'
import { revokeGrants } from '../workspace/workspace.ts'
import { isMilder } from '@anchorhold/core/policy/effective'
import type { Autonomy } from '@anchorhold/protocol/policy'
import { keepWarm, warmUp } from './deliver.ts'
import { enforcePolicy } from './authority.ts'
import { effectiveFor, requireModel } from './policy.ts'
import { providerFor } from './providers.ts'
import { answerWithMoney } from './requests.ts'
import { tell, tellAll } from './tell.ts'
import { drop, queuedIn } from './drop.ts'
import { tellGate, tellKeeper } from './tell-processes.ts'
import { by, note, type Parts, record, require, sessionFor, shown } from './parts.ts'

const current = (parts: Parts, id: SessionId) => shown(sessionFor(parts, id, null))

/** Somebody is writing a prompt: cell and agent are started ahead of it, and leave when it does not come. */
export function warm(parts: Parts, actor: Actor, id: SessionId): Session {
  require(parts, actor, 'session.work', id)
  sessionFor(parts, id, 'warm')
  keepWarm(parts, id)
  return current(parts, id)
}

export async function interrupt(
  parts: Parts,
  actor: Actor,
  id: SessionId,
  { dropQueued }: { readonly dropQueued: boolean },
): Promise<Session> {
  require(parts, actor, 'session.work', id)
  sessionFor(parts, id, 'interrupt')
  if (dropQueued) await drop(parts, actor, id, queuedIn(parts, id))
  await tellKeeper(parts, id, { do: 'interrupt' })
  await parts.sources.settled(`keeper/${id}`)
  // What an earlier turn asked for, or what waits at the gate, is not wanted any more either.
  for (const { id: request } of parts.store.requests.list({ openOnly: true, session: id, seenBy: null })) {
    const answer = { decision: 'withdrawn' as const, reason: `Interrupted by ${actor.name}` }
    record(parts, id, { type: 'request.answered', body: { id: request, answer, ...by(actor) } })
  }
  return current(parts, id)
}

export async function pause(parts: Parts, actor: Actor, id: SessionId): Promise<Session> {
  require(parts, actor, 'session.work', id)
  const { state } = sessionFor(parts, id, 'pause')
  // The log first: a keeper that is just being started opens its windows by it.
  record(parts, id, { type: 'session.state', body: { from: state, to: 'paused', why: `Paused by ${actor.name}`, ...by(actor) } })
  if (parts.keepers.sessions.includes(id)) {
    await tellGate(parts, { do: 'pause', session: id })
    await tellKeeper(parts, id, { do: 'pause' }, () => sessionFor(parts, id, null).state === 'paused')
  }
  return current(parts, id)
}

export async function resume(parts: Parts, actor: Actor, id: SessionId): Promise<Session> {
  require(parts, actor, 'session.work', id)
  const session = sessionFor(parts, id, 'resume')
  requireTakeUp(parts, actor, session)
  const { state, standing } = session
  const to = standing.requests > 0 ? 'waiting' : standing.turn ? 'working' : 'ready'
  record(parts, id, { type: 'session.state', body: { from: state, to, why: null, ...by(actor) } })
  if (parts.keepers.sessions.includes(id)) {
    await tellKeeper(parts, id, { do: 'resume' }, () => sessionFor(parts, id, null).state !== 'paused')
    if (sessionFor(parts, id, null).state !== 'paused') await tellGate(parts, { do: 'resume', session: id })
  }
  if (parts.store.prompts.queued(id).length > 0) warmUp(parts, id)
  return current(parts, id)
}

/** What a person has stopped, a program does not start again by itself. */
function requireTakeUp(parts: Parts, actor: Actor, { id, state, stateBy }: SessionRow): void {
  if ((state === 'stopped' || state === 'paused') && (stateBy === null || stateBy !== actor.user))
    require(parts, actor, 'session.take_up', id)
}

/** The session is stopped in the log first, so that nothing starts it again while its keeper leaves. */
export async function stop(parts: Parts, actor: Actor, id: SessionId): Promise<Session> {
  require(parts, actor, 'session.work', id)
  const { state } = sessionFor(parts, id, 'stop')
  const why = `Stopped by ${actor.name}`
  record(parts, id, { type: 'session.state', body: { from: state, to: 'stopped', why, ...by(actor) } })
  await parts.keepers.end(id, why)
  return current(parts, id)
}

export function start(parts: Parts, actor: Actor, id: SessionId): Session {
  require(parts, actor, 'session.work', id)
  const session = sessionFor(parts, id, 'start')
  requireTakeUp(parts, actor, session)
  const { state } = session
  record(parts, id, { type: 'session.state', body: { from: state, to: 'ready', why: null, ...by(actor) } })
  if (parts.store.prompts.queued(id).length > 0) warmUp(parts, id)
  // What was answered while it was stopped.
  void tellAll(parts, id).catch((error: unknown) => parts.log(String(error)))
  return current(parts, id)
}

/** Ends the session for good: no cell, no access to host folders, no more prompts. The log and the workspace stay. */
export async function archive(parts: Parts, actor: Actor, id: SessionId): Promise<Session> {
  require(parts, actor, 'session.work', id)
  const session = sessionFor(parts, id, 'archive')
  const why = `Archived by ${actor.name}`
  record(parts, id, { type: 'session.state', body: { from: session.state, to: 'archived', why, ...by(actor) } })
  await parts.keepers.end(id, why)
  // Behind the keeper: what it had journalled by then is not dropped.
  for (const prompt of queuedIn(parts, id)) record(parts, id, { type: 'prompt.dropped', body: { id: prompt, why, ...by(actor) } })
  if (session.grants.length > 0 && session.runAs !== null) {
    // Forks may share folder and user: the last one that is not archived takes the entries along.
    const shared = parts.store.sessions
      .sharing(session)
      .some(({ state, runAs }) => state !== 'archived' && runAs?.uid === session.runAs?.uid)
    if (!shared) await revokeGrants(session.grants, session.runAs)
    parts.store.sessions.setGrants(id, [])
  }
  return current(parts, id)
}

/** Removes an archived session for good. A host folder that it worked in is left alone. */
export async function purge(parts: Parts, actor: Actor, id: SessionId, confirm: SessionId): Promise<void> {
  require(parts, actor, 'session.purge', id)
  const session = sessionFor(parts, id, 'purge')
  if (confirm !== id)
    throw new Failure('bad_request', `Cannot purge session "${id}": confirm names another`, { hint: 'Confirm with the same id' })
  const [sharing] = parts.store.sessions.sharing(session)
  if (sharing !== undefined && session.workspace === parts.folders.workspace(id)) {
    throw new Failure('conflict', `Cannot purge session "${id}": session "${sharing.id}" works in its folder`, {
      hint: 'Purge that one first',
    })
  }
  await removeTree(parts.folders.session(id))
  await rm(parts.folders.windows(id), { recursive: true, force: true })
  parts.store.atomically(() => {
    const hash = parts.store.chains.head(id)?.hash ?? null
    const { name, last_seq: seq } = session
    note(parts, { type: 'session.purged', body: { session: id, name, seq, hash, ...by(actor) } })
    parts.store.sessions.purge(id)
  })
  parts.watches.recheck()
  // A daemon that died before it had started a keeper may have left groups that no keeper took along.
  await removeCgroups(id)
  await reapHidden(parts.folders.hidden, parts.store.sessions.isWorkedIn)
}

export async function change(parts: Parts, actor: Actor, id: SessionId, input: ChangeSession): Promise<Session> {
  require(parts, actor, 'session.work', id)
  const session = sessionFor(parts, id, 'change')
  const { budgetNanos } = session
  const budget =
    input.budget_micros === undefined ? undefined : input.budget_micros === null ? null : nanosOfMicros(input.budget_micros)
  const grows = budget !== undefined && budgetNanos !== null && (budget === null || budget > budgetNanos)
  if (grows) require(parts, actor, 'session.widen', id)
  if (budget === null && effectiveFor(parts, session).money.requireMaxCost)
    throw new Failure('bad_request', `Cannot take the budget from session "${id}": the policy requires one`, {
      hint: 'Raise it instead; the owner sets this in policy.yaml: require_max_cost',
    })
  const { autonomy } = input
  if (input.model !== undefined) requireModel(effectiveFor(parts, session), providerFor(parts, session.provider), input.model)
  const given = autonomy === undefined ? null : requireAutonomy(parts, actor, session, autonomy)
  const { model } = input
  const had = parts.keepers.has(id)
  if (model !== undefined && had) await parts.keepers.do(id, { do: 'model', model })
  const paid = parts.store.atomically(() => {
    record(parts, id, {
      type: 'session.changed',
      body: {
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.model === undefined ? {} : { model: input.model }),
        ...(budget === undefined ? {} : { budget_nanos: budget }),
        ...(autonomy === undefined ? {} : { autonomy, autonomy_given: given === 'given' }),
        ...by(actor),
      },
    })
    return grows ? answerWithMoney(parts, actor, id) : []
  })
  if (autonomy !== undefined) {
    const message = `${actor.name} has set the autonomy to ${autonomy}: ${autonomyWords[autonomy]}`
    record(parts, id, { type: 'notice', body: { level: 'info', code: 'autonomy', message } })
    await enforcePolicy(parts, id)
  }
  await Promise.all(paid.map((request) => tell(parts, request)))
  const now = () => sessionFor(parts, id, null)
  if (budget !== undefined && parts.keepers.sessions.includes(id))
    await tellGate(parts, { do: 'budget', session: id, budget_nanos: now().budgetNanos })
  // One that was just being started may have been told of the old one.
  if (model !== undefined && !had) await tellKeeper(parts, id, { do: 'model', model }, () => now().model === model)
  return current(parts, id)
}

/** More of it is for those who may widen a session; then it holds whatever the policy gives to an agent. */
function requireAutonomy(parts: Parts, actor: Actor, session: SessionRow, autonomy: Autonomy): 'given' | 'narrowed' {
  const now = effectiveFor(parts, session).policy.autonomy
  if (isMilder(autonomy, now)) require(parts, actor, 'session.widen', session.id)
  else if (!may(actor, 'session.widen', parts.store.people.ties(session.id) ?? undefined)) return 'narrowed'
  return 'given'
}

const autonomyWords: Record<Autonomy, string> = {
  full: 'tools run without asking, within the policy',
  supervised: 'anything no rule covers is asked about',
  restricted: 'every tool is asked for',
  read_only: 'no tool runs',
}
