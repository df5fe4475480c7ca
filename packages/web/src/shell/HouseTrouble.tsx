import { policyTroubleWords } from '@anchorhold/core/policy/trouble-words'
import { printable } from '@anchorhold/core/printable'
import { sizeWords } from '@anchorhold/core/size-words'
import type { Status } from '@anchorhold/protocol/api/daemon'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { OctagonX, TriangleAlert } from 'lucide-react'
import { daemon, wordsOf } from '../daemon.ts'
import { statusQuery } from '../live/queries.ts'
import { Button } from '../ui/controls.tsx'

type Trouble = {
  readonly kind: string
  /** Read out once: nothing in it changes while the trouble lasts. */
  readonly what: string
  /** Figures, and what to do. */
  readonly more?: string
  /** What mends it, to be typed. */
  readonly command?: string
  /** Where it can be mended. */
  readonly to?: { readonly path: '/settings/providers' | '/settings/rungs' | '/settings/policy'; readonly label: string }
}
const providers = { path: '/settings/providers', label: 'Fix it' } as const
const rungs = { path: '/settings/rungs', label: 'What to do' } as const
const policy = { path: '/settings/policy', label: 'Fix it' } as const

/** What is wrong with the house itself, each with the way to mend it. */
export function HouseTrouble() {
  const { data: status } = useQuery(statusQuery)
  const troubles = status === undefined ? [] : troublesOf(status)
  const panic = status?.panic ?? null
  if (troubles.length === 0 && panic === null) return null
  return (
    <section aria-label="Trouble" className="safe-top scroll max-h-[30dvh] shrink-0 border-b border-line bg-danger-wash">
      {panic !== null && <Panicked {...panic} />}
      {troubles.map(({ kind, what, more, command, to }) => (
        <div key={kind} className="mx-auto flex max-w-4xl gap-3 px-5 py-2.5 text-sm text-danger">
          <TriangleAlert size={18} aria-hidden className="mt-0.5 shrink-0" />
          <p className="min-w-0 break-words">
            <span role="alert">{printable(what)}</span> {more !== undefined && printable(more)}{' '}
            {command !== undefined && <code className="font-mono text-[0.8125rem]">{command}</code>}{' '}
            {to !== undefined && (
              <Link to={to.path} className="font-medium whitespace-nowrap underline underline-offset-4">
                {to.label}
              </Link>
            )}
          </p>
        </div>
      ))}
    </section>
  )
}

/** What holds every agent, with the one act that lifts it. */
function Panicked({ actor, everybodys }: NonNullable<Status['panic']>) {
  const queries = useQueryClient()
  const lift = useMutation({
    mutationFn: () => daemon.liftPanic(),
    onSettled: () => queries.invalidateQueries({ queryKey: statusQuery.queryKey }),
  })
  return (
    <div className="mx-auto flex max-w-4xl flex-wrap items-center gap-3 px-5 py-2.5 text-sm text-danger">
      <OctagonX size={18} aria-hidden className="shrink-0" />
      <p className="min-w-56 flex-1 break-words">
        <span role="alert">
          {printable(actor)} stopped {everybodys ? 'every agent' : 'all your agents'}. Nothing runs until you let agents run
          again.
        </span>{' '}
        {lift.error !== null && wordsOf(lift.error)}
      </p>
      <Button disabled={lift.isPending} onClick={() => lift.mutate()}>
        Let agents run again
      </Button>
    </div>
  )
}

export function troublesOf(status: Status): readonly Trouble[] {
  const { gate, provider, provider_trouble, provider_refused, rung, rung_available, rung_missing, disk } = status
  return [
    ...(gate === 'down'
      ? [
          {
            kind: 'gate',
            what: 'The gate is down: no agent can reach its model.',
            more: 'It restarts by itself; for details:',
            command: 'anchorhold status',
          },
        ]
      : []),
    ...credentialTrouble({ provider, trouble: provider_trouble, refused: provider_refused }),
    ...status.other_providers.flatMap(credentialTrouble),
    ...(rung_available
      ? []
      : [
          {
            kind: 'rung',
            what: `This machine cannot start a ${rung} cell: ${rung_missing.map(({ what }) => what).join('; ') || 'why is not known'}.`,
            to: rungs,
          },
        ]),
    ...(disk?.low === true
      ? [
          {
            kind: 'disk',
            what: 'The disk is nearly full: when it is, agents stop.',
            more: `${sizeWords(disk.free_bytes)} left for logs and workspaces. Purging archived sessions frees what they hold; what holds how much says`,
            command: 'anchorhold doctor --disk',
          },
        ]
      : []),
    ...status.policy_trouble.map((trouble) => ({
      kind: `policy ${trouble.file}`,
      what: `${policyTroubleWords(trouble)}.`,
      to: policy,
    })),
    ...(status.credentials_trouble === null
      ? []
      : [
          {
            kind: 'credentials',
            what: `${status.credentials_trouble}. No session starts but with the network switched off.`,
            more: 'Mend it in the config folder, then look with',
            command: 'anchorhold secret ls',
          },
        ]),
  ]
}

function credentialTrouble({ provider, trouble, refused }: Status['other_providers'][number]): readonly Trouble[] {
  const kind = `provider ${provider}`
  if (trouble !== null) return [{ kind, what: `The credential of ${provider} cannot be used: ${trouble}.`, to: providers }]
  return refused
    ? [
        {
          kind,
          what: `${provider} refuses its credential: it has expired, was revoked, or may not use this model.`,
          to: providers,
        },
      ]
    : []
}
