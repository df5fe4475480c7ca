import type { ReactNode } from 'react'

/** What every view but the conversation lies in: it scrolls by itself, and keys can scroll it. */
export function Pane({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div role="region" aria-label={name} tabIndex={0} className="scroll min-h-0 flex-1 px-3 py-4 sm:px-6">
      <div className="mx-auto grid w-full max-w-4xl grid-cols-1 gap-3">{children}</div>
    </div>
  )
}
