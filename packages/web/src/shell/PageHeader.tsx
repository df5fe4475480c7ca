import { ConnectionMark } from './ConnectionMark.tsx'
import { PageTitle } from './PageTitle.tsx'
import { PanicButton } from './PanicButton.tsx'
import { useWide } from './use-wide.ts'

export function PageHeader({ title }: { readonly title: string }) {
  const wide = useWide()
  return (
    <header className="safe-top px-5 pt-5 pb-4 max-lg:pt-3 max-lg:pb-2 lg:px-8 lg:pt-8">
      <PageTitle name={title} />
      <div className="mx-auto flex w-full max-w-2xl items-center justify-between">
        <h1 className="text-2xl font-semibold tracking-tight">{title}</h1>
        {!wide && (
          <span className="-mr-2 flex items-center gap-1">
            <ConnectionMark />
            <PanicButton />
          </span>
        )}
      </div>
    </header>
  )
}
