import type { Actor } from '@anchorhold/core/actors'
import { newPromptId, type SessionId } from '@anchorhold/protocol/ids'
import type { NewPrompt, PromptReceipt, TurnCause } from '@anchorhold/protocol/sessions'
import { by, type Parts, record } from './parts.ts'

/** Stores a prompt that is to be delivered. */
export function enqueue(parts: Parts, actor: Actor, id: SessionId, input: NewPrompt, cause: TurnCause): PromptReceipt {
  const prompt = newPromptId(parts.random)
  const queuedAt = parts.now()
  const { text, images = [], mode = 'steer' } = input
  parts.store.prompts.insert({ id: prompt, session: id, text, images, mode, cause, queuedAt }, input.idempotency_key ?? null)
  record(parts, id, { type: 'prompt.queued', body: { id: prompt, text, images: images.length, mode, ...by(actor) } })
  return { id: prompt, session: id, queued_at: queuedAt }
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
