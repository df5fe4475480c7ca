import { formatUsd } from '@anchorhold/protocol/money'
import { useState } from 'react'
import { type Bar, ceiling } from './chart.ts'

const width = 600
const height = 140

/** What was spent on each day. A tap anywhere over a day says its figures; a screen reader has them as a table. */
export function Days({ bars }: { readonly bars: readonly Bar[] }) {
  const most = Math.max(...bars.map(({ micros }) => micros))
  const top = ceiling(most)
  const step = width / bars.length
  const [chosen, setChosen] = useState<number | null>(null)
  const bar = chosen === null ? undefined : bars[chosen]
  return (
    <figure className="mt-4">
      <p className="mb-2 h-5 text-sm text-faint tabular-nums" aria-live="polite">
        {bar === undefined
          ? 'Each day: tap it for its figures'
          : `${bar.label}: ${formatUsd(bar.micros)} in ${bar.calls.toLocaleString()} calls`}
      </p>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        aria-hidden
        className="w-full touch-manipulation overflow-visible"
        onPointerLeave={({ pointerType }) => pointerType === 'mouse' && setChosen(null)}
      >
        {[0, 0.5, 1].map((share) => (
          <line key={share} x1={0} x2={width} y1={height * share} y2={height * share} className="stroke-line" strokeWidth={1} />
        ))}
        {bars.map(({ day, micros }, index) => {
          const tall = micros === 0 ? 0 : Math.max(3, (micros / top) * height)
          return (
            <g key={day} data-day={day} onPointerDown={() => setChosen(index)} onPointerEnter={() => setChosen(index)}>
              <rect
                x={index * step}
                y={0}
                width={step}
                height={height}
                className={index === chosen ? 'fill-raised' : 'fill-transparent'}
              />
              <rect
                x={index * step + step * 0.15}
                y={height - tall}
                width={step * 0.7}
                height={tall}
                rx={3}
                className={chosen === null || index === chosen ? 'fill-accent' : 'fill-accent opacity-50'}
              />
            </g>
          )
        })}
      </svg>
      <figcaption className="mt-1.5 flex justify-between text-xs text-faint tabular-nums">
        <span>{bars[0]?.label}</span>
        <span>top line {formatUsd(top)}</span>
        <span>{bars.at(-1)?.label}</span>
      </figcaption>
      <table className="sr-only">
        <caption>Spent on each of the last {bars.length} days</caption>
        <thead>
          <tr>
            <th scope="col">Day</th>
            <th scope="col">Spent</th>
            <th scope="col">Model calls</th>
          </tr>
        </thead>
        <tbody>
          {bars.map(({ day, label, micros, calls }) => (
            <tr key={day}>
              <th scope="row">{label}</th>
              <td>{formatUsd(micros)}</td>
              <td>{calls}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  )
}
