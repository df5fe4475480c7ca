import type { SessionId } from '@anchorhold/protocol/ids'
import { formatUsd } from '@anchorhold/protocol/money'
import { useQuery } from '@tanstack/react-query'
import { spentQuery } from './spent-query.ts'

/** What model calls have cost since then. */
export function Spent({ session, since }: { readonly session: SessionId | null; readonly since: number }) {
  const { data } = useQuery(spentQuery(session, since))
  if (data === undefined) return null
  const { real, play } = data
  return (
    <section aria-label="What it cost" className="card flex flex-wrap items-baseline justify-between gap-x-6 gap-y-1 p-5 text-sm">
      <h2 className="text-base font-semibold tracking-tight">What it cost</h2>
      <p className="text-soft tabular-nums">
        {real.calls + play.calls === 0
          ? 'No model was called in that time.'
          : [
              ...(real.calls > 0 || play.calls === 0 ? [`${formatUsd(real.micros)} in ${calls(real.calls)}`] : []),
              ...(play.calls > 0 ? [`${formatUsd(play.micros)} of play money in ${calls(play.calls)}`] : []),
            ].join(' · ')}
      </p>
    </section>
  )
}

const calls = (count: number) => `${count.toLocaleString()} ${count === 1 ? 'model call' : 'model calls'}`
