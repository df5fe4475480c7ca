import { printable, printableLine } from '@anchorhold/core/printable'
import type { SessionId } from '@anchorhold/protocol/ids'
import { useQuery } from '@tanstack/react-query'
import { daemon, wordsOf } from '../daemon.ts'
import { Trouble } from '../ui/controls.tsx'
import { ago } from '../ui/time.ts'

const networks = {
  none: 'Nothing but its model could be reached',
  proxy_only: 'What rules let through',
  host: 'Everything that this machine reaches: none of it was watched',
} as const

/** What went through a session's net window, host by host. */
export function WhatLeft({ session }: { readonly session: SessionId }) {
  const { data, error } = useQuery({
    queryKey: ['net', session],
    queryFn: () => daemon.sessionNet({ params: { id: session } }),
    staleTime: 0,
  })
  if (error !== null) return <Trouble>{wordsOf(error)}</Trouble>
  if (data === undefined) return null
  return (
    <section aria-label="What left" className="card grid gap-3 p-5 text-sm">
      <div>
        <h2 className="text-base font-semibold tracking-tight">What left</h2>
        <p className="text-soft">{networks[data.network]}</p>
      </div>
      {data.hosts.length === 0 ? (
        <p className="text-faint">Nothing went over the network.</p>
      ) : (
        <ul className="grid gap-2.5">
          {data.hosts.map(({ host, port, connections, bytes_out: out, bytes_in: into, blocked, why, secrets, last_at: last }) => (
            <li key={`${host} ${port}`} className="grid gap-0.5">
              <p className="flex flex-wrap items-baseline justify-between gap-x-4">
                <span className="min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">
                  {host === null ? 'no host named' : printableLine(`${host}${port === null ? '' : `:${port}`}`)}
                </span>
                <span className="text-faint tabular-nums">{ago(last, Date.now())}</span>
              </p>
              <p className="text-soft tabular-nums">
                {connections.toLocaleString()} {connections === 1 ? 'connection' : 'connections'} · {size(out)} out · {size(into)}{' '}
                in
                {secrets.map(({ name, count }) => ` · ${printableLine(name)} put in ${count}×`).join('')}
              </p>
              {blocked > 0 && (
                <p className="text-danger [overflow-wrap:anywhere]">
                  {blocked.toLocaleString()} blocked{why === null ? '' : `: ${printable(why)}`}
                </p>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`
  if (bytes < 1024 ** 2) return `${(bytes / 1024).toFixed(1)} KiB`
  if (bytes < 1024 ** 3) return `${(bytes / 1024 ** 2).toFixed(1)} MiB`
  return `${(bytes / 1024 ** 3).toFixed(1)} GiB`
}
