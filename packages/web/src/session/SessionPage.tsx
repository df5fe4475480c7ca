import { printable } from '@anchorhold/core/printable'
import { mayDo } from '@anchorhold/core/session-states'
import { isFailure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useMemo, useRef, useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { catchUp, keys, putSession, showNewest } from '../live/apply.ts'
import { logQuery, sessionQuery } from '../live/queries.ts'
import type { SessionList } from '../live/session-rows.ts'
import type { Log } from '../log/log.ts'
import { ViewBoundary } from '../shell/Broken.tsx'
import { Lost } from '../shell/Lost.tsx'
import { Empty, Trouble } from '../ui/controls.tsx'
import { type PictureShelf, PictureShelfContext } from '../ui/WorkspacePicture.tsx'
import { Composer } from './Composer.tsx'
import { TabBar } from './tabs/TabBar.tsx'
import type { Tab } from './tabs/tab.ts'
import { SessionHeader } from './SessionHeader.tsx'
import { Transcript } from './Transcript.tsx'

/** Nothing of one session is left where another is shown in its place. */
export function SessionPage() {
  const { id } = useParams({ from: '/sessions/$id' })
  return <OneSession key={id} id={id} />
}

/** One session: what was said and done, and where the next prompt is written. */
function OneSession({ id }: { readonly id: SessionId }) {
  const { at, tab } = useSearch({ from: '__root__' })
  const cache = useQueryClient()
  const navigate = useNavigate()
  const listed = () =>
    [false, true]
      .flatMap((archived) => cache.getQueryData<SessionList>(keys.sessions(archived))?.sessions ?? [])
      .find((row) => row.id === id)
  const { data: session, error } = useQuery({ ...sessionQuery(id), placeholderData: listed })
  const log = useQuery(logQuery(id))
  // What happened while the log itself was still on its way had nothing to be added to.
  const behind = log.data !== undefined && !log.data.later && session !== undefined && session.last_seq > log.data.last
  useEffect(() => {
    if (behind) void catchUp({ cache, daemon }, id)
  }, [behind, id, cache])
  // Who names no place in it wants to see the newest, and not a part from the middle that was looked at before.
  const [isApart, setIsApart] = useState(() => at === undefined && cache.getQueryData<Log>(keys.log(id))?.later === true)
  useEffect(() => {
    if (!isApart) return
    void showNewest({ cache, daemon }, id)
      .catch(() => {})
      .finally(() => setIsApart(false))
  }, [isApart, id, cache])
  // The same fork is asked for until the daemon has answered: a second tap or a lost answer makes no second one.
  const forkKeys = useRef(new Map<string, string>())
  const fork = useMutation({
    mutationFn(seq: number | null) {
      const place = `${id} ${seq}`
      const key = forkKeys.current.get(place) ?? crypto.randomUUID()
      forkKeys.current.set(place, key)
      return daemon.fork({ params: { id }, body: { ...(seq === null ? {} : { at: seq }), idempotency_key: key } })
    },
    onSuccess(made, seq) {
      forkKeys.current.delete(`${made.forked_from ?? id} ${seq}`)
      putSession(cache, made)
    },
  })
  // Who has gone elsewhere meanwhile stays there.
  const forkAt = (seq: number | null) =>
    fork.mutate(seq, { onSuccess: (made) => void navigate({ to: '/sessions/$id', params: { id: made.id } }) })
  const shelf = useShelf(session)
  if (error !== null && isFailure(error) && error.code === 'not_found') return <Lost />
  if (session === undefined)
    return error === null ? <div className="flex-1" /> : <Empty title="Not available right now">{wordsOf(error)}</Empty>
  return (
    <>
      <SessionHeader session={session} onFork={forkAt} />
      {fork.error !== null && (
        <div className="px-4 pt-3">
          <Trouble>{wordsOf(fork.error)}</Trouble>
        </div>
      )}
      <TabBar session={id} tab={tab} />
      {tab !== undefined ? (
        <View key={`${tab} ${id}`} tab={tab} session={session} />
      ) : log.data === undefined || isApart ? (
        <div className="flex-1">{log.error !== null && <Empty title="Not available right now">{wordsOf(log.error)}</Empty>}</div>
      ) : (
        <PictureShelfContext value={shelf}>
          <Transcript
            key={id}
            session={id}
            log={log.data}
            working={session.state === 'working' || session.state === 'creating'}
            at={at}
            onFork={forkAt}
          />
        </PictureShelfContext>
      )}
      {tab === undefined &&
        (mayDo(session.state, 'prompt') ? <Composer key={`composer ${id}`} session={session} /> : <Ended session={session} />)}
    </>
  )
}

/** A keeper stays about so long after a turn. */
const keeperMs = 5 * 60_000

/** Where the pictures of a conversation come from, while there is a cell that may be asked. */
function useShelf(session: Session | undefined): PictureShelf | null {
  const id = session?.id
  const folder = session?.workspace
  const may = session !== undefined && mayDo(session.state, 'enter')
  const atOnce =
    session !== undefined &&
    (session.state === 'working' || session.state === 'waiting' || Date.now() - session.active_at < keeperMs)
  return useMemo(
    () => (id === undefined || folder === undefined || !may ? null : { session: id, folder, atOnce }),
    [id, folder, may, atOnce],
  )
}

/** Each is fetched when it is first opened. */
const views = {
  changes: lazy(async () => ({ default: (await import('./tabs/ChangesTab.tsx')).ChangesTab })),
  files: lazy(async () => ({ default: (await import('./tabs/FilesTab.tsx')).FilesTab })),
  terminal: lazy(async () => ({ default: (await import('./tabs/TerminalTab.tsx')).TerminalTab })),
  network: lazy(async () => ({ default: (await import('./tabs/NetworkTab.tsx')).NetworkTab })),
  cost: lazy(async () => ({ default: (await import('./tabs/CostTab.tsx')).CostTab })),
} as const satisfies Record<Tab, unknown>
/** Those that are looked at from inside the cell. */
const inside: ReadonlySet<Tab> = new Set(['changes', 'files', 'terminal'])

function View({ tab, session }: { readonly tab: Tab; readonly session: Session }) {
  const Chosen = views[tab]
  if (inside.has(tab) && !mayDo(session.state, 'enter'))
    return (
      <>
        <div className="flex-1">
          <Empty title="The cell is not running">This view needs the session's cell.</Empty>
        </div>
        <Ended session={session} />
      </>
    )
  return (
    <ViewBoundary of={`${tab} ${session.id}`}>
      <Suspense fallback={<div className="flex-1" />}>
        <Chosen session={session} />
      </Suspense>
    </ViewBoundary>
  )
}

function Ended({ session }: { readonly session: Session }) {
  const cache = useQueryClient()
  const start = useMutation({
    mutationFn: () => daemon.start({ params: { id: session.id } }),
    onSuccess: (row) => putSession(cache, row),
  })
  return (
    <footer className="safe-bottom border-t border-line px-5 py-4 text-center text-sm text-soft">
      {session.state === 'archived' ? (
        'Archived: read-only'
      ) : (
        <>
          Its cell is gone{session.why ? `: ${printable(session.why)}` : ''}. The workspace is kept.{' '}
          <button
            type="button"
            disabled={start.isPending}
            className="min-h-9 rounded-lg px-2 font-medium text-accent-ink underline underline-offset-4"
            onClick={() => start.mutate()}
          >
            Start it again
          </button>
          {start.error !== null && <Trouble>{wordsOf(start.error)}</Trouble>}
        </>
      )}
    </footer>
  )
}
