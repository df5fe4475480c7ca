import { type Actor, may, seenBy } from '@anchorhold/core/actors'
import type { AnswerRequest, Request } from '@anchorhold/protocol/api'
import { Failure } from '@anchorhold/protocol/failures'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { Price } from '@anchorhold/protocol/link'
import { approved, raiseNodes, requireRaise } from './ledger.ts'
import { by, type Parts, record, require, sessionFor } from './parts.ts'

export function listRequests(
  parts: Parts,
  actor: Actor,
  filter: { readonly openOnly: boolean; readonly session: SessionId | null },
): readonly Request[] {
  if (filter.session === null) require(parts, actor, 'house.read')
  else require(parts, actor, 'session.read', filter.session)
  return parts.store.requests.list({ ...filter, seenBy: seenBy(actor) })
}

export function getRequest(parts: Parts, actor: Actor, id: RequestId): Request {
  require(parts, actor, 'house.read')
  const request = parts.store.requests.get(id)
  const ties = request === null ? null : parts.store.people.ties(request.session)
  if (request === null || ties === null || !may(actor, 'session.read', ties))
    throw new Failure('not_found', `There is no request "${id}"`)
  return request
}

/** Whoever asked, keeper or gate, decides which answer came first, so that exactly one wins. */
export async function answerRequest(parts: Parts, actor: Actor, id: RequestId, answer: AnswerRequest): Promise<Request> {
  const request = getRequest(parts, actor, id)
  require(parts, actor, 'session.answer', request.session)
  if (request.answer !== null) throw answered(request)
  if (!parts.keepers.has(request.session)) {
    throw new Failure('wrong_state', `Cannot answer request "${id}": the agent that asked is gone`, {
      hint: 'Send the session a prompt: it will ask again',
    })
  }
  if (request.action.kind === 'spend') await answerSpend(parts, actor, request, answer)
  else await parts.keepers.do(request.session, { do: 'answer', request: id, answer, actor: actor.name, door: actor.door })
  await parts.sources.settled(request.action.kind === 'spend' ? 'gate' : `keeper/${request.session}`)
  return getRequest(parts, actor, id)
}

/** How often the price of a call is asked for that others make dearer meanwhile. */
const pricesMax = 5

/** Whoever allows a call raises the session's budget by just what it needs: in the log first, then at the gate. */
async function answerSpend(parts: Parts, actor: Actor, { id, session }: Request, answer: AnswerRequest): Promise<void> {
  const tell = (budget: number | null) =>
    parts.gate.do({ do: 'answer', session, request: id, answer, budget_nanos: budget, actor: actor.name, door: actor.door })
  if (answer.decision === 'deny') return void (await tell(null))
  for (let tries = 1; ; tries++) {
    const { budget_nanos, raises } = Price.parse(await parts.gate.do({ do: 'price', session, request: id }))
    requireRaise(parts, actor, session, raises)
    if (sessionFor(parts, session, null).budgetNanos !== budget_nanos)
      record(parts, session, { type: 'session.changed', body: { budget_nanos, ...by(actor) } })
    await raiseNodes(parts, actor, session, approved(parts, session, raises))
    try {
      return void (await tell(budget_nanos))
    } catch (error) {
      // Another call took some of it between the two.
      if (!(error instanceof Failure && error.code === 'wrong_state') || tries === pricesMax) throw error
    }
  }
}

const answered = (request: Request) =>
  new Failure('conflict', `Request "${request.id}" is settled already: ${request.answer?.decision} by ${request.answered_by}`)
