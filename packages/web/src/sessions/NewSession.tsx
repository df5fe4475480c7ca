import { printableLine } from '@anchorhold/core/printable'
import { parseUsd } from '@anchorhold/protocol/money'
import { Autonomy } from '@anchorhold/protocol/policy'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { Rung, sharesHostNetwork } from '@anchorhold/protocol/rungs'
import { Network } from '@anchorhold/protocol/sessions'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { ArrowUp, ChevronDown } from 'lucide-react'
import { useId, useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { putSession } from '../live/apply.ts'
import { doctorQuery, modelsQuery, statusQuery } from '../live/queries.ts'
import { PageTitle } from '../shell/PageTitle.tsx'
import { Trouble } from '../ui/controls.tsx'
import { Field } from '../ui/Field.tsx'
import { rungFaces } from '../ui/faces.ts'
import { FolderChoice } from './FolderChoice.tsx'
import { lastPart } from './order.ts'
import { keyFor } from './send-key.ts'

const draftPlace = 'anchorhold.draft.new'
const keyPlace = 'anchorhold.draft.new.key'
const suggestions = [
  'create hello.txt saying hi, then run cat hello.txt',
  'ask me whether to use tabs or spaces',
  'plan to create notes.md',
] as const

const autonomies = {
  full: { label: 'Full', about: 'Runs anything no rule covers: the wall is the boundary' },
  supervised: { label: 'Supervised', about: 'Asks about anything no rule covers' },
  restricted: { label: 'Restricted', about: 'Asks before every tool' },
  read_only: { label: 'Read only', about: 'Runs no tool at all' },
} as const satisfies Record<Autonomy, { label: string; about: string }>

const networks = {
  none: { label: 'None', about: 'Nothing but its model can be reached' },
  proxy_only: { label: 'What rules open', about: 'Asks about anything no rule covers' },
  host: {
    label: 'Everything',
    about: 'Everything this machine can reach, unwatched; only where the policy allows it',
  },
} as const satisfies Record<Network, { label: string; about: string }>

/** Why this machine has no such wall; null where it has, or where that is not known yet. */
function lacks(machine: DoctorReport | undefined, rung: Rung): string | null {
  const found = machine?.rungs.find((one) => one.rung === rung)
  return found === undefined || found.available ? null : (found.missing[0]?.what ?? 'it cannot be started')
}

/** A prompt is enough; everything else is folded away. */
export function NewSession() {
  const cache = useQueryClient()
  const navigate = useNavigate()
  const { data: status } = useQuery(statusQuery)
  const modelsId = useId()
  const [options, setOptions] = useState(false)
  const { data: machine } = useQuery({ ...doctorQuery, enabled: options })
  const { data: models } = useQuery({ ...modelsQuery, enabled: options })
  const [text, setText] = useState(() => localStorage.getItem(draftPlace) ?? '')
  const [workspace, setWorkspace] = useState('')
  const [model, setModel] = useState('')
  const [rung, setRung] = useState('')
  const [budget, setBudget] = useState('')
  const [autonomy, setAutonomy] = useState('')
  const [network, setNetwork] = useState('')
  const nanos = budget === '' ? null : parseUsd(budget)
  const badBudget = budget !== '' && nanos === null

  const change = (value: string) => {
    setText(value)
    try {
      localStorage.setItem(draftPlace, value)
    } catch {}
  }
  const create = useMutation({
    mutationFn() {
      const body = {
        prompt: { text: text.trim() },
        ...(workspace === '' ? {} : { workspace }),
        ...(model === '' ? {} : { model }),
        ...(rung === '' ? {} : { rung: Rung.parse(rung) }),
        ...(autonomy === '' ? {} : { autonomy: Autonomy.parse(autonomy) }),
        ...(network === '' ? {} : { network: Network.parse(network) }),
        ...(nanos === null ? {} : { budget_micros: Math.floor(nanos / 1000) }),
      }
      const key = keyFor(localStorage, keyPlace, body, () => crypto.randomUUID())
      return daemon.createSession({ body: { ...body, idempotency_key: key } })
    },
    onSuccess(session) {
      localStorage.removeItem(draftPlace)
      localStorage.removeItem(keyPlace)
      putSession(cache, session)
      void navigate({ to: '/sessions/$id', params: { id: session.id }, replace: true })
    },
  })
  const missing = Rung.options.flatMap((one) => {
    const why = one === 'seatbelt' ? null : lacks(machine, one)
    return why === null ? [] : [{ rung: one, why }]
  })
  const chosen = rung === '' ? status?.rung : Rung.parse(rung)
  const mayShare = chosen !== undefined && sharesHostNetwork(chosen)
  const ready = text.trim() !== '' && !badBudget && !create.isPending
  return (
    <div className="scroll flex flex-1 flex-col px-4 lg:px-8">
      <PageTitle name="New session" />
      <div className="safe-top mx-auto w-full max-w-2xl py-6 lg:pt-[16vh]">
        <h1 className="px-1 text-2xl font-semibold tracking-tight lg:text-3xl">What should be done?</h1>
        <form
          className="mt-5"
          onSubmit={(event) => {
            event.preventDefault()
            if (ready) create.mutate()
          }}
        >
          <div className="card p-2 shadow-card focus-within:border-line-strong">
            <textarea
              aria-label="Prompt"
              autoFocus
              rows={4}
              value={text}
              onChange={(event) => change(event.target.value)}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || !ready) return
                event.preventDefault()
                create.mutate()
              }}
              placeholder={status?.simulated ? suggestions[0] : 'Fix the failing test in …'}
              className="max-h-[40vh] min-h-28 w-full resize-none bg-transparent px-3 py-2.5 text-[1.0625rem] leading-relaxed placeholder:text-faint focus:outline-none"
            />
            <div className="flex items-center justify-between gap-3 pl-3">
              <p className="min-w-0 truncate text-[0.8125rem] text-faint">
                {status === undefined
                  ? ''
                  : `In a ${rungFaces[rung === '' ? status.rung : Rung.parse(rung)].label} cell · ${workspace === '' ? 'empty folder' : printableLine(lastPart(workspace))}`}
              </p>
              <button
                type="submit"
                disabled={!ready}
                className="inline-flex h-11 items-center gap-2 rounded-xl bg-accent pr-4 pl-3.5 font-semibold text-on-accent transition-colors hover:bg-accent-press disabled:bg-raised disabled:text-faint"
              >
                <ArrowUp size={18} aria-hidden />
                {create.isPending ? 'Starting…' : 'Start'}
              </button>
            </div>
          </div>
          <FolderChoice value={workspace} onChange={setWorkspace} />
          {status !== undefined && status.limits_missing.length > 0 && (rung === '' || rung === status.rung) && (
            <p className="mt-2 px-3 text-xs text-faint">
              Not enforced on this machine: {status.limits_missing.map(({ name }) => name.replaceAll('_', ' ')).join(', ')}.{' '}
              <Link to="/settings/rungs" className="underline underline-offset-4">
                What to do
              </Link>
            </p>
          )}
          {create.error !== null && (
            <div className="mt-3">
              <Trouble>{wordsOf(create.error)}</Trouble>
            </div>
          )}
          <details className="group mt-3" onToggle={(event) => setOptions(event.currentTarget.open)}>
            <summary className="inline-flex min-h-11 items-center gap-1.5 rounded-xl px-3 text-[0.9375rem] text-soft hover:bg-raised">
              Options
              <ChevronDown size={16} aria-hidden className="transition-transform group-open:rotate-180" />
            </summary>
            <div className="card mt-2 grid gap-4 p-4 sm:grid-cols-2">
              <Field label="Wall" hint={rung === '' ? 'How strong the cell must be' : rungFaces[Rung.parse(rung)].about}>
                <select className="field" value={rung} onChange={(event) => setRung(event.target.value)}>
                  <option value="">{status === undefined ? 'Default' : `Default: ${rungFaces[status.rung].label}`}</option>
                  {Rung.options
                    .filter((one) => one !== 'seatbelt' || status?.rung === 'seatbelt')
                    .map((one) => (
                      <option key={one} value={one} disabled={lacks(machine, one) !== null}>
                        {rungFaces[one].label}
                        {lacks(machine, one) !== null && ' (not on this machine)'}
                      </option>
                    ))}
                </select>
                {missing.length > 0 && (
                  <span className="text-xs font-normal text-faint [overflow-wrap:anywhere]">
                    Not on this machine:{' '}
                    {missing.map(({ rung: one, why }) => `${rungFaces[one].label} (${printableLine(why)})`).join(', ')}.{' '}
                    <Link to="/settings/rungs" className="underline underline-offset-4">
                      What to do
                    </Link>
                  </span>
                )}
              </Field>
              <Field
                label="Autonomy"
                hint={autonomy === '' ? 'What it may do without asking' : autonomies[Autonomy.parse(autonomy)].about}
              >
                <select className="field" value={autonomy} onChange={(event) => setAutonomy(event.target.value)}>
                  <option value="">As the policy says</option>
                  {Autonomy.options.map((one) => (
                    <option key={one} value={one}>
                      {autonomies[one].label}
                    </option>
                  ))}
                </select>
              </Field>
              <Field
                label="Network"
                hint={network === '' ? 'What it can reach besides its model' : networks[Network.parse(network)].about}
              >
                <select className="field" value={network} onChange={(event) => setNetwork(event.target.value)}>
                  <option value="">Default</option>
                  {Network.options
                    .filter((one) => one !== 'host' || mayShare)
                    .map((one) => (
                      <option key={one} value={one}>
                        {networks[one].label}
                      </option>
                    ))}
                </select>
              </Field>
              <Field label="Model" hint="Default: the provider's own">
                <input
                  className="field"
                  value={model}
                  onChange={(event) => setModel(event.target.value)}
                  list={modelsId}
                  autoComplete="off"
                  spellCheck={false}
                />
                <datalist id={modelsId}>
                  {models?.map((one) => (
                    <option key={one} value={printableLine(one)} />
                  ))}
                </datalist>
              </Field>
              <Field
                label="Budget"
                hint={badBudget ? 'An amount like 2 or 0.50' : 'In dollars; no call is made beyond it'}
                wrong={badBudget}
              >
                <input
                  className="field"
                  inputMode="decimal"
                  value={budget}
                  onChange={(event) => setBudget(event.target.value)}
                  placeholder="2.00"
                  aria-invalid={badBudget}
                />
              </Field>
            </div>
          </details>
          {status?.simulated && text === '' && (
            <section aria-label="Suggestions" className="mt-6 px-1">
              <p className="text-[0.8125rem] text-faint">
                No provider is set up yet, so a rehearsal answers: a small fixed program that costs nothing. Try:
              </p>
              <ul className="mt-2 grid gap-2">
                {suggestions.map((suggestion) => (
                  <li key={suggestion}>
                    <button
                      type="button"
                      className="card min-h-11 w-full px-4 py-2.5 text-left text-[0.9375rem] text-soft hover:border-line-strong hover:text-ink"
                      onClick={() => change(suggestion)}
                    >
                      {printableLine(suggestion)}
                    </button>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </form>
      </div>
    </div>
  )
}
