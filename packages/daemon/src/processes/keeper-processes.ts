import { afterKeeper, type KeeperEvent, type KeeperLife, keeperLives } from '@anchorhold/core/keeper-lives'
import { type Attachment, isLost } from '@anchorhold/link/attach'
import { type Clock, pause } from '@anchorhold/link/clock'
import type { LiveFrame } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { watchPulse } from '@anchorhold/link/pulse'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { KeeperCommand } from '@anchorhold/protocol/keeper-commands'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'
import type { Rung } from '@anchorhold/protocol/rungs'
import type { Folders } from '../folders.ts'
import type { KeeperHost } from './keeper-host.ts'
import type { Sources } from './sources.ts'
import type { ReadyCell, SeenReadyCell } from './ready-cells.ts'
import type { User } from './spare-keepers.ts'

/** The keepers of live sessions: started when needed, found again after a restart, taken leave of when they go. */
export interface KeeperProcesses {
  readonly count: number
  /** Those that have a keeper, or are just getting one. */
  readonly sessions: readonly SessionId[]
  has(session: SessionId): boolean
  /** The same once one that is being started stands, and one that is going has gone. Starts none. What one left that could not be read is
   *  tried once more, and where it still cannot, this throws: nobody knows then what that one's agent was given, and told. */
  stands(session: SessionId): Promise<boolean>
  /** Sends a command to the session's keeper; throws when there is none. */
  do(session: SessionId, command: KeeperCommand): Promise<unknown>
  /** Finds the session's keeper or starts one. */
  ensure(session: SessionId): Promise<void>
  /** Attaches to a keeper that outlived the daemon; false when it is gone, and then its outbox has been read and `lost` been called. Until
   *  then the session gets no other keeper. Throws `keeper_unavailable` when it neither answers nor ends, or its outbox cannot be read. */
  reattach(session: SessionId, lost?: () => void): Promise<boolean>
  /** Has the keeper leave, also one that is just being started, and resolves when it is gone. One that does not leave in
   *  time is killed. */
  end(session: SessionId, why: string, how?: EndHow): Promise<void>
  /** Resolves when the session has no keeper any more. */
  gone(session: SessionId): Promise<void>
  /** Ends the process at once, with everything in its cell. */
  kill(session: SessionId): void
  /** A user for a new session whose keeper waits already; null when there is none. */
  claimUser(): User | null
  /** A cell that stands already, for a new session of this rung; null when there is none. */
  claimReadyCell(rung: Rung): ReadyCell | null
  /** ReadyCells that wait for a session. */
  readonly readyCells: readonly SeenReadyCell[]
  /** Who says what each keeper is started with, and hears what becomes of it. None is started before. */
  listen(client: KeeperClient): void
  /** Has a keeper wait for a session from here on, where that is wanted. */
  makeReady(): void
  /** No keeper is started from here on: the daemon is about to leave, and takes them along. */
  startNoMore(): void
  readonly startsNoMore: boolean
  /** Lets go of every keeper, which lives on; resolves when nothing is left of those that waited for a session. */
  detach(): Promise<void>
}

export type EndHow = {
  /** Prompts that its agent has not read stay queued. */
  readonly unread?: 'kept'
  /** Whether it is still to end, once one that was being started stands: somebody may have changed their mind meanwhile. */
  readonly still?: () => boolean
}

export type KeeperProcessesOptions = {
  readonly folders: Pick<Folders, 'keeperSocket' | 'keepersLog' | 'outbox'>
  readonly host: KeeperHost
  readonly sources: Sources
  readonly clock: Clock
  /** How often each is asked whether it still answers; null for never. */
  readonly beatMs: number | null
  readonly log: (message: string) => void
}

/** What the keepers of sessions are kept for. */
export interface KeeperClient {
  /** What its keeper is to be started with. */
  describe(session: SessionId): Promise<{ readonly start: KeeperStart; readonly runAs: User | null }>
  /** The keeper is gone, and all it had to tell is stored. `why` is for one that did not say it. */
  gone(session: SessionId, why: string): void
  /** The keeper is gone, or as good as that, and what it had to tell cannot be read. The session gets no other one until it can. */
  unread(session: SessionId, failure: Failure): void
  /** What was described is not there: what was made for it is not needed. */
  notStarted(session: SessionId): void
  /** What a keeper that died had its agent saying when it last wrote that down. */
  saying(session: SessionId, frames: readonly LiveFrame[]): void
}

/** A session's keeper, with what is needed to reach it or to wait for it. */
type Life =
  | { readonly is: 'none' }
  | { readonly is: 'unread' }
  | { readonly is: 'finding'; readonly done: Promise<boolean> }
  | { readonly is: 'starting'; readonly done: Promise<void>; readonly cancel: AbortController }
  | { readonly is: 'live' | 'leaving'; readonly attachment: Attachment; readonly done: Promise<void> }

/** A keeper that leaves tells its agent, ends its cell and has the gate settle, each within seconds. After this it is stuck. */
const leaveMs = 20_000
/** How long the kernel may take to free the lock of a process that was killed. */
const killedMs = 5000
const endingsMax = 3
const storeRetryMs = 1000
/** For so long what a keeper left is tried to be read. A disk that is full and too many open files are mostly over by then; after it
 *  people are told, and whoever goes on with the session tries again. */
const readMs = 30_000
const readRetryMs = 1000
/** A keeper that owes so many answers in a row hangs. It is given longer than the gate, because its turn ends with it. */
const missedMax = 5

const died = 'The keeper died, and its cell with it'
const hung = 'The keeper answered nothing any more and was ended, and its cell with it'

const leavingFailure = () => new Failure('keeper_unavailable', 'Anchorhold is being shut down')
const none: Life = { is: 'none' }
const takenIn = ['taken_in', none] as const
const unreadable = ['unreadable', { is: 'unread' }] as const

/** Until somebody listens. */
const nobody: KeeperClient = {
  describe: () => Promise.reject(new Error('Nobody says what a keeper is started with')),
  gone() {},
  unread() {},
  notStarted() {},
  saying() {},
}

export function keeperProcesses({ folders, host, sources, clock, beatMs, log }: KeeperProcessesOptions): KeeperProcesses {
  /** Those that are not `none`. A daemon that comes back finds those that are unread by the log, in which that keeper has not gone. */
  const lives = new Map<SessionId, Life>()
  let detached = false
  let startsNoMore = false
  let client: KeeperClient = nobody

  const lifeOf = (session: SessionId): Life => lives.get(session) ?? none

  /** The one place where a life changes. */
  function move(session: SessionId, event: KeeperEvent, to: Life): void {
    const { is } = lifeOf(session)
    if (afterKeeper(is, event) !== to.is)
      throw new Error(`The keeper of "${session}" cannot be ${to.is} on ${event}: it is ${is}`)
    if (to.is === 'none') lives.delete(session)
    else lives.set(session, to)
  }

  async function attach(session: SessionId): Promise<void> {
    const closed = Promise.withResolvers<void>()
    let why = died
    const attachment = await sources.attach(`keeper/${session}`, folders.keeperSocket(session), closed.resolve)
    const done = closed.promise.then(async () => {
      if (detached) return
      move(session, 'closed', { is: 'leaving', attachment, done })
      const until = clock.elapsed() + readMs
      let isTaken = false
      await whenStorable(async () => {
        const failure = isTaken ? null : await takeIn(session, attachment.pid, until)
        if (detached) return
        isTaken = failure === null
        // Until that is stored there is to be no other keeper, which would be taken for this one.
        if (failure === null) client.gone(session, why)
        else client.unread(session, failure)
        if (failure === null) move(session, ...takenIn)
        else move(session, ...unreadable)
      })
      host.adjust()
    })
    move(session, 'attached', { is: 'live', attachment, done })
    const onHung = () => {
      log(`keeper of ${session} (process ${attachment.pid}) answers nothing: ending it`)
      why = hung
      endKeeper(session, attachment)
    }
    if (beatMs !== null) watchPulse(attachment, { clock, beatMs, missedMax, onHung })
  }

  /** Whoever answers there and does not hold the keeper's lock is let go of, and not ended: it is no keeper. */
  function endKeeper(session: SessionId, attachment: Attachment): void {
    if (!host.kill(session, attachment.pid)) attachment.close()
  }

  /** What became of a keeper is to be stored, however long the disk is full. */
  async function whenStorable(work: () => void | Promise<void>): Promise<void> {
    for (; !detached; await pause(clock, storeRetryMs)) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof Failure) || error.code !== 'storage_unavailable') throw error
      }
    }
  }

  /** Takes in what a keeper left, and tries again until then where that fails; null when all of it is stored. A daemon that is about to leave
   *  tries once, and the next one goes on with it. */
  async function takeIn(session: SessionId, pid: number | null, until: number): Promise<Failure | null> {
    for (let isTold = false; ; isTold = true) {
      try {
        await afterDeath(session, pid)
        return null
      } catch (error) {
        const failure = unreadFailure(session, error)
        if (detached || startsNoMore || clock.elapsed() >= until) return failure
        if (!isTold) log(`${failure.message}: trying again`)
        await pause(clock, readRetryMs)
        if (detached) return failure
      }
    }
  }

  function unreadFailure(session: SessionId, error: unknown): Failure {
    if (error instanceof Failure && isLost(error)) return error
    const why = error instanceof Error ? error.message : String(error)
    const outbox = folders.outbox(session)
    return new Failure('keeper_unavailable', `Cannot read what the keeper of session "${session}" left: ${why}`, {
      hint: `What its agent was given is known only from "${outbox}": see that this can be read and its disk written, then send a prompt. Where it never can, move it away, and what it holds is lost`,
      cause: error,
    })
  }

  /** A keeper that no longer listens may still be ending its cell: its lock says when it is gone. Then its file is read. */
  async function afterDeath(session: SessionId, pid: number | null): Promise<void> {
    if (!(await isFree(session, leaveMs))) {
      host.kill(session, pid)
      if (!(await isFree(session, killedMs)))
        throw new Failure('keeper_unavailable', `The keeper of session "${session}" neither answers nor ends`)
    }
    const source = `keeper/${session}` as const
    await sources.settled(source)
    const { records, last, saying } = await host.remains(session, sources.lastOf(source))
    // Some at a time: it may have left more than fits into memory.
    for await (const some of records) {
      sources.take(source, some)
      await sources.settled(source)
    }
    // When all of it was read: this is done again from the start where it was not, and people are told once.
    if (last !== null) sources.endsAt(source, last)
    client.saying(session, saying)
  }

  async function isFree(session: SessionId, withinMs: number): Promise<boolean> {
    for (const end = clock.elapsed() + withinMs; ; await pause(clock, 10)) {
      if (!host.isHeld(session)) return true
      if (clock.elapsed() >= end) return false
    }
  }

  async function attached(session: SessionId): Promise<boolean> {
    if (isLive(session)) return true
    return attach(session).then(
      () => true,
      () => false,
    )
  }

  /** One that `kill` came too early for, because nobody was attached to it yet, is ended now. */
  async function attachedUnlessEnded(session: SessionId, signal: AbortSignal): Promise<boolean> {
    if (!(await attached(session))) return false
    if (signal.aborted) kill(session)
    signal.throwIfAborted()
    return true
  }

  const isLive = (session: SessionId): boolean => {
    const life = lifeOf(session)
    return life.is === 'live' && life.attachment.open
  }

  /** One before it has gone by then, and what that left is taken in: what it had handed on counts as queued until it is. */
  async function startWhenNone(session: SessionId): Promise<void> {
    while (!isLive(session)) {
      const life = lifeOf(session)
      if (life.is === 'starting') return life.done
      if (startsNoMore || detached) throw leavingFailure()
      if (life.is === 'unread') await readAtLast(session)
      else if (life.is !== 'none') await life.done.catch(() => {})
      else return begin(session)
    }
  }

  function begin(session: SessionId): Promise<void> {
    const cancel = new AbortController()
    const { promise: done, resolve, reject } = Promise.withResolvers<void>()
    const life = { is: 'starting', done, cancel } as const
    move(session, 'wanted', life)
    start(session, cancel.signal)
      .catch((error: unknown) => {
        // It may have stood, and be on its way out; or be unread.
        if (lifeOf(session) === life) move(session, 'not_started', none)
        throw error
      })
      .then(resolve, reject)
    return done
  }

  async function start(session: SessionId, signal: AbortSignal): Promise<void> {
    let described = await client.describe(session)
    let endings = 0
    for (const end = clock.elapsed() + leaveMs; ; await pause(clock, 50)) {
      signal.throwIfAborted()
      // One that a daemon before this one started, and did not live to hear of.
      if (await attachedUnlessEnded(session, signal)) return
      const launched = await host.launch(described.start, described.runAs, signal)
      if (launched.ready) {
        if (await attachedUnlessEnded(session, signal)) return
        // It left at once, and has said why; or it died, and had begun by itself with what it was given.
        const failure = await takeIn(session, launched.pid, clock.elapsed() + readMs)
        if (failure !== null) {
          move(session, ...unreadable)
          throw failure
        }
        await whenStorable(() => client.gone(session, died))
        described = await client.describe(session)
      }
      signal.throwIfAborted()
      // The one before still holds the lock: it is leaving.
      if (!launched.ready && launched.code === 75) {
        if (clock.elapsed() < end) continue
        throw new Failure('keeper_unavailable', `Cannot start the keeper of session "${session}": the one before does not leave`)
      }
      if (!launched.ready && launched.lateMs !== undefined) throw lateFailure(described.start, launched.lateMs)
      // Somebody ended it before it was found; that says nothing about the session. It is tried again, within limits.
      if ((launched.ready || launched.code === null) && ++endings < endingsMax) continue
      const how = launched.ready ? 'as soon as it stood' : `with code ${launched.code}`
      throw new Failure('keeper_unavailable', `Cannot start the keeper of session "${session}": it ended ${how}`, {
        hint: `See ${folders.keepersLog}`,
      })
    }
  }

  /** The next one would take as long. What usually takes long is named: before it stands, a keeper finds what its cell is not to see. */
  function lateFailure({ place: { session, workspace }, policy }: KeeperStart, lateMs: number): Failure {
    const looks = `It first looks through all of "${workspace}" for what the repository filter hides, which takes long where that is large or its disk slow: give a session a smaller folder, or --repo-filter none, with which its cell sees everything there. `
    return new Failure(
      'keeper_unavailable',
      `Cannot start the keeper of session "${session}": it was not ready within ${lateMs / 1000} s`,
      { hint: `${policy.repo_filter === 'none' ? '' : looks}See ${folders.keepersLog}` },
    )
  }

  function kill(session: SessionId): void {
    const life = lifeOf(session)
    if (life.is === 'starting')
      life.cancel.abort(new Failure('keeper_unavailable', `The keeper of session "${session}" was ended`))
    else if (life.is === 'live' && life.attachment.open) endKeeper(session, life.attachment)
    // The number of one that has died may be another's by now: then only who holds its lock is meant.
    else if (keeperLives[life.is].isUnderWay) host.kill(session, null)
  }

  /** What could not be read for long is tried once more, and no longer: whoever asks now is not to wait as long again. */
  const readAtLast = (session: SessionId) => seek(session, () => whenStorable(() => client.gone(session, died)), 0)

  /** False when there is none any more, and what it left is taken in. */
  async function seek(session: SessionId, lost: () => void | Promise<void>, withinMs: number): Promise<boolean> {
    for (;;) {
      const life = lifeOf(session)
      if (isLive(session)) return true
      if (life.is === 'finding') return life.done
      if (detached) throw leavingFailure()
      if (life.is !== 'none' && life.is !== 'unread') {
        await life.done.catch(() => {})
        continue
      }
      const { promise: done, resolve, reject } = Promise.withResolvers<boolean>()
      const sought = { is: 'finding', done } as const
      move(session, 'sought', sought)
      find(session, lost, withinMs)
        .catch((error: unknown) => {
          // Nobody knows what it did: there is to be no other keeper, which would be taken for this one.
          if (lifeOf(session) === sought) move(session, ...unreadable)
          throw error
        })
        .then(resolve, reject)
      return done
    }
  }

  async function find(session: SessionId, lost: () => void | Promise<void>, withinMs: number): Promise<boolean> {
    // One that holds its lock and cannot be reached is about to stand, or to leave.
    for (const end = clock.elapsed() + leaveMs; ; await pause(clock, 10)) {
      if (await attached(session)) return true
      if (!host.isHeld(session) || clock.elapsed() >= end) break
    }
    const failure = await takeIn(session, null, clock.elapsed() + withinMs)
    if (failure !== null) throw failure
    await lost()
    move(session, ...takenIn)
    return false
  }

  /** Resolves when the session's keeper is past these. */
  async function past(session: SessionId, ...those: readonly KeeperLife[]): Promise<void> {
    for (let life = lifeOf(session); !detached && 'done' in life && those.includes(life.is); life = lifeOf(session))
      await life.done.catch(() => {})
  }

  return {
    get count() {
      return [...lives.values()].filter(({ is }) => is === 'live' || is === 'leaving').length
    },
    get sessions() {
      return [...lives].flatMap(([session, { is }]) => (keeperLives[is].isUnderWay ? [session] : []))
    },
    has: isLive,
    async stands(session) {
      for (;;) {
        const life = lifeOf(session)
        if (isLive(session)) return true
        if (life.is === 'none' || detached) return false
        if (life.is === 'unread') await readAtLast(session)
        else await life.done.catch(() => {})
      }
    },
    async do(session, command) {
      const life = lifeOf(session)
      if (!('attachment' in life)) throw new Failure('keeper_unavailable', `Session "${session}" has no keeper`)
      return life.attachment.do(command)
    },
    ensure: (session) =>
      startWhenNone(session).catch((error: unknown) => {
        client.notStarted(session)
        throw error
      }),
    reattach: (session, lost = () => {}) => seek(session, lost, readMs),
    async end(session, why, { still = () => true, ...keep } = {}) {
      await past(session, 'finding', 'starting')
      const life = lifeOf(session)
      if (!('attachment' in life) || !still()) return
      const inTime = clock.after(leaveMs, () => kill(session))
      // It answers by leaving, so the answer itself may not come.
      await Promise.race([life.attachment.do({ do: 'leave', why, ...keep }).catch(() => {}), life.done])
      await life.done
      inTime()
    },
    async gone(session) {
      await past(session, 'finding')
      const life = lifeOf(session)
      if ('attachment' in life) await life.done
    },
    kill,
    claimUser: host.claimUser,
    claimReadyCell: host.claimReadyCell,
    get readyCells() {
      return host.readyCells
    },
    listen: (listening) => void (client = listening),
    makeReady: host.makeReady,
    startNoMore() {
      startsNoMore = true
    },
    get startsNoMore() {
      return startsNoMore
    },
    async detach() {
      detached = true
      const discarded = host.discard()
      for (const life of lives.values()) if ('attachment' in life) life.attachment.close()
      await discarded
    },
  }
}
