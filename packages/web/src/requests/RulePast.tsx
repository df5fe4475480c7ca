import { printable } from '@anchorhold/core/printable'
import { useQuery } from '@tanstack/react-query'
import { daemon, wordsOf } from '../daemon.ts'
import { Backtest } from '../ui/Backtest.tsx'

/** What the rule of a request would have changed in the last 30 days, or why there is none. It is asked for when somebody looks. */
export function RulePast({ id }: { readonly id: string }) {
  const { data, error } = useQuery({
    queryKey: ['rule', id],
    queryFn: () => daemon.requestRule({ params: { id } }),
    staleTime: 60_000,
    gcTime: 60_000,
  })
  if (error !== null) return <p className="text-sm text-danger">{wordsOf(error)}</p>
  if (data === undefined) return <p className="text-sm text-faint">Looking at the last 30 days…</p>
  if (data.refused !== null)
    return <p className="text-sm text-soft [overflow-wrap:anywhere]">No rule: {printable(data.refused)}</p>
  if (data.past === null) return null
  const { denied, asked, allowed, actions } = data.past
  return denied + asked + allowed === 0 ? (
    <p className="text-sm text-soft">
      In the last 30 days it would have changed nothing ({actions.toLocaleString()} {actions === 1 ? 'action' : 'actions'} looked
      at).
    </p>
  ) : (
    <Backtest found={data.past} />
  )
}
