import type { SessionId } from '@anchorhold/protocol/ids'
import { Link } from '@tanstack/react-router'
import { Tab, tabFaces } from './tab.ts'

/** Between the views of a session. */
export function TabBar({ session, tab }: { readonly session: SessionId; readonly tab: Tab | undefined }) {
  return (
    <nav aria-label="Views of this session" className="overflow-x-auto border-b border-line bg-surface [scrollbar-width:none]">
      <ul className="flex min-w-max px-2 max-sm:justify-between lg:px-5">
        {[undefined, ...Tab.options].map((one) => (
          <li key={one ?? 'chat'}>
            <Link
              to="/sessions/$id"
              params={{ id: session }}
              search={one === undefined ? {} : { tab: one }}
              replace
              aria-current={one === tab ? 'page' : undefined}
              className={`inline-flex min-h-11 items-center border-b-2 px-2 text-sm sm:px-3 font-medium ${one === tab ? 'border-accent text-ink' : 'border-transparent text-soft hover:text-ink'}`}
            >
              {one === undefined ? 'Chat' : tabFaces[one]}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  )
}
