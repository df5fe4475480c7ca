import { folderDisk } from '@anchorhold/link/disk'
import { takeLock } from '@anchorhold/link/lock'
import { readDeadOutbox } from '@anchorhold/link/outbox'
import { LiveFrame } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { KeeperStart, OutboxRecord } from '@anchorhold/protocol/link'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Folders } from '../folders.ts'
import { cgroupsOf, enterCgroups, withdrawCgroups } from './cgroups.ts'
import { endProcess, type Launched } from './launch.ts'
import type { Runtime } from './runtime.ts'
import { spareKeepers, type User } from './spare-keepers.ts'

/** Keepers as the machine has them: processes, locks and files. */
export interface KeeperHost {
  /** Resolves when the keeper says that it stands, or has ended. */
  launch(start: KeeperStart, runAs: User | null, signal: AbortSignal): Promise<Launched>
  /** Whether a process holds the lock of the session's keeper. */
  isHeld(session: SessionId): boolean
  kill(pid: number): void
  /** What a keeper that is gone has left: its outbox after a number, and what its agent was saying. It may be asked for again. */
  remains(session: SessionId, after: number): Promise<Remains>
  /** A user for a new session whose keeper waits already; null when there is none. */
  claimUser(): User | null
  /** Has a keeper wait for a session from here on, where that is wanted. */
  makeReady(): void
  /** Lets go of keepers that were made ready and have no session. */
  discard(): void
}
export type Remains = { readonly records: readonly OutboxRecord[]; readonly saying: readonly LiveFrame[] }

export type KeeperHostOptions = {
  readonly folders: Folders
  readonly runtime: Runtime
  /** Keep a keeper at hand that has loaded everything and waits for its session. */
  readonly spare: boolean
  /** As root: a user that no other session has. */
  readonly newUser: () => User | null
}

export function keeperHost({ folders, runtime, spare, newUser }: KeeperHostOptions): KeeperHost {
  const spares = spareKeepers({ folders, runtime, spare, newUser })
  return {
    launch: (start, runAs, signal) =>
      spares.take(runAs).begin({ input: JSON.stringify(start), onSpawned: (pid) => enterCgroups(start.cgroups, pid), signal }),
    isHeld(session) {
      // The file is the keeper's: one that the daemon made would be closed to the keeper's user.
      if (!existsSync(folders.keeperLock(session))) return false
      const lock = takeLock(folders.keeperLock(session))
      lock?.release()
      return lock === null
    },
    kill: endProcess,
    async remains(session, after) {
      withdrawCgroups(cgroupsOf(session))
      const records = await readDeadOutbox(folderDisk(folders.outbox(session)), after)
      return { records, saying: await readSaying(folders.saying(session)) }
    },
    claimUser: spares.claimUser,
    makeReady: spares.makeReady,
    discard: spares.discard,
  }
}

/** A delta a line. The file may be missing, and its last line cut off by the crash. It stays until the next keeper begins it
 *  anew: this daemon may die before what is in it is stored. */
async function readSaying(path: string): Promise<readonly LiveFrame[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text.split('\n').flatMap((line) => {
    try {
      return [LiveFrame.parse(JSON.parse(line))]
    } catch {
      return []
    }
  })
}
