import { mayDo, type Verb } from '@anchorhold/core/session-states'
import { printableLine } from '@anchorhold/core/printable'
import { formatUsd, parseUsd } from '@anchorhold/protocol/money'
import { limits, type Session } from '@anchorhold/protocol/sessions'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import {
  Archive,
  ArrowLeft,
  CirclePause,
  CirclePlay,
  EllipsisVertical,
  GitFork,
  OctagonX,
  Pencil,
  Power,
  UserPlus,
  Wallet,
} from 'lucide-react'
import { lazy, type ReactNode, Suspense, useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { putSession } from '../live/apply.ts'
import { useMayShare } from '../live/me.ts'
import { Place } from '../sessions/Place.tsx'
import { ConnectionMark } from '../shell/ConnectionMark.tsx'
import { PageTitle } from '../shell/PageTitle.tsx'
import { PanicDialog } from '../shell/PanicDialog.tsx'
import { useWide } from '../shell/use-wide.ts'
import { AskForm } from '../ui/AskForm.tsx'
import { Button, Chip, Dialog, Menu, type MenuEntry, Trouble } from '../ui/controls.tsx'
import { rungFaces, stateFaces } from '../ui/faces.ts'
import { ContextRing } from './ContextRing.tsx'

type Asking = 'rename' | 'budget' | 'share' | 'archive' | 'panic' | null

const ShareDialog = lazy(async () => ({ default: (await import('./ShareDialog.tsx')).ShareDialog }))

/** Who this is, how it stands, what holds it and what it has cost; and what can be done with it. */
export function SessionHeader({ session, onFork }: { readonly session: Session; readonly onFork: (seq: number | null) => void }) {
  const wide = useWide()
  const cache = useQueryClient()
  const navigate = useNavigate()
  const [asking, setAsking] = useState<Asking>(null)
  const mayShare = useMayShare(session)
  const state = stateFaces[session.state]
  const rung = rungFaces[session.rung]
  const wall = (
    <>
      <Chip tone={rung.tone} title={rung.about}>
        {rung.label}
      </Chip>
      {session.network === 'host' && session.rung !== 'none' && (
        <Chip tone="danger" title="This cell shares the host's network: anything it reads can leave">
          Host network
        </Chip>
      )}
      {session.secrets_inside.length > 0 && (
        <Chip tone="danger" title={`Code in this cell can read: ${session.secrets_inside.join(', ')}`}>
          Secrets inside
        </Chip>
      )}
    </>
  )
  const act = useMutation({
    mutationFn: (verb: 'pause' | 'resume' | 'stop' | 'start' | 'archive') => daemon[verb]({ params: { id: session.id } }),
    onSuccess: (row) => putSession(cache, row),
  })
  const entry = (verb: Verb, label: string, icon: ReactNode, onSelect: () => void, danger = false): readonly MenuEntry[] =>
    mayDo(session.state, verb) ? [{ label, icon, danger, onSelect }] : []
  const entries = [
    ...entry('pause', 'Pause', <CirclePause size={18} />, () => act.mutate('pause')),
    ...entry('resume', 'Resume', <CirclePlay size={18} />, () => act.mutate('resume')),
    ...entry('start', 'Start again', <CirclePlay size={18} />, () => act.mutate('start')),
    ...entry('stop', 'Stop the cell', <Power size={18} />, () => act.mutate('stop')),
    ...entry('fork', 'Fork', <GitFork size={18} />, () => onFork(null)),
    ...entry('change', 'Rename…', <Pencil size={18} />, () => setAsking('rename')),
    ...entry('change', 'Budget…', <Wallet size={18} />, () => setAsking('budget')),
    ...(mayShare ? [{ label: 'Share…', icon: <UserPlus size={18} />, onSelect: () => setAsking('share') }] : []),
    ...entry('archive', 'Archive…', <Archive size={18} />, () => setAsking('archive'), true),
    { label: 'Stop every agent…', icon: <OctagonX size={18} />, danger: true, onSelect: () => setAsking('panic') },
  ]
  return (
    <header className="safe-top border-b border-line bg-surface">
      <PageTitle name={session.name} />
      <div className="flex items-center gap-1 px-2 py-2 lg:px-6">
        {!wide && (
          <Link
            to="/"
            aria-label="All sessions"
            className="grid size-11 shrink-0 place-items-center rounded-xl text-soft hover:bg-raised"
          >
            <ArrowLeft size={20} aria-hidden />
          </Link>
        )}
        <div className="min-w-0 flex-1">
          <div className="flex items-center gap-2.5">
            <h1 className="truncate text-[1.0625rem] font-semibold tracking-tight">{printableLine(session.name)}</h1>
            {wide ? <Chip {...state}>{state.label}</Chip> : <ConnectionMark />}
          </div>
          {!wide && (
            <div className="flex text-[0.8125rem] text-soft">
              <Place session={session} />
            </div>
          )}
          {wide && (
            <div className="mt-0.5 flex min-w-0 items-center gap-2.5 text-[0.8125rem] text-soft">
              {wall}
              <Place session={session} />
              <span className="truncate text-faint">{printableLine(session.model)}</span>
            </div>
          )}
        </div>
        {wide && (
          <div className="flex shrink-0 items-center gap-4 text-[0.8125rem]">
            {session.context !== null && <ContextRing context={session.context} />}
            <Cost session={session} />
          </div>
        )}
        <Menu name="Session" icon={<EllipsisVertical size={20} aria-hidden />} entries={entries} className="max-lg:mr-0" />
      </div>
      {!wide && (
        <div className="flex items-center gap-2 px-4 pb-2 text-[0.8125rem]">
          <Chip {...state}>{state.label}</Chip>
          {wall}
          <span className="ml-auto" />
          {session.context !== null && <ContextRing context={session.context} />}
          <Cost session={session} />
        </div>
      )}
      {session.simulated && (
        <p className="border-t border-line bg-accent-wash px-5 py-1.5 text-center text-xs text-accent-ink">
          Rehearsal: no model is called, the money is play money
        </p>
      )}
      {session.state === 'interrupted' && (
        <p
          role="alert"
          className="border-t border-line bg-danger-wash px-5 py-1.5 text-center text-xs text-danger [overflow-wrap:anywhere]"
        >
          Cut short{session.why ? `: ${printableLine(session.why)}` : ''}. The next prompt goes on from there.
        </p>
      )}
      {session.limits.some(({ enforcement }) => enforcement === 'not enforced') && (
        <p className="border-t border-line px-5 py-1.5 text-center text-xs text-danger">
          Not enforced here:{' '}
          {session.limits
            .filter(({ enforcement }) => enforcement === 'not enforced')
            .map(({ name, how }) => `${name.replaceAll('_', ' ')} (${how})`)
            .join(', ')}
        </p>
      )}
      {act.error !== null && (
        <div className="px-4 pb-3">
          <Trouble>{wordsOf(act.error)}</Trouble>
        </div>
      )}
      <ChangeDialog
        session={session}
        asking={asking}
        onClose={() => setAsking(null)}
        onArchive={() => act.mutate('archive', { onSuccess: () => void navigate({ to: '/' }) })}
      />
    </header>
  )
}

function Cost({ session: { cost_micros: cost, budget_micros: budget } }: { readonly session: Session }) {
  const share = budget === null || budget === 0 ? 0 : Math.min(1, cost / budget)
  return (
    <div className="shrink-0 text-right text-[0.8125rem] tabular-nums">
      <p className="font-medium">
        {formatUsd(cost)}
        {budget !== null && <span className="font-normal text-faint"> / {formatUsd(budget)}</span>}
      </p>
      {budget !== null && (
        <div
          role="meter"
          aria-label="Spent of the budget"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(share * 100)}
          className="mt-0.5 ml-auto h-1 w-full min-w-16 overflow-hidden rounded-full bg-raised"
        >
          <div
            className={`h-full rounded-full ${share >= 0.8 ? 'bg-danger' : 'bg-accent'}`}
            style={{ width: `${share * 100}%` }}
          />
        </div>
      )}
    </div>
  )
}

function ChangeDialog({
  session,
  asking,
  onClose,
  onArchive,
}: {
  readonly session: Session
  readonly asking: Asking
  readonly onClose: () => void
  readonly onArchive: () => void
}) {
  if (asking === 'archive') {
    return (
      <Dialog open title="Archive this session?" onClose={onClose}>
        <p className="mt-2 text-soft">
          Its cell ends and it becomes read-only. What was said and done stays, and search finds it.
        </p>
        <div className="mt-6 flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            look="primary"
            onClick={() => {
              onClose()
              onArchive()
            }}
          >
            Archive
          </Button>
        </div>
      </Dialog>
    )
  }
  if (asking === 'panic') return <PanicDialog open onClose={onClose} />
  if (asking === 'share')
    return (
      <Suspense>
        <ShareDialog session={session} onClose={onClose} />
      </Suspense>
    )
  return asking === null ? null : <Change key={asking} session={session} what={asking} onClose={onClose} />
}

function Change({
  session,
  what,
  onClose,
}: {
  readonly session: Session
  readonly what: 'rename' | 'budget'
  readonly onClose: () => void
}) {
  const cache = useQueryClient()
  const { id, name, budget_micros: budget } = session
  const micros = (text: string) => (text.trim() === '' ? null : Math.floor((parseUsd(text) ?? 0) / 1000))
  const form = {
    rename: {
      field: { label: 'Name', initial: name, maxLength: limits.nameLength },
      isReady: (text: string) => text.trim() !== '',
      body: (text: string) => ({ name: text.trim() }),
    },
    budget: {
      field: {
        label: 'Budget in dollars; empty for no limit',
        initial: budget === null ? '' : (budget / 1_000_000).toFixed(2),
        inputMode: 'decimal',
      },
      isReady: (text: string) => text.trim() === '' || parseUsd(text) !== null,
      body: (text: string) => ({ budget_micros: micros(text) }),
    },
  } as const
  const { field, isReady, body } = form[what]
  return (
    <Dialog open title={what === 'rename' ? 'Rename' : 'Budget'} onClose={onClose}>
      <div className="mt-4">
        <AskForm
          fields={{ text: { ...field, autoFocus: true } }}
          action="Save"
          isReady={({ text }) => isReady(text)}
          send={({ text }) => daemon.changeSession({ params: { id }, body: body(text) })}
          onDone={(row) => {
            putSession(cache, row)
            onClose()
          }}
          beside={<Button onClick={onClose}>Cancel</Button>}
        />
      </div>
    </Dialog>
  )
}
