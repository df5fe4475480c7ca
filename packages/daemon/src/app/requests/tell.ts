import { house } from '@anchorhold/core/actors'
import { isLost } from '@anchorhold/link/attach'
import { requestTold } from '@anchorhold/core/request-told'
import type { Raise } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import { Told } from '@anchorhold/protocol/authority'
import type { RequestRow } from '../../store/store.ts'
import { askerOf } from '../policy/authority.ts'
import { deliverSoon } from '../prompts/deliver.ts'
import { enqueue } from '../prompts/enqueue.ts'
import { transaction } from '../../transaction.ts'
import type { Delivers, Parts, Reads } from '../parts.ts'

/** Sees to it that whoever asked hears how it was settled: the process that waits, if it still does, and the agent by a prompt
 *  otherwise. May be done twice: it is heard once. `raises` is what was raised for it above its session. */
export async function tellAsker(
  parts: Delivers & Pick<Parts, 'gate' | 'random'>,
  id: RequestId,
  raises: readonly Raise[] = [],
): Promise<void> {
  const request = parts.store.requests.get(id)
  if (request === null || request.answer === null || request.told) return
  const heard = await (askerOf(request.action) === 'gate' ? answerGate(parts, request, raises) : answerKeeper(parts, request))
  if (heard === 'nobody waits') announce(parts, id)
}

/** Everything that was answered and not told, of one session or of all. */
export async function tellAskers(parts: Delivers & Pick<Parts, 'gate' | 'random'>, session: SessionId | null): Promise<void> {
  await Promise.all(parts.store.requests.untold(session).map(({ id }) => tellAsker(parts, id)))
}

/** `later`: whoever waited is on its way out, and its end is the time to look again. */
type Hearing = 'told' | 'nobody waits' | 'later'

async function answerKeeper(parts: Reads & Pick<Parts, 'keepers' | 'now'>, request: RequestRow): Promise<Hearing> {
  const { session } = request
  try {
    // One that is being started was told what is allowed before this was. None is started for this: it may be on its way out for good.
    if (!(await parts.keepers.stands(session))) return 'nobody waits'
  } catch (error) {
    // It may have heard it, and that cannot be read. Whoever goes on with the session has it read, and told.
    if (!isLost(error)) throw error
    return 'later'
  }
  try {
    const { told } = Told.parse(await parts.keepers.do(session, { do: 'answer', ...answerOf(parts, request) }))
    return told ? 'told' : 'nobody waits'
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return parts.keepers.sessions.includes(session) ? 'later' : 'nobody waits'
  }
}

async function answerGate(
  parts: Reads & Pick<Parts, 'gate' | 'now'>,
  request: RequestRow,
  raises: readonly Raise[],
): Promise<Hearing> {
  const { session, action } = request
  const budget = action.kind === 'spend' ? { budget_nanos: parts.store.sessions.get(session)?.budgetNanos ?? null } : {}
  try {
    const answer = { ...answerOf(parts, request), ...budget, raises: [...raises] }
    const { told } = Told.parse(await parts.gate.do({ do: 'answer', session, ...answer }))
    return told ? 'told' : 'nobody waits'
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return 'later'
  }
}

function answerOf(parts: Reads & Pick<Parts, 'now'>, { id, session, answer, answered_by }: RequestRow) {
  const found = parts.store.requests.grants(session, parts.now()).find((grant) => grant.request === id)
  const { kind: _, ...grant } = found ?? { kind: null }
  return {
    request: id,
    answer: answer!,
    actor: answered_by ?? house.name,
    grant: 'digest' in grant ? grant : null,
  }
}

/** Nobody waits for the answer any more: in one transaction it counts as told, and the agent is sent a prompt that tells it. */
function announce(parts: Delivers & Pick<Parts, 'random'>, id: RequestId): void {
  const session = transaction(parts, (tx) => {
    const request = tx.store.requests.get(id)
    const row = request === null ? null : tx.store.sessions.get(request.session)
    if (request === null || row === null || request.answer === null || request.told) return null
    const told = () => tx.record(row.id, { type: 'request.told', body: { id } })
    // Whoever has gone on by it knows: it came back for it by itself, and to do it again it would have to ask again.
    if (request.answer.decision === 'withdrawn' || request.used) return (told(), null)
    // Whoever starts it again has it told.
    if (row.state === 'stopped' || row.state === 'archived') return null
    told()
    const isBroken = row.state === 'interrupted' || row.state === 'failed'
    const isAnswered = request.answer.decision !== 'expired'
    // Who answers has decided that the session goes on; that time went by decides nothing.
    if (isBroken && isAnswered) {
      const to = row.standing.requests > 0 ? ('waiting' as const) : ('ready' as const)
      tx.record(row.id, { type: 'session.state', body: { from: row.state, to, why: null } })
    }
    const actor = { ...house, name: request.answered_by ?? house.name, door: request.answered_from ?? house.door }
    enqueue(tx, actor, row.id, { text: requestTold(request.action, request.answer, actor.name) }, 'resume')
    return isBroken && !isAnswered ? null : row.id
  })
  if (session !== null) deliverSoon(parts, session)
}

/** Nobody answers for now: keeper and cell leave, and what was asked stays open. */
export async function park(parts: Pick<Parts, 'keepers'>, session: SessionId, why: string): Promise<void> {
  if (!parts.keepers.has(session)) return
  // It answers by leaving, so the answer itself may not come.
  const left = parts.keepers.do(session, { do: 'park', why }).catch((error: unknown) => {
    if (!(error instanceof Failure)) throw error
  })
  await Promise.race([left, parts.keepers.gone(session)])
}
