import { type Actor, may } from '@anchorhold/core/actors'
import { takesUp } from '@anchorhold/core/session-states'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId, UserId } from '@anchorhold/protocol/ids'
import { setTimeout as wait } from 'node:timers/promises'
import { endLaunched } from '../../processes/launched.ts'
import type { Panic } from '../../store/store.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, ownerOf, type Parts, type Reads, require } from '../parts.ts'

/** Stops every agent, revokes every lease and closes every window, at once. From here on nothing runs until somebody lifts it, and then
 *  each session that was stopped is started again by hand. Who is no owner stops the sessions that they may work on, and holds their own. */
export async function panic(parts: Writes & Pick<Parts, 'folders' | 'gate' | 'keepers'>, actor: Actor): Promise<Panicked> {
  require(parts, actor, 'panic')
  const everybodys = may(actor, 'house.run')
  const why = `Panic by ${actor.name}`
  const live = [...new Set([...parts.store.sessions.tended().map(({ id }) => id), ...parts.keepers.sessions, ...goingOn(parts)])]
  const tended = live.filter((id) => {
    const ties = parts.store.people.ties(id)
    // What is no session yet is stopped by those who may stop everything.
    return may(actor, 'session.work', ties ?? undefined)
  })
  // The log first: whatever dies from here on is not started again.
  const write = () =>
    transaction(parts, (tx) => {
      tx.note({ type: 'panic', body: { sessions: tended.length, ...by(actor) } })
      const user = everybodys ? null : ownerOf(actor)
      tx.store.panics.put({ user, at: parts.now(), actor: actor.name, door: actor.door })
      for (const id of tended) {
        const state = tx.store.sessions.get(id)?.state
        if (state === undefined || state === 'stopped' || state === 'archived') continue
        tx.record(id, { type: 'session.state', body: { from: state, to: 'stopped', why, ...by(actor) } })
      }
    })
  const unwritten = attempt(write)
  // Where that could not be, nothing at all is started.
  if (unwritten !== null) parts.keepers.startNoMore()
  // No process is asked to agree: keepers are killed, and each takes its cell along.
  for (const id of tended) parts.keepers.kill(id)
  const launched = everybodys ? endLaunched(parts.folders) : 0
  const closed = everybodys
    ? parts.gate.do({ do: 'panic' }).then(
        () => null,
        () => (parts.gate.up ? 'The gate did not close its windows: it does not answer' : null),
      )
    : null
  if (unwritten !== null) {
    void writeLater(write)
    throw new Failure(
      'storage_unavailable',
      `Every agent was stopped, but that could not be written down: ${unwritten.message}`,
      {
        hint: 'Nothing is started from here on. Free some space, then end this daemon (anchorhold down) and start another (anchorhold up --detach)',
      },
    )
  }
  const goes = tended.map((id) => inTime(parts.keepers.gone(id), `Session "${id}" goes on: its keeper or its cell has not ended`))
  const left = await Promise.all([...goes, ...(closed === null ? [] : [inTime(closed, 'The gate has not closed its windows')])])
  return { sessions: tended.length, launched, left: left.filter((each) => each !== null) }
}

export type Panicked = {
  readonly sessions: number
  /** Cells that were launched without a daemon, and ended. */
  readonly launched: number
  /** What could not be stopped, in sentences. */
  readonly left: readonly string[]
}

/** What came of it, or these words where it has not come to an end by then. */
async function inTime(ending: Promise<string | null | void>, late: string): Promise<string | null> {
  const waiting = new AbortController()
  const clock = wait(endMsMax, late, { signal: waiting.signal, ref: false })
  clock.catch(() => {})
  return Promise.race([ending.then((said) => said ?? null), clock]).finally(() => waiting.abort())
}
const endMsMax = 5000

/** Lets agents run again: everybody's, or for who is no owner their own. Nothing is started by it. */
export function liftPanic(parts: Writes, actor: Actor): { readonly lifted: boolean } {
  require(parts, actor, 'panic')
  const user = may(actor, 'house.run') ? null : ownerOf(actor)
  return transaction(parts, (tx) => {
    if (user !== null && tx.store.panics.list().some((one) => one.user === null))
      throw new Failure('forbidden', 'Cannot let agents run again: an owner has stopped everything', { hint: 'Ask an owner' })
    const lifted = tx.store.panics.lift(user)
    if (lifted) tx.note({ type: 'panic.lifted', body: { ...by(actor) } })
    return { lifted }
  })
}

/** The panic that holds the sessions of an owner; null where none does. */
export const panicOver = ({ store }: Reads, owner: UserId): Panic | null =>
  store.panics.list().find(({ user }) => user === null || user === owner) ?? null

/** Throws where a panic holds the sessions of this owner. */
export function requireCalm(parts: Reads, owner: UserId): void {
  const one = panicOver(parts, owner)
  if (one === null) return
  const what = one.user === null ? 'every agent' : 'the agents of this user'
  throw new Failure('panicked', `${one.actor} has stopped ${what} (panic): nothing runs until that is lifted`, {
    hint: 'Look at what happened, then let agents run again: anchorhold panic --lift',
  })
}

/** Those that nobody tends now and that would go on by themselves: with what is queued, when what they asked is answered or over, or after
 *  a crash. */
function goingOn({ store }: Reads): readonly SessionId[] {
  const crashed = store.sessions.crashed().filter((id) => {
    const session = store.sessions.get(id)
    return session !== null && takesUp(session.standing)
  })
  return [...store.prompts.sessionsWithQueued(), ...store.requests.waiting().map(({ session }) => session), ...crashed]
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
