import type { Actor } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { PromptId, SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Parts, type Reads, require, sessionFor, shown } from '../parts.ts'

export const queuedIn = ({ store }: Reads, id: SessionId): readonly PromptId[] => store.prompts.queued(id).map((one) => one.id)

/** Takes one prompt back that the agent has not been given. */
export async function dropPrompt(
  parts: Writes & Pick<Parts, 'keepers' | 'sources'>,
  actor: Actor,
  id: SessionId,
  prompt: PromptId,
): Promise<Session> {
  require(parts, actor, 'session.work', id)
  sessionFor(parts, id, null)
  if (parts.store.prompts.get(prompt)?.session !== id)
    throw new Failure('not_found', `There is no prompt "${prompt}" in session "${id}"`)
  await drop(parts, actor, id, [prompt])
  if (parts.store.prompts.get(prompt)?.state !== 'dropped')
    throw new Failure('conflict', `Cannot take back prompt "${prompt}": the agent has it`, {
      hint: 'Interrupt the turn instead: anchorhold interrupt SESSION',
    })
  return shown(sessionFor(parts, id, null))
}

/** Drops those of the prompts that the agent has not been given. Where there is a keeper, it alone knows: it journals what it drops. */
export async function drop(
  parts: Writes & Pick<Parts, 'keepers' | 'sources'>,
  actor: Actor,
  id: SessionId,
  prompts: readonly PromptId[],
): Promise<void> {
  const why = `Dropped by ${actor.name}`
  const left = () => queuedIn(parts, id).filter((queued) => prompts.includes(queued))
  while (left().length > 0 && (await parts.keepers.stands(id))) {
    try {
      await parts.keepers.do(id, { do: 'drop', prompts: left(), why, actor: actor.name, door: actor.door })
      return await parts.sources.settled(`keeper/${id}`)
    } catch (error) {
      // It was leaving, or died: what it had not handed on is nobody's but the log's.
      if (!(error instanceof Failure) || (error.code !== 'wrong_state' && error.code !== 'keeper_unavailable')) throw error
      await parts.keepers.gone(id)
    }
  }
  dropQueued(parts, actor, id, prompts, why)
}

/** Drops those of the prompts that are still queued, in one step, so that no keeper gets them meanwhile. */
export function dropQueued(parts: Writes, actor: Actor, id: SessionId, prompts: readonly PromptId[], why: string): void {
  transaction(parts, (tx) => {
    for (const prompt of queuedIn(tx, id))
      if (prompts.includes(prompt)) tx.record(id, { type: 'prompt.dropped', body: { id: prompt, why, ...by(actor) } })
  })
}
