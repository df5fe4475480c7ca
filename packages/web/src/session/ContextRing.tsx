import type { ContextUse } from '@anchorhold/protocol/sessions'

const radius = 6.5
const round = 2 * Math.PI * radius
/** Below this the agent will soon have to forget. */
const scarce = 0.15

/** How much of what its model can be told at once is left to a session. */
export function ContextRing({ context }: { readonly context: ContextUse }) {
  const left = contextLeft(context)
  const percent = Math.round(left * 100)
  const words = `${percent} % of the context left: ${thousands(context.used_tokens)} of ${thousands(context.window_tokens)} tokens are in use`
  return (
    <span role="img" aria-label={words} title={words} className="inline-flex shrink-0 items-center gap-1.5 tabular-nums">
      <svg width={16} height={16} viewBox="0 0 16 16" aria-hidden className="-rotate-90">
        <circle cx={8} cy={8} r={radius} fill="none" strokeWidth={2.5} className="stroke-line" />
        <circle
          cx={8}
          cy={8}
          r={radius}
          fill="none"
          strokeWidth={2.5}
          strokeLinecap="round"
          strokeDasharray={`${round * left} ${round}`}
          className={left < scarce ? 'stroke-danger' : 'stroke-accent'}
        />
      </svg>
      <span className={left < scarce ? 'text-danger' : 'text-soft'}>{percent} %</span>
    </span>
  )
}

export const contextLeft = ({ used_tokens: used, window_tokens: window }: ContextUse): number =>
  Math.max(0, Math.min(1, 1 - used / window))

const thousands = (tokens: number) => (tokens < 1000 ? String(tokens) : `${Math.round(tokens / 1000)}k`)
