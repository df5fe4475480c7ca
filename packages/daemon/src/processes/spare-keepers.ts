import type { Folders } from '../folders.ts'
import { prepare, type Prepared } from './launch.ts'
import type { Runtime } from './runtime.ts'

export type User = { readonly uid: number; readonly gid: number }

/** Keepers that have loaded the SDK and wait for a session: one at a time, so that a new session does not wait for it. */
export interface SpareKeepers {
  /** A keeper for that user: the spare one, or a new one. */
  take(user: User | null): Prepared
  /** A keeper for that user, and not the spare one. */
  make(user: User | null): Prepared
  /** Has one wait from here on. */
  makeReady(): void
  /** As root a keeper's user is settled when it starts: a new session may take the user of the spare one. */
  claimUser(): User | null
  discard(): void
}

export type SpareKeepersOptions = {
  readonly folders: Folders
  readonly runtime: Runtime
  readonly spare: boolean
  readonly newUser: () => User | null
  readonly log: (message: string) => void
}

type Spare = { readonly prepared: Prepared; readonly user: User | null }

/** The next one is loaded when the session that took the last one has had time to start. */
const refillMs = 2000
/** Where it could not be, as on a full disk, it is tried again so much later. */
const againMs = 10_000
/** How long a claimed user's keeper waits for its session. */
const claimedMs = 60_000

export function spareKeepers({ folders, runtime, spare, newUser, log }: SpareKeepersOptions): SpareKeepers {
  let waiting: Spare | null = null
  let timer: NodeJS.Timeout | null = null
  const claimed = new Map<number, Spare>()

  const make = (user: User | null) =>
    prepare({
      node: runtime.node,
      // There may be dozens of them, and what passes through one is soon forgotten: a small nursery is enough.
      options: ['--max-semi-space-size=2'],
      script: runtime.keeper,
      args: [],
      // The SDK looks for settings in the home of its process: there are none.
      env: { HOME: '/nonexistent' },
      runAs: user,
      cwd: '/',
      log: folders.keepersLog,
    })

  function refill(afterMs: number): void {
    if (!spare || timer !== null) return
    timer = setTimeout(() => {
      timer = null
      if (waiting?.prepared.alive) return
      try {
        const user = waiting?.user ?? newUser()
        waiting = { prepared: make(user), user }
      } catch (error) {
        log(`a spare keeper: ${String(error)}`)
        refill(againMs)
      }
    }, afterMs)
    timer.unref()
  }
  function takeWaiting(): Spare | null {
    const one = waiting?.prepared.alive ? waiting : null
    if (one !== null) waiting = null
    refill(refillMs)
    return one
  }

  return {
    make,
    makeReady: () => refill(0),
    take(user) {
      if (user === null) return takeWaiting()?.prepared ?? make(null)
      const one = claimed.get(user.uid)
      claimed.delete(user.uid)
      return one?.prepared.alive ? one.prepared : make(user)
    },
    claimUser() {
      // One that runs as the daemon does is there for whoever takes it.
      const user = waiting?.user ?? null
      const one = user === null ? null : takeWaiting()
      if (user === null || one === null) return null
      claimed.set(user.uid, one)
      setTimeout(() => {
        if (claimed.get(user.uid) !== one) return
        claimed.delete(user.uid)
        one.prepared.discard()
      }, claimedMs).unref()
      return user
    },
    discard() {
      if (timer !== null) clearTimeout(timer)
      for (const one of [...claimed.values(), ...(waiting === null ? [] : [waiting])]) one.prepared.discard()
    },
  }
}
