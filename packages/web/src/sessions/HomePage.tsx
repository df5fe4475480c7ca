import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import { statusQuery } from '../live/queries.ts'
import { ConnectionMark } from '../shell/ConnectionMark.tsx'
import { HouseMenu } from '../shell/HouseMenu.tsx'
import { PageTitle } from '../shell/PageTitle.tsx'
import { useWide } from '../shell/use-wide.ts'
import { SessionList } from './SessionList.tsx'

const NewSession = lazy(async () => ({ default: (await import('./NewSession.tsx')).NewSession }))

/** Where the app opens: the list on a phone; beside the list, room for the next task. */
export function HomePage() {
  const wide = useWide()
  const { data: status } = useQuery(statusQuery)
  if (wide)
    return (
      <Suspense>
        <NewSession />
      </Suspense>
    )
  return (
    <>
      <PageTitle name="Sessions" />
      <header className="safe-top flex items-center gap-2 px-5 pt-3 pb-1">
        <div className="min-w-0">
          <h1 className="text-2xl font-semibold tracking-tight">Sessions</h1>
          {status?.simulated && <p className="text-xs text-faint">Rehearsal: no model is called</p>}
        </div>
        <span className="ml-auto" />
        <ConnectionMark />
        <HouseMenu />
      </header>
      <div className="min-h-0 flex-1">
        <SessionList />
      </div>
    </>
  )
}
