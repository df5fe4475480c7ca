import type { Actor } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { NewPrompt, PromptReceipt } from '@anchorhold/protocol/sessions'
import { deliverSoon } from './deliver.ts'
import { enqueue, nameFrom, promptKey } from './enqueue.ts'
import { effectiveFor, requireRoomFor } from '../policy/policy.ts'
import { requireCalm } from '../house/panic.ts'
import { transaction } from '../../transaction.ts'
import { by, type Delivers, type Judges, type Parts, require, sessionFor } from '../parts.ts'
import { requireProof } from '../people/step-up.ts'

/** Stores a prompt in the transaction that acknowledges it; the keeper gets it behind that. */
export function prompt(
  parts: Delivers & Judges & Pick<Parts, 'random'>,
  actor: Actor,
  id: SessionId,
  input: NewPrompt,
): PromptReceipt {
  const receipt = transaction(parts, (tx) => {
    require(tx, actor, 'session.work', id)
    const key = promptKey(tx, actor, id, input)
    const known = key === null ? null : tx.store.prompts.byKey(id, key)
    if (known !== null) {
      if (known.text !== input.text || known.mode !== (input.mode ?? 'steer'))
        throw new Failure('conflict', `The idempotency key "${input.idempotency_key}" was used for another prompt`)
      return { id: known.id, session: id, queued_at: known.queuedAt }
    }
    // First: to start a stopped session would be refused for the same reason.
    requireCalm(tx, sessionFor(tx, id, null).ownerId)
    const session = sessionFor(tx, id, 'prompt')
    // Where there is no wall, what the agent is told to do is done to the machine.
    if (session.rung === 'none') requireProof(tx, actor, 'prompt an agent without a wall')
    if (input.idempotency_key === undefined && effectiveFor(tx, session).requireIdempotency)
      throw new Failure('bad_request', 'Cannot take the prompt: the policy requires an idempotency key', {
        hint: 'Send idempotency_key',
      })
    const name = session.last_seq <= 2 && session.turns === 0 && session.name === 'New session' ? nameFrom(input.text) : null
    if (name !== null) tx.record(id, { type: 'session.changed', body: { name, ...by(actor) } })
    // Who sends a prompt has decided that the session goes on; from here on a restart of the daemon delivers it.
    if (session.state === 'failed') requireRoomFor(tx, actor, session)
    if (session.state === 'interrupted' || session.state === 'failed') {
      tx.record(id, { type: 'session.state', body: { from: session.state, to: 'ready', why: null, ...by(actor) } })
    }
    return enqueue(tx, actor, id, input, 'prompt')
  })
  deliverSoon(parts, id)
  return receipt
}
