import { useQuery } from '@tanstack/react-query'
import { Link, Outlet, useMatchRoute } from '@tanstack/react-router'
import { ChartNoAxesColumn, FileClock, Inbox, MessagesSquare, Plus, Settings } from 'lucide-react'
import type { ReactNode } from 'react'
import { requestsQuery } from '../live/queries.ts'
import { useWatching } from '../live/use-watching.ts'
import { SessionList } from '../sessions/SessionList.tsx'
import { Announcer } from './Announcer.tsx'
import { ConnectionMark } from './ConnectionMark.tsx'
import { HouseMenu } from './HouseMenu.tsx'
import { HouseTrouble } from './HouseTrouble.tsx'
import { Mark } from './Mark.tsx'
import { Shortcuts } from './Shortcuts.tsx'
import { useFocusOnArrival } from './use-focus-on-arrival.ts'
import { useWide } from './use-wide.ts'

/** What stands around every screen: the list beside it where there is room, a bar under the thumb where there is not. */
export function Shell() {
  const wide = useWide()
  const at = useMatchRoute()({ to: '/sessions/$id' })
  const inSession = at !== false
  useFocusOnArrival()
  useWatching(at === false ? null : at.id)
  return (
    <div className="flex h-dvh">
      <a
        href="#content"
        className="absolute -top-20 left-4 z-50 rounded-xl bg-accent px-4 py-2 font-semibold text-on-accent focus:top-4"
      >
        Skip to the content
      </a>
      {wide && <Sidebar />}
      <div className="flex min-w-0 flex-1 flex-col">
        <HouseTrouble />
        <main id="content" tabIndex={-1} className="flex min-h-0 flex-1 flex-col focus:outline-none">
          <Outlet />
        </main>
        {!wide && !inSession && <TabBar />}
      </div>
      <Shortcuts />
      <Announcer session={at === false ? null : at.id} />
    </div>
  )
}

function Sidebar() {
  return (
    <div className="flex w-[23rem] shrink-0 flex-col border-r border-line bg-surface">
      <header className="flex items-center gap-3 px-5 pt-5 pb-3">
        <Link to="/" className="flex items-center gap-3 rounded-lg">
          <Mark size={30} />
          <span className="text-[1.0625rem] font-semibold tracking-tight">Anchorhold</span>
        </Link>
        <span className="ml-auto" />
        <ConnectionMark />
      </header>
      <nav aria-label="Main" className="grid gap-0.5 px-3 pb-2">
        <SideLink to="/new" icon={<Plus size={18} />} label="New session" hint="N" />
        <SideLink to="/inbox" icon={<Inbox size={18} />} label="Inbox" badge={<InboxCount />} />
        <SideLink to="/usage" icon={<ChartNoAxesColumn size={18} />} label="Usage" />
        <SideLink to="/audit" icon={<FileClock size={18} />} label="Audit" />
        <SideLink to="/settings" icon={<Settings size={18} />} label="Settings" />
      </nav>
      <div className="min-h-0 flex-1 border-t border-line">
        <SessionList />
      </div>
      <footer className="flex items-center border-t border-line px-3 py-2">
        <HouseMenu up />
      </footer>
    </div>
  )
}

function SideLink(props: {
  readonly to: '/new' | '/inbox' | '/usage' | '/audit' | '/settings'
  readonly icon: ReactNode
  readonly label: string
  readonly hint?: string
  readonly badge?: ReactNode
}) {
  return (
    <Link
      to={props.to}
      className="flex min-h-10 items-center gap-3 rounded-xl px-3 text-[0.9375rem] text-soft transition-colors hover:bg-raised hover:text-ink"
      activeProps={{ className: 'bg-raised !text-ink font-medium', 'aria-current': 'page' }}
    >
      <span aria-hidden>{props.icon}</span>
      {props.label}
      <span className="ml-auto">{props.badge}</span>
      {props.hint !== undefined && (
        <kbd aria-hidden className="font-sans text-xs text-faint">
          {props.hint}
        </kbd>
      )}
    </Link>
  )
}

function InboxCount() {
  const { data } = useQuery(requestsQuery)
  const count = data?.length ?? 0
  if (count === 0) return null
  return (
    <span className="inline-grid h-5 min-w-5 place-items-center rounded-full bg-accent px-1.5 text-xs font-semibold text-on-accent">
      {count}
      <span className="sr-only"> waiting for you</span>
    </span>
  )
}

function TabBar() {
  const tab = 'relative flex min-h-14 flex-1 flex-col items-center justify-center gap-0.5 text-[0.6875rem] font-medium text-faint'
  const active = { className: '!text-ink', 'aria-current': 'page' } as const
  return (
    <nav aria-label="Main" className="safe-bottom border-t border-line bg-surface">
      <div className="flex items-stretch">
        <Link to="/" className={tab} activeProps={active} activeOptions={{ exact: true, includeSearch: false }}>
          <MessagesSquare size={22} aria-hidden />
          Sessions
        </Link>
        <Link to="/inbox" className={tab} activeProps={active}>
          <Inbox size={22} aria-hidden />
          Inbox
          <span className="absolute top-1 left-1/2 ml-2">
            <InboxCount />
          </span>
        </Link>
        <Link to="/new" className={tab} activeProps={active}>
          <span className="grid size-9 place-items-center rounded-full bg-accent text-on-accent">
            <Plus size={22} aria-hidden />
          </span>
          <span className="sr-only">New session</span>
        </Link>
        <Link to="/usage" className={tab} activeProps={active}>
          <ChartNoAxesColumn size={22} aria-hidden />
          Usage
        </Link>
        <Link to="/settings" className={tab} activeProps={active}>
          <Settings size={22} aria-hidden />
          Settings
        </Link>
      </div>
    </nav>
  )
}
