import type { Actor } from '@anchorhold/core/actors'
import type { AnswerRequest, Request } from '@anchorhold/protocol/api'
import { Failure } from '@anchorhold/protocol/failures'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { type Parts, require } from './parts.ts'

export function listRequests(
  parts: Parts,
  actor: Actor,
  filter: { readonly openOnly: boolean; readonly session: SessionId | null },
): readonly Request[] {
  require(actor, 'read')
  return parts.store.requests.list(filter)
}

export function getRequest(parts: Parts, actor: Actor, id: RequestId): Request {
  require(actor, 'read')
  const request = parts.store.requests.get(id)
  if (request === null) throw new Failure('not_found', `There is no request "${id}"`)
  return request
}

/** The keeper that asked decides which answer came first, so that exactly one wins. */
export async function answerRequest(parts: Parts, actor: Actor, id: RequestId, answer: AnswerRequest): Promise<Request> {
  require(actor, 'work')
  const request = getRequest(parts, actor, id)
  if (request.answer !== null) throw answered(request)
  if (!parts.keepers.has(request.session)) {
    throw new Failure('wrong_state', `Cannot answer request "${id}": the agent that asked is gone`, {
      hint: 'Send the session a prompt: it will ask again',
    })
  }
  await parts.keepers.do(request.session, { do: 'answer', request: id, answer, actor: actor.name, door: actor.door })
  await parts.sources.settled(`keeper/${request.session}`)
  return getRequest(parts, actor, id)
}

const answered = (request: Request) =>
  new Failure('conflict', `Request "${request.id}" is settled already: ${request.answer?.decision} by ${request.answered_by}`)
