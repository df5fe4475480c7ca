import { type Actor, may } from '@anchorhold/core/actors'
import { takesUp } from '@anchorhold/core/session-states'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { setTimeout as wait } from 'node:timers/promises'
import { by, note, ownerOf, type Parts, record, require } from './parts.ts'

/** Stops every agent, revokes every lease and closes every window, at once. Every session must be started again by hand. Who is no
 *  owner stops the sessions that they may work on. */
export async function panic(parts: Parts, actor: Actor): Promise<{ readonly sessions: number }> {
  require(parts, actor, 'panic')
  const why = `Panic by ${actor.name}`
  parts.panics.push(actor)
  const live = [...new Set([...parts.store.sessions.tended().map(({ id }) => id), ...parts.keepers.sessions, ...goingOn(parts)])]
  const tended = live.filter((id) => {
    const ties = parts.store.people.ties(id)
    // What is no session yet is stopped by those who may stop everything.
    return may(actor, 'session.work', ties ?? undefined)
  })
  // The log first: whatever dies from here on is not started again.
  const write = () =>
    parts.store.atomically(() => {
      note(parts, { type: 'panic', body: { sessions: tended.length, ...by(actor) } })
      for (const id of tended) {
        const state = parts.store.sessions.get(id)?.state
        if (state === undefined || state === 'stopped' || state === 'archived') continue
        record(parts, id, { type: 'session.state', body: { from: state, to: 'stopped', why, ...by(actor) } })
      }
    })
  const unwritten = attempt(write)
  // Where that could not be, nothing at all is started.
  if (unwritten !== null) parts.keepers.startNoMore()
  // No process is asked to agree: keepers are killed, and each takes its cell along.
  for (const id of tended) parts.keepers.kill(id)
  const everything = tended.length === live.length && may(actor, 'house.run')
  const closing = everything ? [parts.gate.do({ do: 'panic' }).catch(() => {})] : []
  const gone = Promise.all([...closing, ...tended.map((id) => parts.keepers.gone(id))])
  if (unwritten === null) await gone
  else {
    void writeLater(write)
    throw new Failure(
      'storage_unavailable',
      `Every agent was stopped, but that could not be written down: ${unwritten.message}`,
      {
        hint: 'Nothing is started from here on. Free some space, then end this daemon (anchorhold down) and start another (anchorhold up --detach)',
      },
    )
  }
  return { sessions: tended.length }
}

/** Those that nobody tends now and that would go on by themselves: with what is queued, when what they asked is answered or over, or after
 *  a crash. */
function goingOn({ store }: Parts): readonly SessionId[] {
  const crashed = store.sessions.crashed().filter((id) => {
    const session = store.sessions.get(id)
    return session !== null && takesUp(session.standing)
  })
  return [...store.prompts.sessionsWithQueued(), ...store.requests.waiting().map(({ session }) => session), ...crashed]
}

/** Refuses to make a session for this actor when somebody who could have stopped it has panicked meanwhile.
 *  @param since how many panics there had been when it was asked for */
export function refuseAfterPanic({ panics }: Pick<Parts, 'panics'>, actor: Actor, since: number): void {
  const ties = { owner: ownerOf(actor), shares: [] }
  if (panics.slice(since).some((one) => may(one, 'session.work', ties)))
    throw new Failure('conflict', 'Cannot make the session: a panic stopped it', { hint: 'Ask for it again' })
}

function attempt(work: () => void): Error | null {
  try {
    work()
    return null
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

/** As soon as the disk takes it: the next daemon is not to start them either. */
async function writeLater(write: () => void): Promise<void> {
  do await wait(retryMs, null, { ref: false })
  while (attempt(write) !== null)
}
const retryMs = 1000
