import type { UserId } from '@anchorhold/protocol/ids'

/** Streams that stand open, and whether whoever opened each may still watch. */
export interface Watches {
  /** Ends when the client goes, and when `stillMay` has become false by the next look. The first look is at once: what it was opened
   *  for may have taken long, and nobody looked again meanwhile. `all` names whose stream it is, when it shows all that they see. */
  open(stillMay: () => boolean, client: AbortSignal, all?: UserId | null): AbortController
  /** Somebody's access has changed: those who have lost theirs are cut off at once. */
  recheck(): void
  /** Somebody sees less than before, and no event tells them: their streams over everything end, so that they look anew. */
  seesLess(user: UserId): void
}

/** Why a stream ends when its reader has closed the connection. */
export const readerGone = 'The reader is gone'

export function watches(): Watches {
  const standing = new Map<AbortController, { readonly stillMay: () => boolean; readonly all: UserId | null }>()
  return {
    open(stillMay, client, all = null) {
      const end = new AbortController()
      client.addEventListener('abort', () => end.abort(readerGone), { once: true })
      standing.set(end, { stillMay, all })
      end.signal.addEventListener('abort', () => standing.delete(end), { once: true })
      if (client.aborted) end.abort(readerGone)
      else if (!stillMay()) end.abort()
      return end
    },
    recheck() {
      for (const [end, { stillMay }] of [...standing]) if (!stillMay()) end.abort()
    },
    seesLess(user) {
      for (const [end, { all }] of [...standing]) if (all === user) end.abort()
    },
  }
}
