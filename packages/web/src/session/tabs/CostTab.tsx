import { printableLine } from '@anchorhold/core/printable'
import { formatUsd } from '@anchorhold/protocol/money'
import type { Session } from '@anchorhold/protocol/sessions'
import { useQuery } from '@tanstack/react-query'
import { wordsOf } from '../../daemon.ts'
import { costQuery } from '../../live/queries.ts'
import { Empty, Trouble } from '../../ui/controls.tsx'
import { clockTime } from '../../ui/time.ts'
import { Pane } from './Pane.tsx'

/** What the session has cost of what it may, by model and by turn. */
export function CostTab({ session }: { readonly session: Session }) {
  const { data, error } = useQuery(costQuery(session))
  const { cost_micros: cost, budget_micros: budget } = session
  const share = budget === null || budget === 0 ? 0 : Math.min(1, cost / budget)
  return (
    <Pane name="Cost">
      <section aria-label="Total" className="card grid gap-1 p-5">
        <p className="text-sm text-soft">{session.simulated ? 'Rehearsal play money: no model was called' : 'Spent so far'}</p>
        <p className="text-3xl font-semibold tracking-tight tabular-nums">
          {formatUsd(cost)}
          {budget !== null && <span className="text-lg font-normal text-faint"> of {formatUsd(budget)}</span>}
        </p>
        {budget === null ? (
          <p className="text-sm text-faint">This session has no budget of its own.</p>
        ) : (
          <svg
            role="meter"
            aria-label="Spent of the budget"
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={Math.round(share * 100)}
            viewBox="0 0 100 1"
            preserveAspectRatio="none"
            className="mt-1 h-2 w-full overflow-hidden rounded-full bg-raised"
          >
            <rect width={share * 100} height={1} className={share >= 0.8 ? 'fill-danger' : 'fill-accent'} />
          </svg>
        )}
      </section>
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data !== undefined && data.models.length > 0 && (
        <Table
          title="By model"
          head={['Model', 'Calls', 'Read', 'Written', 'Cost']}
          rows={data.models.map((one) => [
            printableLine(one.key),
            one.calls,
            one.tokens.input + one.tokens.cache_read + one.tokens.cache_write,
            one.tokens.output,
            formatUsd(one.cost_micros),
          ])}
        />
      )}
      {data !== undefined && data.turns.length > 0 && (
        <Table
          title="By turn"
          head={['Turn', 'Calls', 'Read', 'Written', 'Cost']}
          rows={data.turns
            .toReversed()
            .map((one) => [
              `${clockTime(one.at)} ${printableLine(one.title ?? 'Without a prompt')}`,
              one.calls,
              one.input,
              one.output,
              formatUsd(one.cost_micros),
            ])}
        />
      )}
      {data !== undefined && data.turns.length === 0 && <Empty title="Nothing spent yet" />}
    </Pane>
  )
}

function Table({
  title,
  head,
  rows,
}: {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
}) {
  return (
    <section aria-label={title} tabIndex={0} className="card overflow-x-auto px-4 py-3">
      <table className="w-full text-sm">
        <caption className="pb-2 text-left font-semibold">{title}</caption>
        <thead>
          <tr className="text-left text-xs text-faint">
            {head.map((name, index) => (
              <th key={name} scope="col" className={`py-1 font-medium ${index === 0 ? '' : 'pl-3 text-right'}`}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at} className="border-t border-line">
              {row.map((cell, index) => (
                <td
                  key={head[index]}
                  className={`py-1.5 align-top ${index === 0 ? '[overflow-wrap:anywhere]' : 'pl-3 text-right whitespace-nowrap tabular-nums'}`}
                >
                  {index === 0 ? (
                    <span className="line-clamp-2">{cell}</span>
                  ) : typeof cell === 'number' ? (
                    cell.toLocaleString()
                  ) : (
                    cell
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
