import type { Attachment } from '@anchorhold/link/attach'
import { folderDisk } from '@anchorhold/link/disk'
import { takeLock } from '@anchorhold/link/lock'
import { readDeadOutbox } from '@anchorhold/link/outbox'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { KeeperCommand, KeeperStart } from '@anchorhold/protocol/link'
import { setTimeout as wait } from 'node:timers/promises'
import type { Folders } from '../folders.ts'
import { cgroupsOf, enterCgroups, withdrawCgroups } from './cgroups.ts'
import { launch } from './launch.ts'
import type { Runtime } from './runtime.ts'
import type { Sources } from './sources.ts'

/** The keepers of live sessions: started when needed, found again after a restart, taken leave of when they go. */
export interface KeeperProcesses {
  readonly count: number
  has(session: SessionId): boolean
  /** Sends a command to the session's keeper; throws when there is none. */
  do(session: SessionId, command: KeeperCommand): Promise<unknown>
  /** Finds the session's keeper or starts one. */
  ensure(session: SessionId): Promise<void>
  /** Attaches to a keeper that outlived the daemon; false when it is gone, and then its outbox has been read. */
  reattach(session: SessionId): Promise<boolean>
  /** Resolves when the session has no keeper any more. */
  gone(session: SessionId): Promise<void>
  /** Ends the process at once, with everything in its cell. */
  kill(session: SessionId): void
  detach(): void
}

export type KeeperProcessesOptions = {
  readonly folders: Folders
  readonly runtime: Runtime
  readonly sources: Sources
  readonly describe: (
    session: SessionId,
  ) => Promise<{ readonly start: KeeperStart; readonly runAs: { uid: number; gid: number } | null }>
  /** The keeper is gone, and all it had to tell is stored. */
  readonly onGone: (session: SessionId) => void
}

type Live = { readonly attachment: Attachment; readonly gone: Promise<void> }

export function keeperProcesses({ folders, runtime, sources, describe, onGone }: KeeperProcessesOptions): KeeperProcesses {
  const live = new Map<SessionId, Live>()
  const ensuring = new Map<SessionId, Promise<void>>()
  let detached = false

  async function attach(session: SessionId): Promise<void> {
    const closed = Promise.withResolvers<void>()
    const attachment = await sources.attach(`keeper/${session}`, folders.keeperSocket(session), closed.resolve)
    const gone = closed.promise.then(async () => {
      if (detached) return
      await afterDeath(session)
      if (live.get(session)?.attachment === attachment) live.delete(session)
      onGone(session)
    })
    live.set(session, { attachment, gone })
  }

  /** A keeper that no longer listens may still be ending its cell: its lock says when it is gone. Then its file is read. */
  async function afterDeath(session: SessionId): Promise<void> {
    for (;;) {
      const lock = takeLock(folders.keeperLock(session))
      if (lock !== null) {
        lock.release()
        break
      }
      await wait(10)
    }
    withdrawCgroups(cgroupsOf(session))
    await sources.settled()
    const source = `keeper/${session}` as const
    sources.take(source, await readDeadOutbox(folderDisk(folders.outbox(session)), 0))
    await sources.settled()
  }

  async function start(session: SessionId): Promise<void> {
    await live.get(session)?.gone
    const { start, runAs } = await describe(session)
    for (;;) {
      const launched = await launch({
        node: runtime.node,
        script: runtime.keeper,
        args: [],
        // The SDK looks for settings in the home of its process: it finds an empty one.
        env: { HOME: folders.session(session) },
        runAs,
        cwd: '/',
        log: folders.keeperLog(session),
        input: JSON.stringify(start),
        onSpawned: (pid) => enterCgroups(start.cgroups, pid),
      })
      if (launched.ready) return attach(session)
      // The one before still holds the lock: it is leaving.
      if (launched.code !== 75) {
        throw new Failure(
          'keeper_unavailable',
          `Cannot start the keeper of session "${session}": it ended with code ${launched.code}`,
          {
            hint: `See ${folders.keeperLog(session)}`,
          },
        )
      }
      await wait(50)
    }
  }

  return {
    get count() {
      return live.size
    },
    has: (session) => live.get(session)?.attachment.open ?? false,
    async do(session, command) {
      const one = live.get(session)
      if (one === undefined) throw new Failure('keeper_unavailable', `Session "${session}" has no keeper`)
      return one.attachment.do(command)
    },
    ensure(session) {
      if (live.get(session)?.attachment.open) return Promise.resolve()
      const running = ensuring.get(session) ?? start(session).finally(() => ensuring.delete(session))
      ensuring.set(session, running)
      return running
    },
    async reattach(session) {
      try {
        await attach(session)
        return true
      } catch {
        await afterDeath(session)
        return false
      }
    },
    gone: (session) => live.get(session)?.gone ?? Promise.resolve(),
    kill(session) {
      const pid = live.get(session)?.attachment.pid
      if (pid === undefined) return
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has gone by itself.
      }
    },
    detach() {
      detached = true
      for (const { attachment } of live.values()) attachment.close()
    },
  }
}
