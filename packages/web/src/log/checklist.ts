import type { Todo } from './tool-face.ts'
import { todosIn } from './tool-face.ts'

type Entry = { text: string; state: Todo['state'] }

/** The list that an agent keeps of what it has to do, by whichever of its tools: written as a whole, or one task at a time. What was
 *  written before the run of events began is known by its number alone. */
export function checklist() {
  let entries: Entry[] = []
  /** Tasks by the number that they were given, and until then by the call that made them. */
  const known = new Map<string, Entry>()
  const forget = (entry: Entry | undefined) => {
    entries = entries.filter((one) => one !== entry)
  }
  return {
    /** Whether the call is one of the list's. */
    hears: (tool: string): boolean => tools.has(tool),
    started(tool: string, call: string, input: unknown): void {
      const fields = typeof input === 'object' && input !== null ? (input as Readonly<Record<string, unknown>>) : {}
      const word = (name: string) => (typeof fields[name] === 'string' ? fields[name] : '')
      if (tool === 'TodoWrite') {
        entries = todosIn(fields['todos']).map((todo) => ({ ...todo }))
        known.clear()
      } else if (tool === 'TaskCreate') {
        const entry: Entry = { text: word('subject'), state: 'pending' }
        entries = [...entries, entry]
        known.set(call, entry)
      } else {
        const id = word('taskId')
        const entry = known.get(id) ?? { text: word('subject') || `Task ${id}`, state: 'pending' }
        if (!known.has(id)) entries = [...entries, entry]
        known.set(id, entry)
        if (word('subject') !== '') entry.text = word('subject')
        const status = word('status')
        if (status === 'deleted') forget(entry)
        else if (status === 'pending' || status === 'in_progress' || status === 'completed') entry.state = status
      }
    },
    /** The number of a new task stands in what its call is answered with. */
    finished(tool: string, call: string, output: string, failed: boolean): void {
      if (tool !== 'TaskCreate') return
      const entry = known.get(call)
      if (entry === undefined) return
      const id = /#(\d{1,9})\b/.exec(output)?.[1]
      if (failed) forget(entry)
      else if (id !== undefined) known.set(id, entry)
    },
    /** As it is now; what is told later changes nothing of it. */
    todos: (): readonly Todo[] => entries.map(({ text, state }) => ({ text, state })),
  }
}

const tools: ReadonlySet<string> = new Set(['TodoWrite', 'TaskCreate', 'TaskUpdate'])
