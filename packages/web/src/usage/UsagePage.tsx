import { printableLine } from '@anchorhold/core/printable'
import type { Usage } from '@anchorhold/protocol/api/money'
import { formatUsd } from '@anchorhold/protocol/money'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { wordsOf } from '../daemon.ts'
import { usageQuery } from '../live/queries.ts'
import { PageHeader } from '../shell/PageHeader.tsx'
import { Button, Trouble } from '../ui/controls.tsx'
import { lastDays } from './chart.ts'
import { Days } from './Days.tsx'

const daysShown = 30
const listedMax = 12

/** What was spent: by day, by session, by model. Play money stands apart. */
export function UsagePage() {
  const { data, error } = useQuery(usageQuery)
  return (
    <>
      <PageHeader title="Usage" />
      <div className="scroll flex-1 px-4 pb-10 lg:px-8">
        <div className="mx-auto grid w-full max-w-2xl grid-cols-1 gap-4">
          {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
          {data !== undefined && <Figures usage={data} />}
        </div>
      </div>
    </>
  )
}

function Figures({ usage }: { readonly usage: Usage }) {
  // Who has spent nothing yet is shown what the rehearsal would have cost.
  const simulated = usage.total.calls === 0 && usage.simulated.calls > 0
  const total = simulated ? usage.simulated : usage.total
  const bars = lastDays(usage.days, simulated, Date.now(), daysShown)
  const month = bars.reduce((sum, { micros }) => sum + micros, 0)
  const mine = <T extends { simulated: boolean }>(list: readonly T[]) => list.filter((one) => one.simulated === simulated)
  return (
    <>
      <section aria-label="Total" className="card grid gap-1 p-5">
        <p className="text-sm text-soft">{simulated ? 'Rehearsal play money: no model was called' : 'Total spent'}</p>
        <p className="text-4xl font-semibold tracking-tight tabular-nums">{formatUsd(total.cost_micros)}</p>
        <p className="text-sm text-faint tabular-nums">
          {total.calls.toLocaleString()} model calls · {formatUsd(month)} in the last {daysShown} days
        </p>
        <Days bars={bars} />
      </section>
      <Ranking
        title="By session"
        rows={[
          ...mine(usage.sessions).map(({ id, name, cost_micros: micros, calls }) => ({
            key: id,
            name: (
              <Link to="/sessions/$id" params={{ id }} className="rounded underline-offset-4 hover:underline">
                {printableLine(name)}
              </Link>
            ),
            micros,
            calls,
          })),
          ...mine(usage.removed).map(({ cost_micros: micros, calls }) => ({ key: '', name: 'Removed sessions', micros, calls })),
        ]}
      />
      <Ranking
        title="By model"
        rows={mine(usage.models).map(({ model, cost_micros: micros, calls }) => ({
          key: model,
          name: printableLine(model),
          micros,
          calls,
        }))}
      />
      {!simulated && usage.simulated.calls > 0 && (
        <p className="px-1 text-sm text-faint">
          Apart from this, the rehearsal has spent {formatUsd(usage.simulated.cost_micros)} of play money.
        </p>
      )}
    </>
  )
}

type Ranked = { readonly key: string; readonly name: ReactNode; readonly micros: number; readonly calls: number }

function Ranking({ title, rows }: { readonly title: string; readonly rows: readonly Ranked[] }) {
  const [all, setAll] = useState(false)
  if (rows.length === 0) return null
  const most = Math.max(1, ...rows.map(({ micros }) => micros))
  const shown = all ? rows : rows.slice(0, listedMax)
  return (
    <section aria-label={title} className="card p-5">
      <h2 className="font-semibold tracking-tight">{title}</h2>
      <ul className="mt-3 grid grid-cols-1 gap-3">
        {shown.map(({ key, name, micros, calls }) => (
          <li key={key}>
            <div className="flex items-baseline justify-between gap-4 text-sm">
              <span className="truncate">{name}</span>
              <span className="shrink-0 text-soft tabular-nums">
                {formatUsd(micros)} <span className="text-faint">· {calls}</span>
                <span className="sr-only"> calls</span>
              </span>
            </div>
            <svg
              aria-hidden
              viewBox="0 0 100 1"
              preserveAspectRatio="none"
              className="mt-1.5 h-1.5 w-full overflow-hidden rounded-full bg-raised"
            >
              <rect width={Math.max(0.5, (micros / most) * 100)} height={1} className="fill-accent" />
            </svg>
          </li>
        ))}
      </ul>
      {!all && rows.length > listedMax && (
        <Button look="ghost" className="mt-3 -ml-2" onClick={() => setAll(true)}>
          Show all {rows.length.toLocaleString()}
        </Button>
      )}
    </section>
  )
}
