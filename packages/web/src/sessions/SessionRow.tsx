import { printableLine } from '@anchorhold/core/printable'
import { formatUsd } from '@anchorhold/protocol/money'
import type { Session } from '@anchorhold/protocol/sessions'
import { Link, useSearch } from '@tanstack/react-router'
import { rungFaces, stateFaces } from '../ui/faces.ts'
import { ago } from '../ui/time.ts'
import { needsYou } from './order.ts'
import { Place } from './Place.tsx'
import { SecretsMark } from './SecretsMark.tsx'

const dots = { accent: 'bg-accent', good: 'bg-good', quiet: 'bg-line-strong', danger: 'bg-danger' } as const

/** One session in the list: what it is called, how it stands, what it has cost. */
export function SessionRow({ session, now }: { readonly session: Session; readonly now: number }) {
  const { q, show } = useSearch({ from: '__root__' })
  const state = stateFaces[session.state]
  const rung = rungFaces[session.rung]
  return (
    <li>
      <Link
        to="/sessions/$id"
        params={{ id: session.id }}
        search={{ q, show }}
        data-row
        className={`flex min-h-16 gap-3 rounded-2xl px-3.5 py-3 transition-colors hover:bg-raised ${needsYou(session) ? 'bg-accent-wash' : ''}`}
        activeProps={{ className: 'bg-raised', 'aria-current': 'page' }}
        activeOptions={{ includeSearch: false }}
      >
        <span
          aria-hidden
          className={`mt-2 size-2 shrink-0 rounded-full ${dots[state.tone]} ${state.moving ? 'working-dot' : ''}`}
        />
        <span className="grid min-w-0 flex-1 grid-cols-1 gap-0.5 text-[0.8125rem] text-soft">
          <span className="flex items-baseline justify-between gap-3">
            <span className="truncate text-base font-medium text-ink">{printableLine(session.name)}</span>
            <time className="shrink-0 text-xs text-faint tabular-nums" dateTime={new Date(session.active_at).toISOString()}>
              {ago(session.active_at, now)}
            </time>
          </span>
          <span className="flex flex-wrap items-center gap-x-1.5">
            <span
              className={state.tone === 'danger' ? 'text-danger' : state.tone === 'accent' ? 'font-medium text-accent-ink' : ''}
            >
              {state.label}
            </span>
            <span aria-hidden className="text-faint">
              ·
            </span>
            <span
              title={rung.about}
              className={rung.tone === 'danger' ? 'rounded-full bg-danger-solid px-2 text-xs font-medium text-white' : ''}
            >
              {rung.label}
            </span>
            {session.network === 'host' && session.rung !== 'none' && (
              <span className="rounded-full bg-danger-solid px-2 text-xs font-medium text-white">Host network</span>
            )}
            <SecretsMark of={session} />
            <span className="ml-auto shrink-0 tabular-nums">
              {formatUsd(session.cost_micros)}
              {session.budget_micros !== null && <span className="text-faint"> / {formatUsd(session.budget_micros)}</span>}
            </span>
          </span>
          {(session.state === 'interrupted' || session.state === 'failed') && session.why !== null ? (
            <span className="truncate text-danger">{printableLine(session.why)}</span>
          ) : (
            <Place session={session} />
          )}
        </span>
      </Link>
    </li>
  )
}
