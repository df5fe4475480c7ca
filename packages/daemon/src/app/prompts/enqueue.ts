import type { Actor } from '@anchorhold/core/actors'
import { newPromptId, type SessionId } from '@anchorhold/protocol/ids'
import type { NewPrompt, PromptReceipt, TurnCause } from '@anchorhold/protocol/sessions'
import type { Tx } from '../../transaction.ts'
import { by, type Parts, type Reads } from '../parts.ts'

/** Stores a prompt that is to be delivered. */
export function enqueue(
  tx: Tx & Pick<Parts, 'now' | 'random'>,
  actor: Actor,
  id: SessionId,
  input: NewPrompt,
  cause: TurnCause,
): PromptReceipt {
  const prompt = newPromptId(tx.random)
  const queuedAt = tx.now()
  const { text, images = [], mode = 'steer' } = input
  tx.store.prompts.insert({ id: prompt, session: id, text, images, mode, cause, queuedAt }, promptKey(tx, actor, id, input))
  tx.record(id, { type: 'prompt.queued', body: { id: prompt, text, images: images.length, mode, ...by(actor) } })
  return { id: prompt, session: id, queued_at: queuedAt }
}

/** An idempotency key counts for one actor and one provider: what another one calls its own is something else. */
export function promptKey(parts: Reads, actor: Actor, id: SessionId, { idempotency_key: key }: NewPrompt): string | null {
  if (key === undefined) return null
  return `${encodeURIComponent(actor.name)}:${parts.store.sessions.get(id)?.provider ?? ''}:${key}`
}

/** A session that got no name is called by the first line of its first prompt. */
export function nameFrom(text: string | undefined): string | null {
  const line = text
    ?.split('\n')
    .find((one) => one.trim() !== '')
    ?.trim()
  if (line === undefined) return null
  return line.length > 60 ? `${line.slice(0, 59)}…` : line
}
