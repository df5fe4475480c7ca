import type { ReactNode } from 'react'

/** A labelled field with a line under it that says what it is for, or what is wrong with it. */
export function Field({
  label,
  hint,
  wrong = false,
  children,
}: {
  readonly label: string
  readonly hint?: string
  readonly wrong?: boolean
  readonly children: ReactNode
}) {
  return (
    <label className="grid content-start gap-1.5 text-sm font-medium">
      {label}
      {children}
      {hint !== undefined && <span className={`text-xs font-normal ${wrong ? 'text-danger' : 'text-faint'}`}>{hint}</span>}
    </label>
  )
}
