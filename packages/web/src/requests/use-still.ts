import { useEffect, useLayoutEffect, useRef, useState } from 'react'

/** About as long as somebody needs to see that something else is under their finger. */
const stillMs = 600

/** Whether a list stands still, by the ids of what it shows. One that has just moved takes no taps for a moment: what was aimed at may be
 *  gone, and something else in its place. What is added at its end moves nothing. */
export function useStill(ids: readonly string[]): boolean {
  const before = useRef(ids)
  const [movedAt, setMovedAt] = useState<number | null>(null)
  useLayoutEffect(() => {
    const moved = before.current.some((id, index) => ids[index] !== id)
    before.current = ids
    if (moved) setMovedAt(performance.now())
  })
  useEffect(() => {
    if (movedAt === null) return
    const timer = setTimeout(() => setMovedAt(null), stillMs)
    return () => clearTimeout(timer)
  }, [movedAt])
  return movedAt === null
}
