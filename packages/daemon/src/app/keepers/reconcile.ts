import { takesUp } from '@anchorhold/core/session-states'
import { isLost } from '@anchorhold/link/attach'
import { type Clock, systemClock } from '@anchorhold/link/clock'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { SessionRow } from '../../store/store.ts'
import { deliverRest, showFailure } from '../prompts/deliver.ts'
import { enforcePolicy } from '../policy/authority.ts'
import { openWindows } from './keeper-start.ts'
import { holdToPolicy } from '../policy/hold-to-policy.ts'
import { forgetKeeper } from './lost-keeper.ts'
import type { Inbox } from '../requests/inbox.ts'
import { transaction } from '../../transaction.ts'
import { type Delivers, type Holds, isEnded, type Parts } from '../parts.ts'
import { tellKeeper } from './tell-processes.ts'

/** Brings the daemon and the processes that outlive it together: when it starts, and whenever one of them comes or goes. */
export interface Reconciler {
  /** Attaches to keepers that lived on while no daemon was there, and takes in what dead ones left. Nothing is served before
   *  that: whoever asks is to see the sessions as they are. One that hangs keeps nobody waiting but its own session. */
  findKeepers(): Promise<void>
  /** A keeper has gone. A daemon that leaves starts no other. */
  keeperGone(id: SessionId, why: string): void
  /** A keeper has gone, and what it left cannot be read. The session has failed for as long as it cannot: it has not lost its keeper
   *  before it is known what that one did. */
  keeperUnread(id: SessionId, failure: Failure): void
  /** A keeper was to be started and was not. */
  keeperNotStarted(id: SessionId): void
  /** A gate stands that serves these sessions by itself: each is to have the windows that it needs, and no other. */
  gateUp(served: readonly SessionId[]): Promise<void>
  /** Another policy is in force: what is under way goes on under that one. */
  policyChanged(): void
}

/** Whether a session that crashed goes on by itself, or would, had the daemon before this one lived to say so. */
const isOnItsWay = (session: Pick<SessionRow, 'state' | 'standing'> | null): boolean =>
  session !== null && (session.state === 'ready' || session.state === 'waiting' || takesUp(session.standing))
/** How long everybody waits for keepers to be found. */
const findMs = 1500
const againMs = 5000

export function reconciler(
  parts: Holds & Delivers & Pick<Parts, 'hub'>,
  inbox: Pick<Inbox, 'look'>,
  clock: Clock = systemClock,
): Reconciler {
  const looked = Promise.withResolvers<void>()
  let served = false
  const tell = (error: unknown) => parts.log(error instanceof Error ? error.message : String(error))

  async function find(id: SessionId): Promise<void> {
    const lost = () => forgetKeeper(parts, id, 'The keeper died while the daemon was away, and its cell with it')
    let found: boolean
    try {
      found = await parts.keepers.reattach(id, lost)
    } catch (error) {
      if (!(error instanceof Failure) || !isLost(error)) throw error
      return unread(id, error)
    }
    if (!found) {
      restsAtLast(id)
      if (served) deliverRest(parts, id)
      if (served) inbox.look()
      return
    }
    void bringUpToDate(id).catch(tell)
    inbox.look()
  }

  function unread(id: SessionId, failure: Failure): void {
    const { sessions, prompts } = parts.store
    const session = sessions.get(id)
    if (session === null) return
    const { state, standing } = session
    // A keeper that said that it leaves has told all by that: where nothing is left to do, nothing has failed.
    const goesOn = standing.keeper || state === 'creating' || takesUp(standing) || prompts.queued(id).length > 0
    if (goesOn) showFailure(parts, id, failure)
    else tell(failure)
    closeWindows(id)
  }

  /** Nobody is behind them. */
  function closeWindows(id: SessionId): void {
    const { gate, keepers } = parts
    if (gate.up && !keepers.has(id)) void gate.do({ do: 'close', session: id }).catch(tell)
  }

  /** Where what became of it cannot be written down, for want of room, it is looked for again. One that fails must not keep the others from
   *  being found. */
  async function findAtLast(id: SessionId): Promise<void> {
    try {
      await find(id)
    } catch (error) {
      tell(error)
      if (!(error instanceof Failure) || error.code !== 'storage_unavailable') return
      clock.after(againMs, () => void (parts.keepers.sessions.includes(id) ? undefined : findAtLast(id)))
    }
  }

  /** A daemon before this one may have written down what the keeper has not heard. */
  async function bringUpToDate(id: SessionId): Promise<void> {
    if (isEnded(parts, id)) return parts.keepers.end(id, 'The session was ended while its keeper could not be told')
    const isPaused = () => parts.store.sessions.get(id)?.state === 'paused'
    const held = isPaused()
    await tellKeeper(parts, id, { do: held ? 'pause' : 'resume' }, () => isPaused() === held)
    await enforcePolicy(parts, id)
  }

  /** One that was being made, whose keeper never stood or came and went unheard, and that nobody has given anything to do. */
  function restsAtLast(id: SessionId): void {
    transaction(parts, (tx) => {
      const { sessions, prompts } = tx.store
      if (sessions.get(id)?.state !== 'creating' || prompts.queued(id).length > 0) return
      tx.record(id, { type: 'session.state', body: { from: 'creating', to: 'ready', why: null } })
    })
  }

  return {
    async findKeepers() {
      const { sessions, prompts } = parts.store
      const made = sessions.list({ archived: false, state: 'creating', needing: false, before: null, limit: 500, seenBy: null })
      const takenUp = sessions.crashed().filter((id) => isOnItsWay(sessions.get(id)))
      // What such a keeper left may not have been read either.
      const unread = sessions.crashed().filter((id) => sessions.get(id)?.state === 'failed')
      // A keeper may have begun that the daemon before this one did not live to hear of: where prompts are queued, where a session was
      // being made, and where one was taken up again after a crash, or was just to be.
      const known = [...sessions.tended(), ...made].map(({ id }) => id)
      const sought = new Set([...known, ...takenUp, ...unread, ...prompts.sessionsWithQueued()])
      // What keepers have to tell may wait for what the gate has to tell.
      if (sought.size > 0) void parts.gate.ensure().catch(tell)
      const late = Promise.withResolvers<void>()
      const inTime = clock.after(findMs, late.resolve)
      await Promise.race([Promise.all([...sought].map((id) => findAtLast(id))), late.promise])
      inTime()
      served = true
      looked.resolve()
    },
    keeperGone(id, why) {
      forgetKeeper(parts, id, why)
      if (parts.keepers.startsNoMore) return
      deliverRest(parts, id)
      // It may have left without having heard an answer.
      inbox.look()
    },
    keeperUnread: unread,
    keeperNotStarted: closeWindows,
    async gateUp(served) {
      await looked.promise
      const { gate, keepers } = parts
      const live = new Set(keepers.sessions)
      // The gate remembers sessions whose keepers may have gone while no daemon was there to tell it.
      for (const id of served) if (!live.has(id)) void gate.do({ do: 'close', session: id }).catch(tell)
      for (const id of live) if (!isEnded(parts, id)) void openWindows(parts, id).catch(tell)
      inbox.look()
    },
    policyChanged() {
      holdToPolicy(parts, parts.keepers.sessions)
    },
  }
}
