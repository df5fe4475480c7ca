import { takesUp } from '@anchorhold/core/session-states'
import { isLost } from '@anchorhold/link/attach'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { transaction } from '../../transaction.ts'
import { type Delivers, isEnded, type Parts, type Reads } from '../parts.ts'

/** How a keeper says that it goes. */
export const isLeaving = (error: unknown): boolean => error instanceof Failure && error.code === 'wrong_state'

/** Sees to it that the session has a keeper and that the keeper has every prompt that is queued. A prompt leaves the queue
 *  when its `prompt` event is stored, and not before; a keeper refuses one that it has. */
export async function deliver(parts: Reads & Pick<Parts, 'keepers'>, id: SessionId): Promise<void> {
  for (;;) {
    if (isEnded(parts, id)) return
    await parts.keepers.ensure(id)
    // It may have been stopped while its keeper started.
    if (isEnded(parts, id)) return parts.keepers.end(id, 'The session was ended before its keeper stood')
    try {
      for (const { id: prompt, text, images, mode, cause } of parts.store.prompts.queued(id)) {
        // It may have been taken back while the one before it was handed over.
        if (parts.store.prompts.get(prompt)?.state !== 'queued') continue
        await parts.keepers
          .do(id, { do: 'prompt', id: prompt, text, images: [...images], mode, cause })
          .catch((error: unknown) => {
            // It has the prompt, and a cell that takes long to stand.
            if (!isLost(error) || !parts.keepers.has(id)) throw error
          })
      }
      return
    } catch (error) {
      // The keeper was leaving, or died: the next one gets what is still queued.
      if (!isLeaving(error) && !isLost(error)) throw error
      await parts.keepers.gone(id)
      const state = parts.store.sessions.get(id)?.state
      // One that is paused is tried again when it goes on.
      if (state === 'failed' || state === 'paused' || parts.store.prompts.queued(id).length === 0) return
    }
  }
}

/** What a keeper that is gone had not handed on goes to the next one, and so does a turn that is to be taken up again, where
 *  nobody has to decide that it should. */
export function deliverRest(parts: Delivers, id: SessionId): void {
  const session = parts.store.sessions.get(id)
  if (session === null) return
  const goesOn = ['creating', 'ready', 'working', 'waiting'].includes(session.state)
  if (goesOn && (takesUp(session.standing) || parts.store.prompts.queued(id).length > 0)) deliverSoon(parts, id)
}

/** The same for every session, when the daemon has come back. */
export function deliverAll(parts: Delivers): void {
  const ids = new Set([...parts.store.sessions.crashed(), ...parts.store.prompts.sessionsWithQueued()])
  for (const id of ids) deliverRest(parts, id)
}

/** Starts keeper, cell and agent where there are none, and hands nothing on: nobody has asked for anything yet, so nothing
 *  has failed either when they cannot be started. The prompt that follows will say why. */
export function startAhead(parts: Reads & Pick<Parts, 'keepers' | 'log'>, id: SessionId): void {
  if (parts.keepers.has(id)) return
  const start = async () => {
    await parts.keepers.ensure(id)
    if (isEnded(parts, id)) await parts.keepers.end(id, 'The session was ended before its keeper stood')
  }
  void start().catch((error: unknown) => parts.log(`session ${id}: ${error instanceof Error ? error.message : String(error)}`))
}

/** Starts keeper, cell and agent; what is queued goes to them. A failure shows in the session. */
export function deliverSoon(parts: Delivers, id: SessionId): void {
  void deliver(parts, id)
    .catch((error: unknown) => showFailure(parts, id, error))
    // The disk may be full by now.
    .catch((error: unknown) => parts.log(`session ${id}: ${error instanceof Error ? error.message : String(error)}`))
}

/** Says in the session why it cannot go on, unless somebody has ended or paused it. */
export function showFailure(parts: Delivers, id: SessionId, error: unknown): void {
  // What is queued is delivered by the next daemon.
  if (parts.keepers.startsNoMore) return
  const why = error instanceof Error ? error.message : String(error)
  const hint = error instanceof Failure && error.hint !== undefined ? ` (${error.hint})` : ''
  const code = error instanceof Failure ? { code: error.code } : {}
  parts.log(`session ${id}: ${why}`)
  // It is held, and nothing is wrong with it.
  if (error instanceof Failure && error.code === 'panicked') return
  // A full disk says nothing about the session: what is queued is delivered when somebody comes back to it.
  if (error instanceof Failure && error.code === 'storage_unavailable') return
  transaction(parts, (tx) => {
    const state = tx.store.sessions.get(id)?.state
    // The keeper itself may have said why it could not go on. One that is paused does not go on now, and is tried again when it does.
    if (state === undefined || state === 'failed' || state === 'paused' || isEnded(tx, id)) return
    tx.record(id, { type: 'session.state', body: { from: state, to: 'failed', why: `${why}${hint}`, ...code } })
  })
}
