import { printable, printableAction, printableLine } from '@anchorhold/core/printable'
import { type RequestWords, requestWords } from '@anchorhold/core/request-words'
import type { AnswerRequest } from '@anchorhold/protocol/api/requests'
import type { RequestAction, RequestAnswer } from '@anchorhold/protocol/events'
import type { Rule } from '@anchorhold/protocol/policy'
import { ruleWords } from '@anchorhold/core/policy/rule-words'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Check, ChevronDown, CircleHelp, ClipboardList, ShieldQuestion, X } from 'lucide-react'
import { type ReactNode, useId, useState } from 'react'
import { daemon, wordsOf } from '../daemon.ts'
import { keys } from '../live/apply.ts'
import { Button, Trouble } from '../ui/controls.tsx'
import { LongText } from '../ui/LongText.tsx'
import { Markdown } from '../ui/Markdown.tsx'
import { QuestionForm } from './QuestionForm.tsx'
import { RulePast } from './RulePast.tsx'

export type RequestCardProps = {
  readonly id: string
  readonly action: RequestAction
  readonly why: string | null
  /** What would settle it from now on. */
  readonly rule: Rule | null
  readonly deferred: boolean
  readonly settled: { readonly answer: RequestAnswer; readonly by: string | null } | null
  /** Which session asks, where the card does not stand in it. */
  readonly from?: ReactNode
}

const icons = {
  question: <CircleHelp size={18} />,
  plan: <ClipboardList size={18} />,
  tool: <ShieldQuestion size={18} />,
  net: <ShieldQuestion size={18} />,
  host: <ShieldQuestion size={18} />,
  spend: <ShieldQuestion size={18} />,
} as const satisfies Record<RequestAction['kind'], ReactNode>

/** Something that waits for a person. It leaves the page when the stream says that it was answered, here or anywhere else. */
export function RequestCard({ id, action, why, rule, deferred, settled, from }: RequestCardProps) {
  const titleId = useId()
  const cache = useQueryClient()
  const { title, exact } = requestWords(action)
  const answer = useMutation({
    mutationFn: (body: AnswerRequest) => daemon.answerRequest({ params: { id }, body }),
    onSettled: () => cache.invalidateQueries({ queryKey: keys.requests }),
  })
  const done = settled ?? (answer.data?.answer ? { answer: answer.data.answer, by: answer.data.answered_by } : null)
  return (
    <article
      aria-labelledby={titleId}
      className={`card overflow-hidden ${done === null ? '!border-accent shadow-card' : ''}`}
      data-request={id}
    >
      <header className={`flex items-center gap-2.5 px-4 py-3 ${done === null ? 'bg-accent-wash' : ''}`}>
        <span aria-hidden className="text-accent-ink">
          {icons[action.kind]}
        </span>
        <div className="grid min-w-0 flex-1 grid-cols-1 sm:flex sm:items-center sm:gap-4">
          <h3 id={titleId} className="min-w-0 flex-1 font-semibold [overflow-wrap:anywhere]">
            {printableAction(title)}
          </h3>
          {from}
        </div>
      </header>
      <div className={`grid grid-cols-1 gap-4 px-4 pb-4 ${done === null ? 'pt-4' : ''}`}>
        {action.kind === 'plan' && <Markdown text={action.plan} />}
        {action.kind !== 'plan' && action.kind !== 'question' && exact.length > 0 && <Exact exact={exact} />}
        {why !== null && <p className="text-sm text-soft [overflow-wrap:anywhere] first-letter:uppercase">{printable(why)}</p>}
        {done !== null ? (
          <Settled action={action} {...done} />
        ) : action.kind === 'question' ? (
          <QuestionForm
            questions={action.questions}
            busy={answer.isPending}
            onAnswer={(answers) => answer.mutate({ decision: 'allow', answers })}
            onDismiss={() => answer.mutate({ decision: 'deny' })}
          />
        ) : (
          <Decision id={id} kind={action.kind} rule={rule} busy={answer.isPending} onAnswer={(body) => answer.mutate(body)} />
        )}
        {done === null &&
          (deferred ? (
            <p className="text-sm text-faint">Deferred: it stays open, and the session waits</p>
          ) : (
            <button
              type="button"
              disabled={answer.isPending}
              className="-my-2 min-h-9 justify-self-end rounded-lg px-2 text-sm text-soft underline decoration-line-strong underline-offset-4 hover:text-ink"
              onClick={() => answer.mutate({ decision: 'later' })}
            >
              Not now
            </button>
          ))}
        {answer.error !== null && <Trouble>{wordsOf(answer.error)}</Trouble>}
      </div>
    </article>
  )
}

/** The very words, every character of them visible. */
function Exact({ exact }: { readonly exact: RequestWords['exact'] }) {
  return (
    <dl className="grid gap-2 rounded-xl bg-raised px-4 py-3">
      {exact.map(({ name, text }, index) => (
        <div key={index} className="min-w-0">
          <dt className={name === null ? 'sr-only' : 'text-xs text-faint'}>
            {name === null ? 'Exactly' : printableAction(name)}
          </dt>
          {/* The edge runs along every line of it, so that none passes for what stands beside it. */}
          <dd className={text.includes('\n') ? 'border-l-2 border-line-strong pl-3' : ''}>
            <LongText text={printableAction(text)} mono />
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Decision({
  id,
  kind,
  rule,
  busy,
  onAnswer,
}: {
  readonly id: string
  readonly kind: RequestAction['kind']
  readonly rule: Rule | null
  readonly busy: boolean
  readonly onAnswer: (answer: AnswerRequest) => void
}) {
  const plan = kind === 'plan'
  const [denying, setDenying] = useState(false)
  const [reason, setReason] = useState('')
  const [widening, setWidening] = useState(false)
  if (denying) {
    return (
      <form
        className="grid gap-3"
        onSubmit={(event) => {
          event.preventDefault()
          onAnswer({ decision: 'deny', ...(reason.trim() === '' ? {} : { reason: reason.trim() }) })
        }}
      >
        <label className="grid gap-1.5 text-sm font-medium">
          {plan ? 'What should be different?' : 'Why not? The agent reads it'}
          <textarea
            autoFocus
            rows={2}
            className="field resize-none font-normal"
            value={reason}
            onChange={(event) => setReason(event.target.value)}
          />
        </label>
        <div className="flex justify-end gap-2">
          <Button onClick={() => setDenying(false)}>Back</Button>
          <Button type="submit" disabled={busy}>
            {plan ? 'Send back' : 'Deny'}
          </Button>
        </div>
      </form>
    )
  }
  return (
    <div className="grid grid-cols-1 gap-2">
      <div className="grid grid-cols-2 gap-2 sm:flex sm:justify-end">
        <Button disabled={busy} onClick={() => setDenying(true)}>
          {plan ? 'Not like this…' : 'Deny…'}
        </Button>
        <Button look="primary" disabled={busy} onClick={() => onAnswer({ decision: 'allow' })}>
          {plan ? 'Approve' : 'Allow once'}
        </Button>
      </div>
      {(kind === 'tool' || kind === 'net' || kind === 'host') && (
        <details className="group" onToggle={(event) => setWidening(event.currentTarget.open)}>
          <summary className="flex min-h-11 items-center gap-1.5 rounded-xl px-2 text-sm text-soft hover:bg-raised sm:justify-end">
            Allow more than once
            <ChevronDown size={16} aria-hidden className="transition-transform group-open:rotate-180" />
          </summary>
          <div className="grid grid-cols-1 gap-2 pt-2">
            {rule !== null && (
              <p className="rounded-xl bg-raised px-4 py-3 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">
                {ruleWords(rule)}
              </p>
            )}
            {widening && <RulePast id={id} />}
            <div className="grid grid-cols-1 gap-2 sm:flex sm:justify-end">
              <Button disabled={busy} onClick={() => onAnswer({ decision: 'allow', scope: 'session' })}>
                {rule === null ? 'The same in this session' : 'All of this in this session'}
              </Button>
              {rule !== null && (
                <Button disabled={busy} onClick={() => onAnswer({ decision: 'allow', scope: 'rule' })}>
                  Make it a rule everywhere
                </Button>
              )}
            </div>
          </div>
        </details>
      )}
    </div>
  )
}

const decisions = {
  allow: 'Allowed',
  deny: 'Denied',
  withdrawn: 'No longer asked',
  expired: 'Expired: nobody answered in time',
} as const satisfies Record<RequestAnswer['decision'], string>

function Settled({
  action,
  answer,
  by,
}: {
  readonly action: RequestAction
  readonly answer: RequestAnswer
  readonly by: string | null
}) {
  const allowed = answer.decision === 'allow'
  const word =
    action.kind === 'question' && allowed
      ? 'Answered'
      : action.kind === 'plan' && allowed
        ? 'Approved'
        : decisions[answer.decision]
  return (
    <div className="grid gap-2 text-sm">
      {action.kind === 'question' &&
        action.questions.map(({ question }) => (
          <div key={question}>
            <p className="text-soft [overflow-wrap:anywhere]">{printable(question)}</p>
            {answer.answers?.[question] !== undefined && (
              <p className="font-medium [overflow-wrap:anywhere]">{printable(answer.answers[question])}</p>
            )}
          </div>
        ))}
      {answer.reason !== undefined && <p className="[overflow-wrap:anywhere]">“{printable(answer.reason)}”</p>}
      <p className="flex items-center gap-1.5 text-xs text-faint">
        {allowed ? <Check size={14} aria-hidden className="text-good" /> : <X size={14} aria-hidden />}
        {word}
        {by !== null && answer.decision !== 'withdrawn' && answer.decision !== 'expired' && ` by ${printableLine(by)}`}
      </p>
    </div>
  )
}
