import { printable, printableLine } from '@anchorhold/core/printable'
import { sizeWords } from '@anchorhold/core/size-words'
import type { SessionId } from '@anchorhold/protocol/ids'
import { useQuery } from '@tanstack/react-query'
import { daemon, wordsOf } from '../daemon.ts'
import { Trouble } from '../ui/controls.tsx'
import { ago } from '../ui/time.ts'
import { spentQuery } from './spent-query.ts'

const networks = {
  none: 'Nothing but its model could be reached',
  proxy_only: 'What rules let through',
  host: 'Everything that this machine reaches: none of it was watched',
} as const

/** What went out since then: to models, and through net windows host by host, of one session or of all that one sees. */
export function WhatLeft({ session, since }: { readonly session: SessionId | null; readonly since: number }) {
  const { data, error } = useQuery({
    queryKey: ['left', session, since],
    queryFn: async () =>
      session === null
        ? { network: null, ...(await daemon.net({ query: { since } })) }
        : daemon.sessionNet({ params: { id: session }, query: { since } }),
    staleTime: 0,
  })
  const { data: spent } = useQuery(spentQuery(session, since))
  if (error !== null) return <Trouble>{wordsOf(error)}</Trouble>
  if (data === undefined || spent === undefined) return null
  const { real, play } = spent
  return (
    <section aria-label="What left" className="card grid gap-3 p-5 text-sm">
      <div>
        <h2 className="text-base font-semibold tracking-tight">What left</h2>
        {data.network !== null && <p className="text-soft">{networks[data.network]}</p>}
      </div>
      <p className="text-soft tabular-nums">
        {real.calls === 0
          ? 'Nothing was sent to a model'
          : `${real.calls.toLocaleString()} ${real.calls === 1 ? 'call' : 'calls'} to models, with ${real.sentTokens.toLocaleString()} tokens`}
        {play.calls > 0 && `; the rehearsal answered ${play.calls.toLocaleString()} within the house`}.
      </p>
      {data.hosts.length === 0 ? (
        <p className="text-faint">Nothing went over the network in that time.</p>
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
                {connections.toLocaleString()} {connections === 1 ? 'connection' : 'connections'} · {sizeWords(out)} out ·{' '}
                {sizeWords(into)} in
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
