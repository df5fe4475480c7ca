import { printable } from '@anchorhold/core/printable'
import type { PolicyProblem } from '@anchorhold/protocol/policy'
import { CircleAlert, TriangleAlert } from 'lucide-react'
import { useId, useRef } from 'react'

const lineRem = 1.375
const problemsShown = 20

/** The text of a file with its line numbers, and under it what is wrong with it and where. */
export function PolicyEditor({
  text,
  onChange,
  problems,
}: {
  readonly text: string
  readonly onChange: (text: string) => void
  readonly problems: readonly PolicyProblem[]
}) {
  const area = useRef<HTMLTextAreaElement>(null)
  const gutter = useRef<HTMLDivElement>(null)
  const list = useId()
  const lines = text.split('\n')
  const goTo = ({ line, column }: PolicyProblem) => {
    const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1
    area.current?.focus()
    area.current?.setSelectionRange(start, start)
  }
  return (
    <div className="grid grid-cols-1 gap-3">
      <div className="flex overflow-hidden rounded-xl border border-line-strong bg-page font-mono text-[0.8125rem] focus-within:outline-2 focus-within:outline-offset-2 focus-within:outline-(--ring)">
        <div aria-hidden className="relative w-11 shrink-0 overflow-hidden bg-raised text-right text-faint select-none">
          <div ref={gutter} className="py-3 pr-2" style={{ lineHeight: `${lineRem}rem` }}>
            {problems.slice(0, problemsShown).map(({ line, column, level }) => (
              <span
                key={`${line} ${column}`}
                className={`absolute inset-x-0 ${level === 'error' ? 'bg-danger-wash' : 'bg-accent-wash'}`}
                style={{ top: `${0.75 + (line - 1) * lineRem}rem`, height: `${lineRem}rem` }}
              />
            ))}
            <pre className="relative font-mono">{lines.map((_, index) => index + 1).join('\n')}</pre>
          </div>
        </div>
        <textarea
          ref={area}
          aria-label="Text of the policy"
          aria-describedby={list}
          aria-invalid={problems.some(({ level }) => level === 'error')}
          className="h-[min(26rem,60dvh)] min-w-0 flex-1 resize-none overflow-auto bg-transparent px-3 py-3 whitespace-pre [field-sizing:fixed] focus:outline-none"
          style={{ lineHeight: `${lineRem}rem` }}
          value={text}
          wrap="off"
          spellCheck={false}
          autoCapitalize="off"
          autoComplete="off"
          placeholder={example}
          onChange={(event) => onChange(event.target.value)}
          onScroll={({ currentTarget }) => {
            if (gutter.current !== null) gutter.current.style.transform = `translateY(${-currentTarget.scrollTop}px)`
          }}
        />
      </div>
      <ul id={list} aria-label="Problems" className="grid gap-1 text-sm">
        {problems.slice(0, problemsShown).map((problem, index) => (
          <li key={index}>
            <button
              type="button"
              className={`flex min-h-9 w-full items-start gap-2 rounded-lg px-2 py-1.5 text-left hover:bg-raised ${problem.level === 'error' ? 'text-danger' : 'text-accent-ink'}`}
              onClick={() => goTo(problem)}
            >
              {problem.level === 'error' ? (
                <CircleAlert size={16} aria-hidden className="mt-0.5 shrink-0" />
              ) : (
                <TriangleAlert size={16} aria-hidden className="mt-0.5 shrink-0" />
              )}
              <span className="min-w-0 [overflow-wrap:anywhere]">
                Line {problem.line}, column {problem.column}: {printable(problem.message)}
              </span>
            </button>
          </li>
        ))}
        {problems.length > problemsShown && <li className="px-2 text-faint">and {problems.length - problemsShown} more</li>}
      </ul>
    </div>
  )
}

const example = `default_autonomy: supervised
rules:
  - on: tool
    match: { tool: Bash, command: git push * }
    effect: ask`
