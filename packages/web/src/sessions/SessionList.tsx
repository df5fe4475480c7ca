import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useRouter, useSearch } from '@tanstack/react-router'
import { Search, X } from 'lucide-react'
import { useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { keys } from '../live/apply.ts'
import { sessionsQuery } from '../live/queries.ts'
import type { SessionList as List } from '../live/session-rows.ts'
import { Button, Empty, Trouble } from '../ui/controls.tsx'
import { Hits } from './Hits.tsx'
import { ordered, type Show } from './order.ts'
import { SessionRow } from './SessionRow.tsx'
import { Skeleton } from './Skeleton.tsx'
import { useNow } from './use-now.ts'

const filters = [
  { show: undefined, label: 'All' },
  { show: 'needs_you', label: 'Needs you' },
  { show: 'working', label: 'Working' },
  { show: 'archived', label: 'Archived' },
] as const satisfies readonly { show: Show | undefined; label: string }[]

/** Every session, or what a search found in them. */
export function SessionList() {
  const { q = '', show } = useSearch({ from: '__root__' })
  const navigate = useNavigate()
  const set = (search: { q?: string | undefined; show?: Show | undefined }) =>
    navigate({ to: '.', search: (old) => ({ ...old, ...search }), replace: true })
  const [text, setText] = useSearchText(q, (value) => set({ q: value === '' ? undefined : value }))
  return (
    <div className="flex h-full flex-col">
      <div className="px-3 pt-3">
        <div className="relative">
          <Search size={17} aria-hidden className="absolute top-3.5 left-3.5 text-faint" />
          <input
            type="search"
            aria-label="Search everything"
            placeholder="Search everything"
            className="field !rounded-2xl !border-transparent !bg-raised !pr-10 !pl-10 text-[0.9375rem] [&::-webkit-search-cancel-button]:hidden"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          {text !== '' && (
            <button
              type="button"
              aria-label="Clear the search"
              className="absolute top-0 right-0 grid size-11 place-items-center text-faint"
              onClick={() => setText('')}
            >
              <X size={17} aria-hidden />
            </button>
          )}
        </div>
        {q === '' && (
          <div role="group" aria-label="Show" className="-mx-1 flex gap-1 overflow-x-auto px-1 py-2.5 [scrollbar-width:none]">
            {filters.map((filter) => (
              <button
                key={filter.label}
                type="button"
                aria-pressed={show === filter.show}
                onClick={() => void set({ show: filter.show })}
                className="min-h-8 shrink-0 rounded-full px-3 text-[0.8125rem] font-medium text-soft transition-colors hover:bg-raised aria-pressed:bg-ink aria-pressed:text-page"
              >
                {filter.label}
              </button>
            ))}
          </div>
        )}
      </div>
      <div className="scroll min-h-0 flex-1 px-2 pb-4">{q === '' ? <Rows show={show} /> : <Hits q={q.trim()} />}</div>
    </div>
  )
}

/** What is searched for is in the address. It comes there a moment after it was typed, and no letter waits for that. */
function useSearchText(q: string, set: (text: string) => Promise<void>): readonly [string, (text: string) => void] {
  const router = useRouter()
  /** What the address does not say yet. */
  const [typed, setTyped] = useState<string | null>(null)
  if (typed === q) setTyped(null)
  return [
    typed ?? q,
    (text) => {
      setTyped(text)
      // Somebody went elsewhere meanwhile, and the address will never say it.
      const settle = () => setTyped((now) => (now === text && (router.state.location.search.q ?? '') !== text ? null : now))
      void set(text).then(settle)
    },
  ]
}

function Rows({ show }: { readonly show: Show | undefined }) {
  const archived = show === 'archived'
  const cache = useQueryClient()
  const { data, error } = useQuery(sessionsQuery(archived))
  const now = useNow()
  const more = useMutation({
    mutationFn: (before: number) =>
      daemon.listSessions({ query: { limit: 100, before, ...(archived ? { archived: 'true' } : {}) } }),
    onSuccess: (page) =>
      cache.setQueryData<List>(keys.sessions(archived), (list) => {
        const known = new Set(list?.sessions.map(({ id }) => id))
        const before = page.sessions.at(-1)?.active_at ?? 0
        return {
          sessions: [...(list?.sessions ?? []), ...page.sessions.filter(({ id }) => !known.has(id))],
          more: page.more,
          before,
        }
      }),
  })
  if (data === undefined) return error === null ? <Skeleton /> : <Trouble>{wordsOf(error)}</Trouble>
  const { needing, rest } = ordered(data.sessions, show)
  if (needing.length + rest.length === 0) {
    return show === undefined ? (
      <Empty title="No sessions yet">
        <Link to="/new" className="text-accent-ink underline underline-offset-4">
          Start one
        </Link>
        : say what should be done, and an agent does it in a cell of its own.
      </Empty>
    ) : (
      <Empty
        title={
          show === 'needs_you' ? 'Nothing is waiting for you' : show === 'working' ? 'Nothing is running' : 'Nothing is archived'
        }
      />
    )
  }
  return (
    <>
      {needing.length > 0 && (
        <section aria-labelledby="needing">
          <h2 id="needing" className="px-3.5 pt-2 pb-1.5 text-xs font-semibold text-accent-ink">
            Needs you
          </h2>
          <ul className="grid grid-cols-1 gap-1">
            {needing.map((session) => (
              <SessionRow key={session.id} session={session} now={now} />
            ))}
          </ul>
        </section>
      )}
      {rest.length > 0 && (
        <section aria-labelledby="recent">
          <h2 id="recent" className={needing.length > 0 ? 'px-3.5 pt-4 pb-1.5 text-xs font-semibold text-faint' : 'sr-only'}>
            {archived ? 'Archived' : 'Recent'}
          </h2>
          <ul className="grid grid-cols-1 gap-0.5">
            {rest.map((session) => (
              <SessionRow key={session.id} session={session} now={now} />
            ))}
          </ul>
        </section>
      )}
      {data.more && (
        <Button
          look="ghost"
          className="mt-2 w-full"
          disabled={more.isPending}
          onClick={() => more.mutate(data.before ?? Math.min(...data.sessions.map(({ active_at }) => active_at)))}
        >
          Show more
        </Button>
      )}
    </>
  )
}
