import type { Actor } from '@anchorhold/core/actors'
import { type Parts, record, require } from './parts.ts'

/** Stops every agent, revokes every lease and closes every window, at once. Every session must be started again by hand. */
export async function panic(parts: Parts, actor: Actor): Promise<{ readonly sessions: number }> {
  require(actor, 'work')
  const why = `Panic by ${actor.name}`
  const tended = new Set([...parts.store.sessions.tended().map(({ id }) => id), ...parts.keepers.sessions])
  // The log first: whatever dies from here on is not started again.
  for (const id of tended) {
    const state = parts.store.sessions.get(id)?.state
    if (state === undefined || state === 'stopped' || state === 'archived') continue
    record(parts, id, { type: 'session.state', body: { from: state, to: 'stopped', why } })
  }
  // No process is asked to agree: keepers are killed, and each takes its cell along.
  for (const id of tended) parts.keepers.kill(id)
  await Promise.all([parts.gate.do({ do: 'panic' }).catch(() => {}), ...[...tended].map((id) => parts.keepers.gone(id))])
  return { sessions: tended.size }
}
