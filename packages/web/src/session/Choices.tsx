import { printableLine } from '@anchorhold/core/printable'
import type { Choice } from './completion.ts'

/** Completions by what is being typed. The field above keeps the focus. */
export function Choices({
  id,
  choices,
  at,
  onChoose,
}: {
  readonly id: string
  readonly choices: readonly Choice[]
  readonly at: number
  readonly onChoose: (choice: Choice) => void
}) {
  return (
    <ul id={id} role="listbox" aria-label="Completions" className="card overflow-hidden p-1 shadow-float">
      {choices.map((choice, index) => (
        <li
          key={choice.insert}
          id={`${id}-${index}`}
          role="option"
          aria-selected={index === at}
          onPointerDown={(event) => {
            event.preventDefault()
            onChoose(choice)
          }}
          className={`flex min-h-11 cursor-pointer items-center gap-3 rounded-xl px-3 text-sm ${index === at ? 'bg-raised' : ''}`}
        >
          <span className="min-w-0 truncate font-mono text-[0.8125rem]">{printableLine(choice.label)}</span>
          <span className="min-w-0 flex-1 truncate text-xs text-faint">{printableLine(choice.about)}</span>
        </li>
      ))}
    </ul>
  )
}
