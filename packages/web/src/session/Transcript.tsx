import type { SessionId } from '@anchorhold/protocol/ids'
import { useQueryClient } from '@tanstack/react-query'
import { ArrowDown } from 'lucide-react'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Virtualizer, type VirtualizerHandle } from 'virtua'
import { daemon } from '../daemon.ts'
import { keys, newestOf, pageEvents } from '../live/apply.ts'
import { useWaiting } from '../live/house.ts'
import { fold } from '../log/fold.ts'
import { type Log, somewhere, trimmed, withEarlier, withLater } from '../log/log.ts'
import { silence } from '../log/saying.ts'
import { RowBoundary } from '../shell/Broken.tsx'
import { ItemView } from './items/ItemView.tsx'
import { type Row, rowsOf } from './rows.ts'
import { useSaying } from './use-saying.ts'
import { WaitingView } from './WaitingView.tsx'

/** How near to an end of what is held the next page is fetched. */
const nearPx = 2000
/** So near to the end counts as reading along. */
const alongPx = 80
/** Events that a page that is read at its end holds on to. */
const heldMax = 3000
/** Events shown behind the one that a search led to. */
const behindHit = 60

export type TranscriptProps = {
  readonly session: SessionId
  readonly log: Log
  readonly working: boolean
  readonly at: number | undefined
  readonly onFork: (seq: number) => void
}

/** The conversation. Only what is seen is in the page; more is fetched on the way up; while somebody reads its end it follows what is
 *  said, and at any other place it stands still. */
export function Transcript({ session, log, working, at, onFork }: TranscriptProps) {
  const cache = useQueryClient()
  const saying = useSaying(session)
  const waiting = useWaiting(session)
  const items = useMemo(() => fold(log.events), [log.events])
  // What is being said and sent belongs behind the newest event: where that is not held, it is not shown under an old one.
  const rows = useMemo(
    () => (log.later ? rowsOf(items, silence, [], false) : rowsOf(items, saying, waiting, working)),
    [items, saying, waiting, working, log.later],
  )
  const scroller = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const list = useRef<VirtualizerHandle>(null)
  const following = useRef(at === undefined)
  const offset = useRef(0)
  const fetching = useRef(false)
  const [along, setAlong] = useState(true)
  const put = (change: (log: Log) => Log) => cache.setQueryData<Log>(keys.log(session), (now) => now && change(now))

  // Rows that come in at the top push nothing: the list is then held by its end.
  const [held, setHeld] = useState({ log, shift: false })
  if (held.log !== log) setHeld({ log, shift: log.first !== held.log.first })

  const fetchOnce = async (ask: () => Promise<void>) => {
    if (fetching.current) return
    fetching.current = true
    await ask().catch(() => {})
    fetching.current = false
  }
  const look = () => {
    const view = scroller.current
    if (view === null) return
    if (log.earlier && view.scrollTop < nearPx)
      void fetchOnce(async () => {
        const page = await daemon.sessionEvents({ params: { id: session }, query: { before: log.first, limit: pageEvents } })
        put((now) => (now.first === log.first ? withEarlier(now, page) : now))
      })
    else if (log.later && view.scrollHeight - view.scrollTop - view.clientHeight < nearPx)
      void fetchOnce(async () => {
        const page = await daemon.sessionEvents({ params: { id: session }, query: { after: log.last, limit: pageEvents } })
        put((now) => (now.last === log.last ? withLater(now, page) : now))
      })
  }
  useEffect(look, [log])

  // Who sends something wants to see what comes of it.
  const [sent, setSent] = useState(waiting.length)
  if (sent !== waiting.length) {
    setSent(waiting.length)
    if (waiting.length > sent) setAlong(true)
  }
  const before = useRef(waiting.length)
  useLayoutEffect(() => {
    if (waiting.length > before.current) {
      following.current = true
      if (log.later) void jump()
    }
    before.current = waiting.length
  }, [waiting.length])

  const toEnd = () => {
    const view = scroller.current
    if (view !== null) view.scrollTop = view.scrollHeight
  }
  useLayoutEffect(() => {
    if (!following.current || log.later) return
    toEnd()
    if (trimmed(log, heldMax) !== log) put((now) => trimmed(now, heldMax))
  }, [rows, log])
  useEffect(() => {
    const resized = new ResizeObserver(() => following.current && toEnd())
    if (content.current !== null) resized.observe(content.current)
    if (scroller.current !== null) resized.observe(scroller.current)
    return () => resized.disconnect()
  }, [])

  const onScroll = (now: number) => {
    const view = scroller.current
    if (view === null) return
    const near = view.scrollHeight - now - view.clientHeight < alongPx
    if (near && !log.later) following.current = true
    // Growing text moves nobody up: who goes up wants to read there.
    else if (now < offset.current - 2) following.current = false
    offset.current = now
    setAlong(following.current)
    look()
  }

  // A search led to one event: what is around it is shown, and the row that it is in is marked.
  useEffect(() => {
    if (at === undefined) return undefined
    following.current = false
    const held = cache.getQueryData<Log>(keys.log(session))
    if (held !== undefined && held.first <= at && at <= held.last) return undefined
    const left = new AbortController()
    void (async () => {
      const [page, { last_seq: last }] = await Promise.all([
        daemon.sessionEvents({ params: { id: session }, query: { before: at + behindHit, limit: pageEvents } }, left.signal),
        daemon.getSession({ params: { id: session } }, left.signal),
      ])
      // Another hit may have been chosen meanwhile.
      if (!left.signal.aborted) cache.setQueryData<Log>(keys.log(session), somewhere(page, last))
    })().catch(() => {})
    return () => left.abort()
  }, [at, session])
  const hit = at === undefined ? -1 : rows.findLastIndex((row) => row.kind === 'item' && row.item.seq <= at)
  const shownAt = useRef<number | undefined>(undefined)
  useLayoutEffect(() => {
    if (at === undefined || hit === -1 || shownAt.current === at || at < log.first || at > log.last) return
    shownAt.current = at
    list.current?.scrollToIndex(hit, { align: 'center' })
    setAlong(false)
  }, [at, hit, log])

  const jump = async () => {
    following.current = true
    setAlong(true)
    if (log.later) {
      const newest = await newestOf(daemon, session).catch(() => null)
      if (newest !== null) cache.setQueryData<Log>(keys.log(session), newest)
    }
    toEnd()
  }

  return (
    <div className="relative min-h-0 flex-1">
      <div ref={scroller} className="scroll h-full [overflow-anchor:none]" tabIndex={0} role="region" aria-label="Conversation">
        <div ref={content} role="log" aria-live="off" aria-label="What was said and done" className="py-4">
          <Virtualizer ref={list} scrollRef={scroller} data={rows} shift={held.shift} onScroll={onScroll} bufferSize={600}>
            {(row: Row, index) => (
              <div key={row.key} data-row-key={row.key} className="mx-auto w-full max-w-3xl px-4 py-1.5 sm:px-6">
                <div className={index === hit ? '-mx-3 rounded-2xl bg-accent-wash px-3 py-2' : ''}>
                  <RowBoundary of={row.key}>
                    {row.kind === 'item' ? (
                      <ItemView session={session} item={row.item} onFork={onFork} />
                    ) : row.kind === 'waiting' ? (
                      <WaitingView waiting={row.waiting} />
                    ) : (
                      <Busy />
                    )}
                  </RowBoundary>
                </div>
              </div>
            )}
          </Virtualizer>
        </div>
      </div>
      {(!along || log.later) && (
        <button
          type="button"
          onClick={() => void jump()}
          className="absolute right-4 bottom-4 inline-flex min-h-11 items-center gap-2 rounded-full border border-line bg-surface px-4 text-sm font-medium shadow-float"
        >
          <ArrowDown size={16} aria-hidden />
          Latest
        </button>
      )}
    </div>
  )
}

function Busy() {
  return (
    <p className="flex h-8 items-center gap-2 text-sm text-faint">
      <span aria-hidden className="working-dot size-2 rounded-full bg-accent" />
      Working…
    </p>
  )
}
