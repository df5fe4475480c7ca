import { printableLine } from '@anchorhold/core/printable'
import type { Network, Session } from '@anchorhold/protocol/sessions'
import { useQuery } from '@tanstack/react-query'
import { wordsOf } from '../../daemon.ts'
import { netQuery } from '../../live/queries.ts'
import { Chip, Empty, Trouble } from '../../ui/controls.tsx'
import { clockTime } from '../../ui/time.ts'
import { Pane } from './Pane.tsx'

const words = {
  none: 'The cell can reach its model and nothing else.',
  proxy_only: 'The cell can reach what your rules allow.',
  host: "The agent shares the host's network, and nobody counts what leaves.",
} as const satisfies Record<Network, string>

/** What left the session, and what was kept from leaving. */
export function NetworkTab({ session }: { readonly session: Session }) {
  const { data, error } = useQuery(netQuery(session))
  return (
    <Pane name="Network">
      <p className={`text-sm ${session.network === 'host' ? 'text-danger' : 'text-soft'}`}>{words[session.network]}</p>
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data?.hosts.length === 0 && <Empty title="Nothing has left">No connection was made, and none was blocked.</Empty>}
      {data?.hosts.map((host) => (
        <section
          key={`${host.host} ${host.port}`}
          aria-label={host.host ?? 'Others'}
          className="card grid gap-1 px-4 py-3 text-sm"
        >
          <p className="flex flex-wrap items-center gap-2">
            <span className="min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">
              {host.host === null ? 'No host, or too many to tell apart' : printableLine(host.host)}
              {host.port !== null && `:${host.port}`}
            </span>
            {host.blocked > 0 && <Chip tone="danger">{host.blocked} blocked</Chip>}
            <span className="ml-auto text-xs text-faint">{clockTime(host.last_at)}</span>
          </p>
          <p className="text-soft tabular-nums">
            {host.connections} connections · {host.bytes_out.toLocaleString()} bytes out · {host.bytes_in.toLocaleString()} bytes
            in
          </p>
          {host.why !== null && <p className="text-danger [overflow-wrap:anywhere]">{printableLine(host.why)}</p>}
          {host.secrets.length > 0 && (
            <p className="text-soft">
              With {host.secrets.map(({ name, count }) => `${printableLine(name)} (${count}×)`).join(', ')}
            </p>
          )}
        </section>
      ))}
    </Pane>
  )
}
