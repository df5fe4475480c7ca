import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { type Parts, record } from './parts.ts'

/** Sees to it that the session has a keeper and that the keeper has every prompt that is queued. A prompt leaves the queue
 *  when its `prompt` event is stored, and not before; a keeper refuses one that it has. */
export async function deliver(parts: Parts, id: SessionId): Promise<void> {
  for (;;) {
    await parts.keepers.ensure(id)
    try {
      for (const { id: prompt, text, images, mode, cause } of parts.store.prompts.queued(id)) {
        await parts.keepers.do(id, { do: 'prompt', id: prompt, text, images: [...images], mode, cause })
      }
      return
    } catch (error) {
      // The keeper was leaving, or died: the next one gets what is still queued.
      const gone = error instanceof Failure && (error.code === 'wrong_state' || error.code === 'keeper_unavailable')
      if (!gone) throw error
      await parts.keepers.gone(id)
      const session = parts.store.sessions.get(id)
      if (session === null || session.state === 'stopped' || session.state === 'archived' || session.state === 'failed') return
      if (parts.store.prompts.queued(id).length === 0) return
    }
  }
}

/** Starts keeper, cell and agent; what is queued goes to them. A failure shows in the session. */
export function warmUp(parts: Parts, id: SessionId): void {
  void deliver(parts, id).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error)
    const hint = error instanceof Failure && error.hint !== undefined ? ` (${error.hint})` : ''
    parts.log(`session ${id}: ${why}`)
    const state = parts.store.sessions.get(id)?.state
    if (state === undefined || state === 'stopped' || state === 'archived') return
    record(parts, id, { type: 'session.state', body: { from: state, to: 'failed', why: `${why}${hint}` } })
  })
}
