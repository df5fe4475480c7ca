import { printableLine } from '@anchorhold/core/printable'
import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { requestsQuery } from '../live/queries.ts'

/** What the tab is called: how many wait for somebody, which is all that is seen of a tab behind others, and the screen. */
export function PageTitle({ name }: { readonly name: string }) {
  const count = useQuery(requestsQuery).data?.length ?? 0
  useEffect(() => {
    document.title = `${count === 0 ? '' : `(${count}) `}${printableLine(name)} · Anchorhold`
  }, [count, name])
  return null
}
