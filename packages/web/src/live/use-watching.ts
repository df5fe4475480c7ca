import type { SessionId } from '@anchorhold/protocol/ids'
import { useEffect } from 'react'
import { daemon } from '../daemon.ts'

const sayMs = 25_000

/** Says that a session is in front of somebody for as long as it is, so that no device rings for what they see anyway. */
export function useWatching(session: SessionId | null): void {
  useEffect(() => {
    if (session === null) return
    const say = () => {
      if (document.visibilityState === 'visible') void daemon.watching({ params: { id: session } }).catch(() => {})
    }
    say()
    const timer = setInterval(say, sayMs)
    document.addEventListener('visibilitychange', say)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', say)
    }
  }, [session])
}
