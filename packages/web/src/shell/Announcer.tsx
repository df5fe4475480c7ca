import type { SessionId } from '@anchorhold/protocol/ids'
import type { SessionState } from '@anchorhold/protocol/sessions'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { requestsQuery, sessionQuery } from '../live/queries.ts'

const nowhere = '' as SessionId

/** Tells a screen reader when somebody is needed and when the turn at hand is over, and nothing else: words that stream by would drown
 *  it. */
export function Announcer({ session }: { readonly session: SessionId | null }) {
  const count = useQuery(requestsQuery).data?.length ?? 0
  // Whoever shows the session asks for it; here it is only watched. It is the same query to the letter: the last one to look at a query says
  // how it is fetched again.
  const { data: shown } = useQuery({ ...sessionQuery(session ?? nowhere), enabled: false })
  const [said, setSaid] = useState('')
  const [before, setBefore] = useState<{ count: number; session: SessionId | null; state: SessionState | undefined }>({
    count,
    session,
    state: shown?.state,
  })
  if (count !== before.count || session !== before.session || shown?.state !== before.state) {
    setBefore({ count, session, state: shown?.state })
    if (count > before.count) setSaid(count === 1 ? 'One request waits for you' : `${count} requests wait for you`)
    else if (session === before.session && before.state === 'working' && shown !== undefined) setSaid(ends[shown.state] ?? '')
  }
  return (
    <p role="status" className="sr-only">
      {said}
    </p>
  )
}

const ends: Partial<Record<SessionState, string>> = {
  ready: 'The turn is over',
  interrupted: 'The turn was interrupted',
  failed: 'The session has failed',
  stopped: 'The session was stopped',
}
