import { type Actor, may } from '@anchorhold/core/actors'
import { by, note, type Parts, record, require } from './parts.ts'

/** Stops every agent, revokes every lease and closes every window, at once. Every session must be started again by hand. Who is no
 *  owner stops the sessions that they may work on. */
export async function panic(parts: Parts, actor: Actor): Promise<{ readonly sessions: number }> {
  require(parts, actor, 'panic')
  const why = `Panic by ${actor.name}`
  const live = [...new Set([...parts.store.sessions.tended().map(({ id }) => id), ...parts.keepers.sessions])]
  const tended = live.filter((id) => {
    const ties = parts.store.people.ties(id)
    // What is no session yet is stopped by those who may stop everything.
    return may(actor, 'session.work', ties ?? undefined)
  })
  note(parts, { type: 'panic', body: { sessions: tended.length, ...by(actor) } })
  // The log first: whatever dies from here on is not started again.
  for (const id of tended) {
    const state = parts.store.sessions.get(id)?.state
    if (state === undefined || state === 'stopped' || state === 'archived') continue
    record(parts, id, { type: 'session.state', body: { from: state, to: 'stopped', why, ...by(actor) } })
  }
  // No process is asked to agree: keepers are killed, and each takes its cell along.
  for (const id of tended) parts.keepers.kill(id)
  const everything = tended.length === live.length && may(actor, 'house.run')
  const closing = everything ? [parts.gate.do({ do: 'panic' }).catch(() => {})] : []
  await Promise.all([...closing, ...tended.map((id) => parts.keepers.gone(id))])
  return { sessions: tended.length }
}
