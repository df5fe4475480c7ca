import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { requestsQuery } from '../live/queries.ts'

/** Tells a screen reader when somebody is needed, and nothing else: words that stream by would drown it. It also stands in the
 *  title, which is all that is seen of a tab behind others. */
export function Announcer() {
  const count = useQuery(requestsQuery).data?.length ?? 0
  const [said, setSaid] = useState('')
  const [before, setBefore] = useState(count)
  if (count !== before) {
    setBefore(count)
    if (count > before) setSaid(count === 1 ? 'One request waits for you' : `${count} requests wait for you`)
  }
  useEffect(() => {
    document.title = count === 0 ? 'Anchorhold' : `(${count}) Anchorhold`
  }, [count])
  return (
    <p role="status" className="sr-only">
      {said}
    </p>
  )
}
