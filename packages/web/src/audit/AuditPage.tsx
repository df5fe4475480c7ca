import { auditWords, type Audited, houseWords } from '@anchorhold/core/audit-words'
import { printable, printableLine } from '@anchorhold/core/printable'
import { AuditKind } from '@anchorhold/protocol/audit'
import { SessionId } from '@anchorhold/protocol/ids'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Download } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { useIsOwner } from '../live/me.ts'
import { sessionsQuery } from '../live/queries.ts'
import { PageHeader } from '../shell/PageHeader.tsx'
import { Button, Empty, Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'
import { Spent } from './Spent.tsx'
import { WhatLeft } from './WhatLeft.tsx'

const kindFaces = {
  decision: 'What was decided',
  request: 'What was asked',
  answer: 'What was answered',
  grant: 'What was allowed and used',
  money: 'Money and settings',
  secret: 'Credentials used, and what it cost',
  session: 'Sessions and prompts',
  workspace: 'Terminals, files and uploads',
} as const satisfies Record<AuditKind, string>

const times = { '1': 'The last day', '7': 'The last 7 days', '30': 'The last 30 days', '': 'Everything' } as const
const dayMs = 86_400_000
const hourMs = 3_600_000

type Shown = { readonly entries: readonly Audited[]; readonly next: number | null }

/** What left, what was asked and what it cost, from the logs themselves. */
export function AuditPage() {
  const owner = useIsOwner()
  const { data: list } = useQuery(sessionsQuery(false))
  const { data: archived } = useQuery(sessionsQuery(true))
  const [session, setSession] = useState<SessionId | null>(null)
  const [kind, setKind] = useState<AuditKind | 'house' | ''>('')
  const [days, setDays] = useState<keyof typeof times>('7')
  const found = useInfiniteQuery({
    queryKey: ['audit', session, kind, days],
    queryFn: ({ pageParam }): Promise<Shown> => page({ session, kind, since: sinceOf(days), before: pageParam }),
    initialPageParam: null as number | null,
    getNextPageParam: ({ next }) => next,
    staleTime: 0,
    gcTime: 0,
  })
  const entries = found.data?.pages.flatMap((one) => one.entries) ?? []
  const sessions = [...(list?.sessions ?? []), ...(archived?.sessions ?? [])]
  const names = new Map<string, string>(sessions.map(({ id, name }) => [id, name]))
  return (
    <>
      <PageHeader title="Audit" />
      <div className="scroll flex-1 px-4 pb-10 lg:px-8">
        <div className="mx-auto grid w-full max-w-2xl grid-cols-1 gap-4">
          <div className="card grid gap-4 p-5 sm:grid-cols-3">
            <Field label="Session">
              <select
                className="field"
                value={session ?? ''}
                onChange={(event) => {
                  setSession(event.target.value === '' ? null : SessionId.parse(event.target.value))
                  if (kind === 'house') setKind('')
                }}
              >
                <option value="">All</option>
                {sessions.map(({ id, name }) => (
                  <option key={id} value={id}>
                    {printableLine(name)}
                  </option>
                ))}
              </select>
            </Field>
            <Field label="Kind">
              <select className="field" value={kind} onChange={(event) => setKind(event.target.value as typeof kind)}>
                <option value="">All</option>
                {AuditKind.options.map((one) => (
                  <option key={one} value={one}>
                    {kindFaces[one]}
                  </option>
                ))}
                {owner && session === null && <option value="house">The house: people, keys, policy</option>}
              </select>
            </Field>
            <Field label="Time">
              <select className="field" value={days} onChange={(event) => setDays(event.target.value as typeof days)}>
                {Object.entries(times).map(([value, label]) => (
                  <option key={value} value={value}>
                    {label}
                  </option>
                ))}
              </select>
            </Field>
          </div>
          <WhatLeft session={session} since={sinceOf(days)} />
          <Spent session={session} since={sinceOf(days)} />
          <Export session={session} owner={owner} />
          {found.error !== null && <Trouble>{wordsOf(found.error)}</Trouble>}
          {found.data !== undefined && entries.length === 0 && !found.hasNextPage && (
            <Empty title="Nothing of that kind">No entry matches in that time.</Empty>
          )}
          {entries.length > 0 && (
            <ol aria-label="Entries, the newest first" className="card divide-y divide-line">
              {entries.map(({ at, log, words, event }) => (
                <li key={`${log} ${event.seq}`} className="grid gap-0.5 px-5 py-3 text-sm">
                  <p className="[overflow-wrap:anywhere]">{printable(words)}</p>
                  <p className="flex flex-wrap gap-x-2 text-xs text-faint">
                    <time dateTime={new Date(at).toISOString()}>{new Date(at).toLocaleString()}</time>
                    {log !== 'house' && (
                      <Link
                        to="/sessions/$id"
                        params={{ id: SessionId.parse(log) }}
                        search={{ at: event.seq }}
                        className="max-w-full truncate underline decoration-line-strong underline-offset-4 hover:text-ink"
                      >
                        {printableLine(names.get(log) ?? log)}
                      </Link>
                    )}
                  </p>
                </li>
              ))}
            </ol>
          )}
          {found.hasNextPage && (
            <Button look="ghost" disabled={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
              {found.isFetchingNextPage ? 'Looking further back…' : 'Look further back'}
            </Button>
          )}
        </div>
      </div>
    </>
  )
}

/** By whole hours, so that what is asked for stays the same while somebody looks. */
const sinceOf = (days: keyof typeof times): number =>
  days === '' ? 0 : Math.floor(Date.now() / hourMs) * hourMs - Number(days) * dayMs

type Wanted = {
  readonly session: SessionId | null
  readonly kind: AuditKind | 'house' | ''
  readonly since: number
  readonly before: number | null
}

async function page({ session, kind, since, before }: Wanted): Promise<Shown> {
  const cursor = before === null ? {} : { before }
  if (kind === 'house') {
    const { events, more } = await daemon.houseEvents({ query: { ...cursor, limit: 200 } })
    const wanted = events.filter(({ at }) => at >= since)
    const first = events[0]
    return {
      entries: wanted.toReversed().map(houseWords),
      next: more && first !== undefined && first.at >= since ? first.seq : null,
    }
  }
  const query = { since, ...cursor, ...(session === null ? {} : { session }), ...(kind === '' ? {} : { kind }) }
  const found = await daemon.audit({ query })
  return { entries: found.entries.map(auditWords), next: found.before }
}

/** The file is made by the daemon and saved by the browser: it does not pass through the page. */
function Export({ session, owner }: { readonly session: SessionId | null; readonly owner: boolean }) {
  if (session === null && !owner) return null
  const name = session === null ? 'anchorhold-export.jsonl' : `${session}.jsonl`
  return (
    <section aria-label="Export" className="card grid gap-3 p-5 text-sm">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h2 className="font-semibold tracking-tight">Take it with you</h2>
        <a
          href={session === null ? '/api/v1/export' : `/api/v1/sessions/${session}/export`}
          download={name}
          className="inline-flex min-h-11 items-center gap-2 rounded-xl border border-line px-4 text-[0.9375rem] hover:bg-raised"
        >
          <Download size={18} aria-hidden />
          {session === null ? 'Export everything' : 'Export this session'}
        </a>
      </div>
      <p className="text-soft">
        Each line carries the hash of the one before, and the last one is signed. Anybody can check that nothing was changed
        since, without this daemon: <code className="font-mono text-[0.8125rem]">anchorhold verify {name}</code>
      </p>
    </section>
  )
}
