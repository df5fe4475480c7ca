import { printable } from '@anchorhold/core/printable'
import { Check, CircleDashed, CircleDot, ListChecks } from 'lucide-react'
import type { ReactNode } from 'react'
import type { Todo } from '../../log/tool-face.ts'

/** What the agent has to do, and how far it is. */
export function ChecklistView({ todos }: { readonly todos: readonly Todo[] }) {
  if (todos.length === 0) return null
  const done = todos.filter(({ state }) => state === 'completed').length
  return (
    <section aria-label="What the agent has to do" className="card overflow-hidden">
      <p className="flex min-h-11 items-center gap-2.5 border-b border-line px-3.5 text-sm">
        <ListChecks size={16} aria-hidden className="text-faint" />
        <span className="font-medium">List</span>
        <span className="text-soft tabular-nums">
          {done} of {todos.length} done
        </span>
      </p>
      <Todos todos={todos} />
    </section>
  )
}

const todoIcons = {
  pending: { icon: <CircleDashed size={16} className="text-faint" />, word: 'to do' },
  in_progress: { icon: <CircleDot size={16} className="text-accent-ink" />, word: 'in progress' },
  completed: { icon: <Check size={16} className="text-good" />, word: 'done' },
} as const satisfies Record<Todo['state'], { icon: ReactNode; word: string }>

export function Todos({ todos }: { readonly todos: readonly Todo[] }) {
  return (
    <ul className="grid gap-1.5 px-4 py-3 text-sm">
      {todos.map(({ text, state }, index) => (
        <li key={index} className={`flex items-start gap-2.5 ${state === 'completed' ? 'text-faint line-through' : ''}`}>
          <span aria-hidden className="mt-0.5">
            {todoIcons[state].icon}
          </span>
          <span className="sr-only">{todoIcons[state].word}: </span>
          {printable(text)}
        </li>
      ))}
    </ul>
  )
}
