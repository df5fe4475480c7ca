import type { SessionId, UserId } from '@anchorhold/protocol/ids'

/** Who looks at which session right now. It is forgotten with the process: whoever still looks says so again. */
export interface Presence {
  /** Somebody has it in front of them. */
  seen(user: UserId, session: SessionId): void
  /** They have put it away. Another window of theirs that still has it in front says so again soon. */
  left(user: UserId, session: SessionId): void
  /** Somebody follows its stream until the signal. */
  follow(user: UserId, session: SessionId, signal: AbortSignal): void
  isWatched(user: UserId, session: SessionId): boolean
}

/** A page says that it is looked at more often than this. */
const seenMs = 30_000
const keptMax = 10_000

export function presence(now: () => number): Presence {
  const seen = new Map<string, number>()
  const followed = new Map<string, number>()
  const key = (user: UserId, session: SessionId) => `${user} ${session}`
  return {
    seen(user, session) {
      if (seen.size >= keptMax) seen.clear()
      seen.set(key(user, session), now())
    },
    left: (user, session) => void seen.delete(key(user, session)),
    follow(user, session, signal) {
      if (signal.aborted) return
      const name = key(user, session)
      const count = (by: 1 | -1) => followed.set(name, (followed.get(name) ?? 0) + by)
      count(1)
      signal.addEventListener(
        'abort',
        () => {
          count(-1)
          if (followed.get(name) === 0) followed.delete(name)
        },
        { once: true },
      )
    },
    isWatched: (user, session) =>
      followed.has(key(user, session)) || now() - (seen.get(key(user, session)) ?? -Infinity) < seenMs,
  }
}
