import { printableLine } from '@anchorhold/core/printable'
import { formatUsd } from '@anchorhold/protocol/money'
import type { Session } from '@anchorhold/protocol/sessions'
import { Link, useSearch } from '@tanstack/react-router'
import { rungFaces, stateFaces } from '../ui/faces.ts'
import { ago } from '../ui/time.ts'
import { folderName, needsYou } from './order.ts'

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
        className={`grid min-h-16 grid-cols-[auto_1fr_auto] items-baseline gap-x-3 gap-y-0.5 rounded-2xl px-3.5 py-3 transition-colors hover:bg-raised ${needsYou(session) ? 'bg-accent-wash' : ''}`}
        activeProps={{ className: 'bg-raised', 'aria-current': 'page' }}
        activeOptions={{ includeSearch: false }}
      >
        <span
          aria-hidden
          className={`size-2 translate-y-[-0.1rem] rounded-full ${dots[state.tone]} ${state.moving ? 'working-dot' : ''}`}
        />
        <span className="truncate font-medium">{printableLine(session.name)}</span>
        <time className="justify-self-end text-xs text-faint tabular-nums" dateTime={new Date(session.active_at).toISOString()}>
          {ago(session.active_at, now)}
        </time>
        <span className="col-start-2 flex min-w-0 items-center gap-1.5 text-[0.8125rem] text-soft">
          <span
            className={state.tone === 'danger' ? 'text-danger' : state.tone === 'accent' ? 'font-medium text-accent-ink' : ''}
          >
            {state.label}
          </span>
          <span aria-hidden className="text-faint">
            ·
          </span>
          {(session.state === 'interrupted' || session.state === 'failed') && session.why !== null ? (
            <span className="truncate text-danger">{printableLine(session.why)}</span>
          ) : (
            <span className="truncate" title={session.workspace}>
              {printableLine(folderName(session.workspace, session.id))}
            </span>
          )}
          <span aria-hidden className="text-faint">
            ·
          </span>
          <span
            title={rung.about}
            className={rung.tone === 'danger' ? 'rounded-full bg-danger-solid px-2 text-xs font-medium text-white' : ''}
          >
            {rung.label}
          </span>
        </span>
        <span className="justify-self-end text-[0.8125rem] text-soft tabular-nums">
          {formatUsd(session.cost_micros)}
          {session.budget_micros !== null && <span className="text-faint"> / {formatUsd(session.budget_micros)}</span>}
        </span>
      </Link>
    </li>
  )
}
