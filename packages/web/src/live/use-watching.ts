import type { SessionId } from '@anchorhold/protocol/ids'
import { useEffect } from 'react'
import { daemon, leave as leaveFor } from '../daemon.ts'

const sayMs = 12_000

/** Says that a session is in front of somebody for as long as it is, so that no device rings for what they see anyway. */
export function useWatching(session: SessionId | null): void {
  useEffect(() => {
    if (session === null) return
    const end = new AbortController()
    const leave = () => leaveFor(session)
    const say = () => {
      if (document.visibilityState === 'visible') void daemon.watching({ params: { id: session } }).catch(() => {})
    }
    say()
    const timer = setInterval(say, sayMs)
    document.addEventListener('visibilitychange', () => (document.visibilityState === 'visible' ? say() : leave()), {
      signal: end.signal,
    })
    addEventListener('pagehide', leave, { signal: end.signal })
    return () => {
      clearInterval(timer)
      end.abort()
      leave()
    }
  }, [session])
}
