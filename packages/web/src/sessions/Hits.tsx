import { printable, printableLine } from '@anchorhold/core/printable'
import type { SearchHit } from '@anchorhold/protocol/api/records'
import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useDeferredValue, useState } from 'react'
import { wordsOf } from '../daemon.ts'
import { searched, searchQuery } from '../live/queries.ts'
import { Button, Empty, Trouble } from '../ui/controls.tsx'
import { ago } from '../ui/time.ts'
import { bySession, pieces, type Show } from './order.ts'
import { SessionRow } from './SessionRow.tsx'
import { Skeleton } from './Skeleton.tsx'
import { useNow } from './use-now.ts'

/** What was found: sessions that are called so, and the places where it was said or done, by session. */
export function Hits({ q }: { readonly q: string }) {
  const wanted = useDeferredValue(q)
  const [limit, setLimit] = useState<number>(searched.first)
  const { data, error, isFetching } = useQuery({ ...searchQuery(wanted, limit), placeholderData: (old) => old })
  const now = useNow()
  if (error !== null) return <Trouble>{wordsOf(error)}</Trouble>
  if (data === undefined) return <Skeleton />
  if (data.hits.length + data.sessions.length === 0 && !isFetching)
    return <Empty title="Nothing found">“{printableLine(q)}” was never said or done here.</Empty>
  return (
    <div className="pt-3">
      {data.sessions.length > 0 && (
        <section aria-label="Sessions with this name" className="pb-3">
          <ul className="grid gap-0.5">
            {data.sessions.map((session) => (
              <SessionRow key={session.id} session={session} now={now} />
            ))}
          </ul>
        </section>
      )}
      {bySession(data.hits).map((hits) => (
        <Found
          key={`${hits[0]!.session} ${wanted}`}
          hits={hits}
          deeper={data.deeper.includes(hits[0]!.session)}
          q={wanted}
          now={now}
        />
      ))}
      {data.more && limit < searched.most && (
        <Button
          look="ghost"
          className="w-full"
          disabled={isFetching}
          onClick={() => setLimit(Math.min(searched.most, limit * 2))}
        >
          Show more
        </Button>
      )}
    </div>
  )
}

type FoundProps = { readonly hits: readonly SearchHit[]; readonly deeper: boolean; readonly q: string; readonly now: number }

/** The hits of one session: the best of them first, the rest when it is asked for. */
function Found({ hits: best, deeper, q, now }: FoundProps) {
  const { show } = useSearch({ from: '__root__' })
  const { session, session_name: name } = best[0]!
  const [all, setAll] = useState(false)
  const { data, error, isFetching } = useQuery({ ...searchQuery(q, searched.most, session), enabled: all })
  const hits = data?.hits ?? best
  return (
    <section className="pb-3" aria-label={printableLine(name)}>
      <h2 className="truncate px-3.5 pb-1 text-sm font-semibold">{printableLine(name)}</h2>
      <ul>
        {hits.map((hit) => (
          <Hit key={hit.seq} hit={hit} q={q} show={show} now={now} />
        ))}
      </ul>
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {deeper && data === undefined && (
        <Button look="ghost" disabled={isFetching} onClick={() => setAll(true)}>
          More in this session
        </Button>
      )}
    </section>
  )
}

function Hit({
  hit,
  q,
  show,
  now,
}: {
  readonly hit: SearchHit
  readonly q: string
  readonly show: Show | undefined
  readonly now: number
}) {
  return (
    <li>
      <Link
        to="/sessions/$id"
        params={{ id: hit.session }}
        search={{ q, show, at: hit.seq }}
        data-row
        className="flex items-baseline gap-3 rounded-xl px-3.5 py-2.5 text-sm text-soft hover:bg-raised"
        activeProps={{ className: 'bg-raised', 'aria-current': 'page' }}
      >
        <span className="line-clamp-3 min-w-0 flex-1 break-words">
          {pieces(hit.snippet).map(({ text, found }, index) =>
            found ? (
              <mark key={index} className="rounded bg-accent-wash px-0.5 font-medium text-accent-ink">
                {printable(text)}
              </mark>
            ) : (
              <span key={index}>{printable(text)}</span>
            ),
          )}
        </span>
        <time className="text-xs text-faint">{ago(hit.at, now)}</time>
      </Link>
    </li>
  )
}
