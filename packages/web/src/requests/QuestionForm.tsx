import { printable } from '@anchorhold/core/printable'
import type { RequestAction } from '@anchorhold/protocol/events'
import { useId, useState } from 'react'
import { Button } from '../ui/controls.tsx'

type Question = Extract<RequestAction, { kind: 'question' }>['questions'][number]
type Chosen = { readonly labels: readonly string[]; readonly own: string }
const nothing: Chosen = { labels: [], own: '' }

const answerOf = ({ labels, own }: Chosen): string => [...labels, ...(own.trim() === '' ? [] : [own.trim()])].join(', ')

/** The agent's questions as a form: choose, or say it in own words. */
export function QuestionForm({
  questions,
  busy,
  onAnswer,
  onDismiss,
}: {
  readonly questions: readonly Question[]
  readonly busy: boolean
  readonly onAnswer: (answers: Record<string, string>) => void
  readonly onDismiss: () => void
}) {
  const [chosen, setChosen] = useState<readonly Chosen[]>(() => questions.map(() => nothing))
  const complete = chosen.every((one) => answerOf(one) !== '')
  return (
    <form
      className="grid gap-5"
      onSubmit={(event) => {
        event.preventDefault()
        if (complete) onAnswer(Object.fromEntries(questions.map(({ question }, index) => [question, answerOf(chosen[index]!)])))
      }}
    >
      {questions.map((question, index) => (
        <OneQuestion
          key={index}
          question={question}
          chosen={chosen[index]!}
          onChange={(next) => setChosen(chosen.with(index, next))}
        />
      ))}
      <div className="grid grid-cols-2 gap-2 sm:flex sm:justify-end">
        <Button disabled={busy} onClick={onDismiss}>
          Dismiss
        </Button>
        <Button type="submit" look="primary" disabled={busy || !complete}>
          Answer
        </Button>
      </div>
    </form>
  )
}

function OneQuestion({
  question: { question, multi, options },
  chosen,
  onChange,
}: {
  readonly question: Question
  readonly chosen: Chosen
  readonly onChange: (chosen: Chosen) => void
}) {
  const name = useId()
  const choose = (label: string) => {
    const has = chosen.labels.includes(label)
    if (!multi) onChange({ labels: [label], own: '' })
    else onChange({ ...chosen, labels: has ? chosen.labels.filter((one) => one !== label) : [...chosen.labels, label] })
  }
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-2 [overflow-wrap:anywhere] whitespace-pre-wrap">{printable(question)}</legend>
      {options.map(({ label, description }, index) => (
        <label
          key={index}
          className="flex min-h-12 cursor-pointer items-center gap-3 rounded-xl border border-line px-4 py-2.5 transition-colors hover:bg-raised has-checked:border-accent has-checked:bg-accent-wash has-focus-visible:outline-2 has-focus-visible:outline-offset-2"
        >
          <input
            type={multi ? 'checkbox' : 'radio'}
            name={name}
            checked={chosen.labels.includes(label)}
            onChange={() => choose(label)}
            className="size-4 accent-(--accent-ink)"
          />
          <span className="min-w-0 [overflow-wrap:anywhere]">
            <span className="font-medium">{printable(label)}</span>
            {description !== undefined && <span className="block text-sm text-soft">{printable(description)}</span>}
          </span>
        </label>
      ))}
      <input
        className="field"
        aria-label="Another answer"
        placeholder="Another answer"
        value={chosen.own}
        onChange={(event) => onChange({ labels: multi ? chosen.labels : [], own: event.target.value })}
      />
    </fieldset>
  )
}
