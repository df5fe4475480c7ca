import { printableLine } from '@anchorhold/core/printable'
import type { PolicyBacktest } from '@anchorhold/protocol/api/policy'

const sessionsShown = 5
const examplesShown = 3

/** What a policy, or one more rule, would have done to what agents really did. */
export function Backtest({ found }: { readonly found: PolicyBacktest }) {
  const { actions, denied, asked, allowed, skipped, sessions } = found
  return (
    <div role="status" className="grid gap-3 rounded-xl bg-raised px-4 py-3 text-sm">
      <p>
        Of {actions.toLocaleString()} {actions === 1 ? 'action' : 'actions'} in that time it would have denied{' '}
        <strong>{denied.toLocaleString()}</strong>, asked about <strong>{asked.toLocaleString()}</strong>
        {allowed > 0 && (
          <>
            {' '}
            and newly allowed <strong>{allowed.toLocaleString()}</strong>
          </>
        )}
        .{skipped > 0 && ` ${skipped.toLocaleString()} were too long to be kept whole and are not counted.`}
      </p>
      {sessions.slice(0, sessionsShown).map(({ session, name, stopped, examples }) => (
        <div key={session} className="min-w-0">
          <p className="truncate font-medium">{printableLine(name)}</p>
          {stopped !== null && (
            <p className="text-danger [overflow-wrap:anywhere]">Would not have started: {printableLine(stopped)}</p>
          )}
          <ul className="grid gap-1">
            {examples.slice(0, examplesShown).map(({ seq, action, effect }) => (
              <li key={seq} className="flex items-baseline gap-2">
                <span className={effect === 'deny' ? 'text-danger' : effect === 'ask' ? 'text-accent-ink' : 'text-good'}>
                  {effect}
                </span>
                <code className="line-clamp-2 min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">
                  {printableLine(action)}
                </code>
              </li>
            ))}
          </ul>
        </div>
      ))}
      {sessions.length > sessionsShown && <p className="text-faint">and {sessions.length - sessionsShown} more sessions</p>}
    </div>
  )
}
