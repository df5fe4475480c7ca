import { printable, printableLine } from '@anchorhold/core/printable'
import type { DoctorReport, KnownHole } from '@anchorhold/protocol/doctor'
import type { Enforcement } from '@anchorhold/protocol/rungs'
import { useQuery } from '@tanstack/react-query'
import { wordsOf } from '../daemon.ts'
import { doctorQuery, statusQuery } from '../live/queries.ts'
import { Chip, CopyButton, Trouble } from '../ui/controls.tsx'
import { rungFaces } from '../ui/faces.ts'
import { ago } from '../ui/time.ts'
import { Panel, SettingsFrame } from './SettingsFrame.tsx'

/** What this machine can isolate, each by a cell that was really started, and what it lacks for the rest. */
export function RungsPage() {
  const { data, error } = useQuery(doctorQuery)
  const { data: status } = useQuery(statusQuery)
  return (
    <SettingsFrame title="Walls">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data === undefined && error === null && (
        <p role="status" className="px-1 text-sm text-soft">
          Checking this machine by starting cells…
        </p>
      )}
      {data?.rungs.map((rung) => (
        <OneRung key={rung.rung} finding={rung} usual={status?.rung === rung.rung} />
      ))}
      {data !== undefined && (
        <p className="px-1 text-sm text-faint">
          Linux {printableLine(data.kernel.release)} on {printableLine(data.kernel.arch)} · cgroups {data.kernel.cgroups} · user
          namespaces {data.kernel.user_namespaces ? 'on' : 'off'} · seccomp {data.kernel.seccomp ? 'on' : 'off'}
        </p>
      )}
    </SettingsFrame>
  )
}

function OneRung({ finding, usual }: { readonly finding: DoctorReport['rungs'][number]; readonly usual: boolean }) {
  const { rung, available, tried_at: tried, start_ms: start, missing, limits, notes, holes } = finding
  const { label, about } = rungFaces[rung]
  const open = limits.filter(({ enforcement }) => enforcement === 'not enforced')
  return (
    <Panel
      title={usual ? `${label} (default)` : label}
      about={about}
      action={
        <Chip tone={rung === 'none' ? 'danger' : available ? 'good' : 'quiet'}>
          {available ? (rung === 'none' ? 'No wall' : 'Works') : 'Cannot start'}
        </Chip>
      }
    >
      {missing.map(({ what, remedy }) => (
        <div key={what} className="grid gap-2 rounded-xl bg-raised px-4 py-3 text-sm">
          <p className="[overflow-wrap:anywhere]">{printable(what)}</p>
          <p className="flex items-start justify-between gap-2">
            <code className="min-w-0 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">{printable(remedy)}</code>
            <CopyButton text={remedy} name="Copy the remedy" className="-my-1 shrink-0" />
          </p>
        </div>
      ))}
      {available && open.length > 0 && (
        <p className="text-sm text-danger">
          Not enforced here: {open.map(({ name, how }) => `${name.replaceAll('_', ' ')} (${printableLine(how)})`).join(', ')}
        </p>
      )}
      {limits.length > 0 && (
        <details className="group">
          <summary className="-mx-2 inline-flex min-h-9 items-center rounded-lg px-2 text-sm text-soft underline decoration-line-strong underline-offset-4">
            Limits
          </summary>
          <ul className="mt-2 grid gap-1.5 text-sm">
            {limits.map(({ name, enforcement, how }) => (
              <li key={name} className="flex flex-wrap items-baseline gap-x-3">
                <span className="w-24 shrink-0">{name.replaceAll('_', ' ')}</span>
                <span className={faces[enforcement]}>{enforcement}</span>
                <span className="text-faint [overflow-wrap:anywhere]">{printableLine(how)}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
      {notes?.map((note) => (
        <p key={note} className="text-sm text-soft [overflow-wrap:anywhere]">
          {printable(note)}
        </p>
      ))}
      {holes?.map(({ what, touched, why, remedy }) => (
        <div key={what} className="grid gap-1 rounded-xl bg-raised px-4 py-3 text-sm [overflow-wrap:anywhere]">
          <p>Known hole: {printable(what)}</p>
          <p className={touched === 'no' ? 'text-soft' : 'text-danger'}>
            {meets[touched]}: {printable(why)}
          </p>
          <p className="text-soft">{printable(remedy)}</p>
        </div>
      ))}
      <p className="text-xs text-faint">
        {tried === null
          ? 'Never tried'
          : `Tried ${ago(tried, Date.now()) === 'now' ? 'just now' : `${ago(tried, Date.now())} ago`}`}
        {start !== null && ` · starts in ${Math.round(start)} ms`}
      </p>
    </Panel>
  )
}

const meets = {
  no: 'Sandboxes do not meet it',
  perhaps: 'Sandboxes may meet it',
  yes: 'Sandboxes meet it',
} as const satisfies Record<KnownHole['touched'], string>

const faces = { enforced: 'text-good', watched: 'text-soft', 'not enforced': 'text-danger' } as const satisfies Record<
  Enforcement,
  string
>
