import { type Actor, may } from '@anchorhold/core/actors'
import { unpaused } from '@anchorhold/core/session-states'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { nanosOfMicros } from '@anchorhold/protocol/money'
import type { ChangeSession } from '@anchorhold/protocol/api/sessions'
import type { Session } from '@anchorhold/protocol/sessions'
import type { SessionRow } from '../../store/store.ts'
import { isMilder } from '@anchorhold/core/policy/effective'
import type { Autonomy } from '@anchorhold/protocol/policy'
import { deliverRest, isLeaving, startAhead, showFailure, deliverSoon } from '../prompts/deliver.ts'
import { enforcePolicy } from '../policy/authority.ts'
import { effectiveFor, requireModel, requireRoomFor } from '../policy/policy.ts'
import { requireCalm } from '../house/panic.ts'
import { providerFor } from '../money/providers.ts'
import { answerWithMoney } from '../requests/requests.ts'
import { tellAsker, tellAskers } from '../requests/tell.ts'
import { drop, queuedIn } from '../prompts/drop.ts'
import { tellGate, tellKeeper } from '../keepers/tell-processes.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Delivers, isEnded, type Judges, type Parts, type Reads, require, sessionFor, shown } from '../parts.ts'

const current = (parts: Reads, id: SessionId) => shown(sessionFor(parts, id, null))

/** Somebody is writing a prompt: cell and agent are started ahead of it, and leave when it does not come. */
export function warm(parts: Reads & Pick<Parts, 'keepers' | 'log'>, actor: Actor, id: SessionId): Session {
  require(parts, actor, 'session.work', id)
  requireCalm(parts, sessionFor(parts, id, 'warm').ownerId)
  startAhead(parts, id)
  return current(parts, id)
}

export async function interrupt(
  parts: Writes & Pick<Parts, 'keepers' | 'sources'>,
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
  transaction(parts, (tx) => {
    const answer = { decision: 'withdrawn' as const, reason: `Interrupted by ${actor.name}` }
    for (const { id: request } of tx.store.requests.list({ openOnly: true, session: id, seenBy: null }))
      tx.record(id, { type: 'request.answered', body: { id: request, answer, ...by(actor) } })
  })
  return current(parts, id)
}

export async function pause(parts: Writes & Pick<Parts, 'gate' | 'keepers'>, actor: Actor, id: SessionId): Promise<Session> {
  // The log first: a keeper that is just being started opens its windows by it.
  transaction(parts, (tx) => {
    require(tx, actor, 'session.work', id)
    const { state } = sessionFor(tx, id, 'pause')
    tx.record(id, { type: 'session.state', body: { from: state, to: 'paused', why: `Paused by ${actor.name}`, ...by(actor) } })
  })
  if (parts.keepers.sessions.includes(id)) {
    await tellGate(parts, { do: 'pause', session: id })
    await tellKeeper(parts, id, { do: 'pause' }, () => sessionFor(parts, id, null).state === 'paused')
  }
  return current(parts, id)
}

export async function resume(parts: Delivers & Pick<Parts, 'gate'>, actor: Actor, id: SessionId): Promise<Session> {
  require(parts, actor, 'session.work', id)
  sessionFor(parts, id, 'resume')
  // What a keeper that is gone has left may not be read yet: it tells how far its turn came.
  const unread = parts.keepers.sessions.includes(id) ? null : await parts.keepers.stands(id).then(() => null, asIs)
  transaction(parts, (tx) => {
    require(tx, actor, 'session.work', id)
    const session = sessionFor(tx, id, 'resume')
    requireTakeUp(tx, actor, session)
    requireCalm(tx, session.ownerId)
    const { standing } = session
    const to = unpaused(standing)
    const why = to === 'interrupted' ? 'A crash cut it short while it was paused' : null
    tx.record(id, { type: 'session.state', body: { from: 'paused', to, why, ...by(actor) } })
    // With something to go on with, it goes on.
    if (unread !== null || to !== 'interrupted' || tx.store.prompts.queued(id).length === 0) return
    const on = standing.requests > 0 ? 'waiting' : 'ready'
    tx.record(id, { type: 'session.state', body: { from: to, to: on, why: null, ...by(actor) } })
  })
  if (unread !== null) {
    showFailure(parts, id, unread)
    return current(parts, id)
  }
  if (parts.keepers.sessions.includes(id)) {
    await tellKeeper(parts, id, { do: 'resume' }, () => sessionFor(parts, id, null).state !== 'paused')
    if (sessionFor(parts, id, null).state !== 'paused') await tellGate(parts, { do: 'resume', session: id })
  }
  deliverRest(parts, id)
  return current(parts, id)
}

const asIs = (error: unknown) => error

/** What a person has stopped, a program does not start again by itself, nor goes on with in a copy. */
export function requireTakeUp(parts: Reads, actor: Actor, { id, state, stateBy }: SessionRow): void {
  const isHeld = state === 'stopped' || state === 'paused' || state === 'archived'
  if (isHeld && (stateBy === null || stateBy !== actor.user)) require(parts, actor, 'session.take_up', id)
}

/** The session is stopped in the log first, so that nothing starts it again while its keeper leaves. */
export async function stop(parts: Writes & Pick<Parts, 'keepers'>, actor: Actor, id: SessionId): Promise<Session> {
  const mayStop = (of: Reads): SessionRow => {
    require(of, actor, 'session.work', id)
    const session = sessionFor(of, id, 'stop')
    // Who has stopped it can start it again: what a person has paused is no program's to stop.
    if (session.state === 'paused') requireTakeUp(of, actor, session)
    return session
  }
  // Who may not, or where there is nothing to stop, ends no keeper below.
  mayStop(parts)
  const why = `Stopped by ${actor.name}`
  let still = () => true
  try {
    transaction(parts, (tx) =>
      tx.record(id, { type: 'session.state', body: { from: mayStop(tx).state, to: 'stopped', why, ...by(actor) } }),
    )
    // Somebody may start it again before its keeper stands.
    still = () => isEnded(parts, id)
  } finally {
    // Also where that cannot be written down: who stops an agent wants it to end.
    await parts.keepers.end(id, why, { still })
  }
  // Where something of its cell goes on, that is said, and not that it has stopped.
  await parts.keepers.stands(id)
  return current(parts, id)
}

export function start(parts: Delivers & Judges & Pick<Parts, 'gate' | 'random'>, actor: Actor, id: SessionId): Session {
  transaction(parts, (tx) => {
    require(tx, actor, 'session.work', id)
    const session = sessionFor(tx, id, 'start')
    requireTakeUp(tx, actor, session)
    requireCalm(tx, session.ownerId)
    requireRoomFor(tx, actor, session)
    tx.record(id, { type: 'session.state', body: { from: session.state, to: 'ready', why: null, ...by(actor) } })
  })
  if (parts.store.prompts.queued(id).length > 0) deliverSoon(parts, id)
  // What was answered while it was stopped.
  void tellAskers(parts, id).catch((error: unknown) => parts.log(String(error)))
  return current(parts, id)
}

export async function change(
  parts: Delivers & Judges & Pick<Parts, 'gate' | 'random'>,
  actor: Actor,
  id: SessionId,
  input: ChangeSession,
): Promise<Session> {
  const budget =
    input.budget_micros === undefined ? undefined : input.budget_micros === null ? null : nanosOfMicros(input.budget_micros)
  const { autonomy, model } = input
  /** Whether they may, and what that comes to, as the session is now. */
  const mayChange = (of: Judges) => {
    require(of, actor, 'session.work', id)
    const session = sessionFor(of, id, 'change')
    const { budgetNanos, leaseClosed } = session
    const grows = budget !== undefined && budgetNanos !== null && (budget === null || budget > budgetNanos)
    // A call that cost more than it could has closed it, and a new budget opens it again.
    if (grows || (budget !== undefined && leaseClosed)) require(of, actor, 'session.widen', id)
    if (budget === null && effectiveFor(of, session).money.requireMaxCost)
      throw new Failure('bad_request', `Cannot take the budget from session "${id}": the policy requires one`, {
        hint: 'Raise it instead; the owner sets this in policy.yaml: require_max_cost',
      })
    if (model !== undefined) requireModel(effectiveFor(of, session), providerFor(of, session.provider), model)
    const given = autonomy === undefined ? null : requireAutonomy(of, actor, session, autonomy)
    return { grows, given }
  }
  mayChange(parts)
  const had = parts.keepers.has(id)
  if (model !== undefined && had)
    await parts.keepers.do(id, { do: 'model', model }).catch((error: unknown) => {
      // The next one starts with it.
      if (!isLeaving(error)) throw error
    })
  const paid = transaction(parts, (tx) => {
    // Somebody else may have changed it meanwhile.
    const { grows, given } = mayChange(tx)
    tx.record(id, {
      type: 'session.changed',
      body: {
        ...(input.name === undefined ? {} : { name: input.name }),
        ...(input.model === undefined ? {} : { model: input.model }),
        ...(budget === undefined ? {} : { budget_nanos: budget }),
        ...(autonomy === undefined ? {} : { autonomy, autonomy_given: given === 'given' }),
        ...by(actor),
      },
    })
    const answered = grows ? answerWithMoney(tx, actor, id) : []
    if (autonomy !== undefined) {
      const message = `${actor.name} has set the autonomy to ${autonomy}: ${autonomyWords[autonomy]}`
      tx.record(id, { type: 'notice', body: { level: 'info', code: 'autonomy', message } })
    }
    return answered
  })
  if (autonomy !== undefined) await enforcePolicy(parts, id)
  await Promise.all(paid.map((request) => tellAsker(parts, request)))
  const now = () => sessionFor(parts, id, null)
  if (budget !== undefined && parts.keepers.sessions.includes(id))
    await tellGate(parts, { do: 'budget', session: id, budget_nanos: now().budgetNanos })
  // One that was just being started may have been told of the old one.
  if (model !== undefined && !had) await tellKeeper(parts, id, { do: 'model', model }, () => now().model === model)
  return current(parts, id)
}

/** More of it is for those who may widen a session; then it holds whatever the policy gives to an agent. */
function requireAutonomy(parts: Judges, actor: Actor, session: SessionRow, autonomy: Autonomy): 'given' | 'narrowed' {
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
