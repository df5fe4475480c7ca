import { type Actor, may, seenBy } from '@anchorhold/core/actors'
import { settledWords } from '@anchorhold/core/request-told'
import type { AnswerRequest } from '@anchorhold/protocol/api/requests'
import type { Request } from '@anchorhold/protocol/requests'
import type { NewEvent, RequestAnswer } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { Price } from '@anchorhold/protocol/gate-commands'
import type { RequestRow, SessionRow } from '../../store/store.ts'
import { approved, raiseEvents, requireRaise } from '../money/ledger.ts'
import { transaction, type Tx, type Writes } from '../../transaction.ts'
import { by, type Delivers, type Judges, type Parts, type Reads, require, sessionFor } from '../parts.ts'
import { effectivePolicy } from '../policy/policy.ts'
import { dangerOf } from './danger.ts'
import { requireProof } from '../people/step-up.ts'
import { park, tellAsker } from './tell.ts'

export function listRequests(
  parts: Reads,
  actor: Actor,
  filter: { readonly openOnly: boolean; readonly session: SessionId | null },
): readonly Request[] {
  if (filter.session === null) require(parts, actor, 'house.read')
  else require(parts, actor, 'session.read', filter.session)
  return parts.store.requests.list({ ...filter, seenBy: seenBy(actor) }).map(shown)
}

export function getRequest(parts: Reads, actor: Actor, id: RequestId): Request {
  require(parts, actor, 'house.read')
  const request = parts.store.requests.get(id)
  const ties = request === null ? null : parts.store.people.ties(request.session)
  if (request === null || ties === null || !may(actor, 'session.read', ties))
    throw new Failure('not_found', `There is no request "${id}"`)
  return shown(request)
}

const shown = ({ pins: _p, raises: _r, told: _t, used: _u, ...request }: RequestRow): Request => request

/** The daemon decides which answer came first, so that exactly one wins. It is in the log before whoever asked hears of it, and
 *  they hear of it whatever becomes of them or of this daemon. */
export async function answerRequest(
  parts: Delivers & Judges & Pick<Parts, 'gate' | 'random'>,
  actor: Actor,
  id: RequestId,
  input: AnswerRequest,
): Promise<Request> {
  const request = getRequest(parts, actor, id)
  require(parts, actor, 'session.answer', request.session)
  if (input.decision === 'later') {
    settleOnce(parts, id, (tx, session) => {
      require(tx, actor, 'session.answer', session.id)
      return [{ type: 'request.deferred', body: { id, ...by(actor) } }]
    })
    await park(parts, request.session, `${actor.name} will answer later`)
    return getRequest(parts, actor, id)
  }
  const answer: RequestAnswer = input.decision === 'deny' ? input : allowance(parts, actor, request, input)
  const danger = answer.decision === 'allow' ? dangerOf(parts, request, answer.scope) : null
  if (danger !== null) requireProof(parts, actor, danger)
  const price = answer.decision === 'allow' ? await priceOf(parts, id) : null
  if (price !== null) requireRaise(parts, actor, request.session, price.raises)
  settleOnce(
    parts,
    id,
    (tx, session) => {
      // Whoever may no longer answer, or not this, is refused by what holds now.
      require(tx, actor, 'session.answer', session.id)
      if (price !== null) requireRaise(tx, actor, session.id, price.raises)
      return [
        ...(price === null ? [] : raised(actor, session, price)),
        { type: 'request.answered', body: { id, answer, ...by(actor) } },
      ]
    },
    // Last: a rule that is written stays, and what is recorded is taken back when it cannot be.
    () => (answer.scope === 'rule' ? parts.policies.addRule(request.rule!, by(actor)) : () => {}),
  )
  await tellAsker(parts, id, price?.raises)
  return getRequest(parts, actor, id)
}

/** One transaction: the request is open and can be answered, or nothing happens and whoever comes too late hears who was first. `last` is
 *  done at its end, and what that returns after its commit. */
function settleOnce(
  parts: Writes & Judges,
  id: RequestId,
  events: (tx: Judges, session: SessionRow) => readonly NewEvent[],
  last: () => () => void = () => () => {},
): void {
  const committed = transaction(parts, (tx) => {
    const request = tx.store.requests.get(id)
    if (request === null) throw new Failure('not_found', `There is no request "${id}"`)
    if (request.answer !== null) throw settledAlready(request)
    if (expire(tx, request)) return null
    tx.record(request.session, ...events(tx, sessionFor(tx, request.session, 'answer')))
    return last()
  })
  if (committed === null) throw settledAlready(parts.store.requests.get(id)!)
  committed()
}

/** Closes a request whose time is over; false when it is not. */
export function expire(tx: Tx & Pick<Parts, 'now'>, { id, session, answer, expires_at }: RequestRow): boolean {
  if (answer !== null || expires_at === null || expires_at > tx.now()) return false
  tx.record(session, {
    type: 'request.answered',
    body: { id, answer: { decision: 'expired' }, actor: 'daemon', door: 'none' },
  })
  return true
}

function settledAlready({ id, answer, answered_by, answered_at, answered_from }: RequestRow): Failure {
  const when = answered_at === null ? '' : ` at ${new Date(answered_at).toISOString()}`
  const isAnswered = answer?.decision === 'allow' || answer?.decision === 'deny'
  const from = isAnswered ? ` (door: ${answered_from ?? 'unknown'})` : ''
  const how = answer === null ? 'settled' : settledWords(answer, answered_by ?? 'somebody')
  return new Failure('conflict', `Request "${id}" is already settled${when}${from}: ${how}`)
}

/** How far an allowance reaches, and for how long. */
function allowance(
  parts: Judges & Pick<Parts, 'now'>,
  actor: Actor,
  { id, session, action, rule, rule_refused }: Request,
  { scope = 'once', answers }: Extract<AnswerRequest, { decision: 'allow' }>,
): RequestAnswer {
  const isAction = action.kind !== 'question' && action.kind !== 'plan'
  if (!isAction && scope !== 'once')
    throw new Failure('bad_request', `Cannot allow request "${id}" for more than once: it is a ${action.kind}`)
  if (scope === 'rule') {
    require(parts, actor, 'policy.write')
    if (rule === null)
      throw new Failure('bad_request', `Cannot make a rule of request "${id}": ${rule_refused ?? 'none would settle it'}`, {
        hint: 'Allow it once or for this session',
      })
  }
  const expires = isAction && scope !== 'session' ? { expires_at: parts.now() + effectivePolicy(parts, session).grant_ms } : {}
  return { decision: 'allow', scope, ...expires, ...(answers === undefined ? {} : { answers }) }
}

/** What must be raised for a model call that the budget does not hold, also when the call itself is gone. Null for everything
 *  else. */
async function priceOf(parts: Judges & Pick<Parts, 'gate'>, id: RequestId): Promise<Price | null> {
  const { session, action, raises } = parts.store.requests.get(id)!
  if (action.kind !== 'spend' || action.short !== true) return null
  try {
    // The gate knows what other calls have set aside.
    const price = Price.parse(await parts.gate.do({ do: 'price', session, request: id }))
    return { ...price, raises: [...approved(parts, session, price.raises)] }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    const { budgetNanos, costNanos } = sessionFor(parts, session, null)
    return {
      budget_nanos: budgetNanos === null ? null : costNanos + action.needed_nanos,
      raises: [...approved(parts, session, raises)],
    }
  }
}

/** Whoever allows a call raises what does not hold it by just what it needs. */
function raised(actor: Actor, { budgetNanos, simulated }: SessionRow, { budget_nanos, raises }: Price): NewEvent[] {
  const own = budgetNanos !== null && budget_nanos !== null && budget_nanos > budgetNanos
  return [
    ...(own ? [{ type: 'session.changed' as const, body: { budget_nanos, ...by(actor) } }] : []),
    ...raiseEvents(raises, simulated, actor),
  ]
}

/** Whoever gives a session more money answers what it asked for want of it, as far as that goes; in the transaction that gives it.
 *  What a rule asks about is not answered by money, and neither is what they could not allow by a tap. */
export function answerWithMoney(tx: Tx & Judges & Pick<Parts, 'now'>, actor: Actor, id: SessionId): readonly RequestId[] {
  if (!may(actor, 'session.answer', tx.store.people.ties(id) ?? undefined)) return []
  const { budgetNanos, costNanos } = sessionFor(tx, id, null)
  let left = budgetNanos === null ? Infinity : budgetNanos - costNanos
  const asked = tx.store.requests.list({ openOnly: true, session: id, seenBy: null }).toReversed()
  return asked.flatMap((request) => {
    const { action, raises } = request
    if (action.kind !== 'spend' || action.short !== true || raises.length > 0 || action.needed_nanos > left) return []
    if (dangerOf(tx, request, 'once') !== null) return []
    left -= action.needed_nanos
    const answer = allowance(tx, actor, request, { decision: 'allow' })
    tx.record(id, { type: 'request.answered', body: { id: request.id, answer, ...by(actor) } })
    return [request.id]
  })
}
