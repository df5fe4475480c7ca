import { Link } from '@tanstack/react-router'
import { ArrowLeft } from 'lucide-react'
import type { ReactNode } from 'react'
import { ConnectionMark } from '../shell/ConnectionMark.tsx'
import { PageTitle } from '../shell/PageTitle.tsx'
import { PanicButton } from '../shell/PanicButton.tsx'
import { useWide } from '../shell/use-wide.ts'

/** What stands around each page of the settings: its name, and the way back to all of them. */
export function SettingsFrame({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  const wide = useWide()
  return (
    <>
      <PageTitle name={title} />
      <header className="safe-top px-3 pt-4 pb-3 lg:px-8 lg:pt-7">
        <div className="mx-auto flex w-full max-w-2xl items-center gap-1 lg:-translate-x-3">
          <Link
            to="/settings"
            aria-label="All settings"
            className="grid size-11 shrink-0 place-items-center rounded-xl text-soft hover:bg-raised"
          >
            <ArrowLeft size={20} aria-hidden />
          </Link>
          <h1 className="text-2xl font-semibold tracking-tight">{title}</h1>
          <span className="ml-auto" />
          {!wide && <ConnectionMark />}
          {!wide && <PanicButton />}
        </div>
      </header>
      <div className="scroll flex-1 px-4 pb-10 lg:px-8">
        <div className="mx-auto grid w-full max-w-2xl grid-cols-1 gap-4">{children}</div>
      </div>
    </>
  )
}

/** One matter of a page. */
export function Panel({
  title,
  about,
  action,
  children,
}: {
  readonly title: string
  readonly about?: string
  readonly action?: ReactNode
  readonly children?: ReactNode
}) {
  return (
    <section aria-label={title} className="card grid grid-cols-1 gap-4 p-5">
      <div className="flex items-start justify-between gap-4">
        <div className="min-w-0">
          <h2 className="font-semibold tracking-tight [overflow-wrap:anywhere]">{title}</h2>
          {about !== undefined && <p className="mt-0.5 text-sm text-soft">{about}</p>}
        </div>
        {action}
      </div>
      {children}
    </section>
  )
}
