import { useQuery } from '@tanstack/react-query'
import { printable } from '@anchorhold/core/printable'
import { TriangleAlert } from 'lucide-react'
import { statusQuery } from '../live/queries.ts'

/** What is wrong with the house itself, each with the way to mend it. */
export function HouseTrouble() {
  const { data: status } = useQuery(statusQuery)
  if (status === undefined) return null
  const troubles = [
    ...(status.gate === 'down' ? ['The gate is down: no agent can reach its model. “npx anchorhold status” tells more'] : []),
    ...(status.provider_trouble === null
      ? []
      : [`The credential of ${status.provider} cannot be used: ${status.provider_trouble}`]),
    ...(status.rung_available
      ? []
      : [
          `This machine cannot start a ${status.rung} cell: ${status.rung_missing.map(({ what, remedy }) => `${what} (${remedy})`).join('; ') || 'npx anchorhold doctor says why'}`,
        ]),
  ]
  if (troubles.length === 0) return null
  return (
    <section aria-label="Trouble" className="safe-top border-b border-line bg-danger-wash">
      {troubles.map((trouble) => (
        <p key={trouble} role="alert" className="mx-auto flex max-w-4xl gap-3 px-5 py-2.5 text-sm text-danger">
          <TriangleAlert size={18} aria-hidden className="mt-0.5 shrink-0" />
          <span className="min-w-0 break-words">{printable(trouble)}</span>
        </p>
      ))}
    </section>
  )
}
