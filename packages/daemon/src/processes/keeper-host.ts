import { systemClock } from '@anchorhold/link/clock'
import { folderDisk } from '@anchorhold/link/disk'
import { isLocked, lockHolder, tellsLockHolders } from '@anchorhold/link/lock'
import { type DeadOutbox, readDeadOutbox } from '@anchorhold/link/outbox'
import type { LiveFrame } from '@anchorhold/protocol/events'
import { Failure } from '@anchorhold/protocol/failures'
import { newSessionId, type SessionId } from '@anchorhold/protocol/ids'
import type { KeeperPlace, KeeperStart } from '@anchorhold/protocol/keeper-start'
import type { Rung } from '@anchorhold/protocol/rungs'
import { noExtras } from '@anchorhold/protocol/sessions'
import { randomBytes } from 'node:crypto'
import { type Folders, makeFolder } from '../folders.ts'
import { removeTrees } from '../workspace/trees.ts'
import { markSettled, markUnsettled } from '../workspace/unsettled.ts'
import { enterCgroups, removeCgroups } from './cgroups.ts'
import { keeperPlace } from './keeper-place.ts'
import { endProcess, type Launched } from './launch.ts'
import { type ReadyCell, readyCells, type ReadyCellsOptions, type SeenReadyCell } from './ready-cells.ts'
import { reapCells } from './reap.ts'
import { agentOf, type Runtime } from './runtime.ts'
import { readSaying } from './saying.ts'
import { spareKeepers, type User } from './spare-keepers.ts'

/** Keepers as the machine has them: processes, locks and files. */
export interface KeeperHost {
  /** Resolves when the keeper says that it stands, or has ended. */
  launch(start: KeeperStart, runAs: User | null, signal: AbortSignal): Promise<Launched>
  /** Whether a process holds the lock of the session's keeper. */
  isHeld(session: SessionId): boolean
  /** Ends the session's keeper: the process that holds its lock. The number that it gave itself is believed only where the kernel does
   *  not tell who holds a lock, and never by root: who gets out of a cell can answer in its keeper's place, and name any process. False
   *  when nobody was ended. */
  kill(session: SessionId, said: number | null): boolean
  /** What a keeper that is gone has left: its outbox after a number, and what its agent was saying. It may be asked for again. */
  remains(session: SessionId, after: number): Promise<Remains>
  /** A user for a new session whose keeper waits already; null when there is none. */
  claimUser(): User | null
  /** A cell of this rung that stands ready, for a new session; null where none does. */
  claimReadyCell(rung: Rung): ReadyCell | null
  /** ReadyCells that wait for a session. */
  readonly readyCells: readonly SeenReadyCell[]
  /** The number of busy keepers has changed. */
  adjust(): void
  /** Has a keeper wait for a session from here on, where that is wanted. */
  makeReady(): void
  /** Lets go of keepers that were made ready and have no session. */
  discard(): Promise<void>
}
export type Remains = DeadOutbox & { readonly saying: readonly LiveFrame[] }

export type KeeperHostOptions = {
  readonly folders: Folders
  readonly runtime: Runtime
  /** Keep a keeper at hand that has loaded everything and waits for its session. */
  readonly spare: boolean
  /** As root: a user that no other session has. */
  readonly newUser: () => User | null
  readonly pools: ReadyCellsOptions['pools']
  /** The root of cells of a rung that name no image. */
  readonly rootOf: (rung: Rung) => string | null
  readonly limits: KeeperPlace['place']['limits']
  readonly busy: ReadyCellsOptions['busy']
  /** Whether there is such a session. */
  readonly isOwned: (session: SessionId) => boolean
  readonly log: (message: string) => void
}

export function keeperHost({
  folders,
  runtime,
  spare,
  newUser,
  pools,
  rootOf,
  limits,
  busy,
  isOwned,
  log,
}: KeeperHostOptions): KeeperHost {
  const spares = spareKeepers({ folders, runtime, spare, newUser, log })
  const pool = readyCells({ pools, clock: systemClock, busy, make: makePlace, clear, log })

  function makePlace(rung: Rung) {
    const session = newSessionId(randomBytes)
    const runAs = newUser()
    markUnsettled(folders, session)
    for (const each of [folders.session(session), folders.home(session)]) makeFolder(each, 0o700, runAs)
    makeFolder(folders.workspace(session), 0o755, runAs)
    const workspace = folders.workspace(session)
    const wanted = { session, runAs, workspace, rung, root: rootOf(rung), extras: noExtras }
    const place = keeperPlace({ folders, runtime, limits }, wanted)
    const prepared = spares.make(runAs)
    if (prepared.pid !== null) enterCgroups(place.cgroups, prepared.pid)
    prepared.tell(JSON.stringify({ place, agent: agentOf(runtime) } satisfies KeeperPlace))
    return { session, runAs, prepared }
  }

  async function clear(session: SessionId): Promise<void> {
    // Its keeper could not be started; it has its folder all the same.
    if (isOwned(session)) return
    await removeCgroups(session)
    await removeTrees([folders.session(session), folders.windows(session)])
    markSettled(folders, session)
  }

  return {
    launch(start, runAs, signal) {
      const { session, cgroups } = start.place
      const prepared = pool.take(session) ?? spares.take(runAs)
      return prepared.begin({ input: JSON.stringify(start), onSpawned: (pid) => enterCgroups(cgroups, pid), signal })
    },
    isHeld: (session) => isLocked(folders.keeperLock(session)),
    kill(session, said) {
      const isRoot = process.getuid?.() === 0
      const pid = tellsLockHolders() ? lockHolder(folders.keeperLock(session)) : isRoot ? null : said
      if (pid === null) return false
      endProcess(pid)
      return true
    },
    async remains(session, after) {
      await removeCgroups(session)
      await reapCells(runtime, [folders.cell(session)]).catch((error: unknown) => {
        const why = error instanceof Error ? error.message : String(error)
        throw new Failure(
          'keeper_unavailable',
          `What the keeper of session "${session}" left in its cell has not ended: ${why}`,
          {
            hint: 'Its agent may still be at work in its folder. Look for its processes, and end them; then stop the session again',
            cause: error,
          },
        )
      })
      const left = await readDeadOutbox(folderDisk(folders.outbox(session)), after)
      return { ...left, saying: await readSaying(folders.saying(session)) }
    },
    claimUser: spares.claimUser,
    claimReadyCell(rung) {
      const claimed = pool.claim(rung)
      pool.adjust()
      return claimed
    },
    get readyCells() {
      return pool.waiting
    },
    adjust: pool.adjust,
    makeReady() {
      spares.makeReady()
      pool.adjust()
    },
    async discard() {
      spares.discard()
      await pool.discard()
    },
  }
}
