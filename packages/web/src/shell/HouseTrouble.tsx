import { printable } from '@anchorhold/core/printable'
import type { Status } from '@anchorhold/protocol/api/daemon'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import { statusQuery } from '../live/queries.ts'

type Trouble = {
  readonly what: string
  /** Where it can be mended. */
  readonly to?: { readonly path: '/settings/providers' | '/settings/rungs' | '/settings/policy'; readonly label: string }
}
const providers = { path: '/settings/providers', label: 'Mend it' } as const
const rungs = { path: '/settings/rungs', label: 'What to do' } as const
const policy = { path: '/settings/policy', label: 'Mend it' } as const

/** What is wrong with the house itself, each with the way to mend it. */
export function HouseTrouble() {
  const { data: status } = useQuery(statusQuery)
  const troubles = status === undefined ? [] : troublesOf(status)
  if (troubles.length === 0) return null
  return (
    <section aria-label="Trouble" className="safe-top scroll max-h-[30dvh] shrink-0 border-b border-line bg-danger-wash">
      {troubles.map(({ what, to }) => (
        <p key={what} role="alert" className="mx-auto flex max-w-4xl gap-3 px-5 py-2.5 text-sm text-danger">
          <TriangleAlert size={18} aria-hidden className="mt-0.5 shrink-0" />
          <span className="min-w-0 break-words">
            {printable(what)}
            {to !== undefined && (
              <>
                {' '}
                <Link to={to.path} className="font-medium whitespace-nowrap underline underline-offset-4">
                  {to.label}
                </Link>
              </>
            )}
          </span>
        </p>
      ))}
    </section>
  )
}

function troublesOf(status: Status): readonly Trouble[] {
  const { gate, provider, provider_trouble, provider_refused, rung, rung_available, rung_missing, disk, policy_trouble } = status
  return [
    ...(gate === 'down'
      ? [
          {
            what: 'The gate is down: no agent can reach its model. It is started again by itself; “anchorhold status” tells more.',
          },
        ]
      : []),
    ...(provider_trouble === null
      ? provider_refused
        ? [{ what: `${provider} refuses its credential: it has expired, was revoked, or may not use this model.`, to: providers }]
        : []
      : [{ what: `The credential of ${provider} cannot be used: ${provider_trouble}.`, to: providers }]),
    ...(rung_available
      ? []
      : [
          {
            what: `This machine cannot start a ${rung} cell: ${rung_missing.map(({ what }) => what).join('; ') || 'why is not known'}.`,
            to: rungs,
          },
        ]),
    ...(disk?.low === true
      ? [
          {
            what: `The disk is nearly full: ${(disk.free_bytes / 1024 ** 3).toFixed(1)} GiB are left for logs and workspaces. Purging archived sessions frees what they hold.`,
          },
        ]
      : []),
    ...policy_trouble.map(({ file, line, message }) => ({
      what: `${file} cannot be used, and what it said before stays in force: line ${line}: ${message}.`,
      to: policy,
    })),
  ]
}
