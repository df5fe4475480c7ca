import { isPicturePath } from '@anchorhold/core/picture'
import { clip } from './clip.ts'

/** What an agent has a tool do, and how far that has come. */
export type ToolCall = {
  readonly tool: string
  readonly input: unknown
  readonly state: 'running' | 'done' | 'failed' | 'cut'
  /** Of a command that told it. */
  readonly exitCode: number | null
}

/** The part of a tool call that a person wants to see without opening it, and how the rest is shown. */
export type ToolFace = {
  /** What it did, `Ran`, or what it is to do or was not let do, `Run`. */
  readonly verb: string
  /** What it was about; code is set in monospace. */
  readonly about: string
  readonly code: boolean
  readonly body:
    | { readonly kind: 'command'; readonly command: string }
    | { readonly kind: 'edits'; readonly path: string; readonly edits: readonly Edit[] }
    | { readonly kind: 'file'; readonly path: string; readonly text: string }
    | { readonly kind: 'todos'; readonly todos: readonly Todo[] }
    | { readonly kind: 'agent'; readonly prompt: string }
    | { readonly kind: 'picture'; readonly path: string }
    | { readonly kind: 'plain' }
}
export type Edit = { readonly before: string; readonly after: string }
export type Todo = { readonly text: string; readonly state: 'pending' | 'in_progress' | 'completed' }

/** How a tool is called where it has not done what its verb says. */
const undone: Readonly<Record<string, string>> = {
  Ran: 'Run',
  Wrote: 'Write',
  Edited: 'Edit',
  Searched: 'Search',
  Noted: 'Note',
  Marked: 'Mark',
  Fetched: 'Fetch',
  'Searched for': 'Search for',
}

export function toolFace({ tool, input, state, exitCode }: ToolCall): ToolFace {
  const face = faceOf(tool, input)
  const isDone = state === 'done' || exitCode !== null
  return isDone || !Object.hasOwn(undone, face.verb) ? face : { ...face, verb: undone[face.verb]! }
}

/** The input comes from a cell and may be anything. */
function faceOf(tool: string, input: unknown): ToolFace {
  const fields = typeof input === 'object' && input !== null ? (input as Readonly<Record<string, unknown>>) : {}
  const word = (name: string): string => (typeof fields[name] === 'string' ? fields[name] : '')
  const plain = { kind: 'plain' } as const
  const path = word('file_path') || word('notebook_path') || word('path')
  switch (tool) {
    case 'Bash':
      return { verb: 'Ran', about: word('command'), code: true, body: { kind: 'command', command: word('command') } }
    case 'Read':
      return {
        verb: 'Read',
        about: `${shortPath(path)}${lines(fields)}`,
        code: true,
        body: isPicturePath(path) ? { kind: 'picture', path } : plain,
      }
    case 'Write':
      return { verb: 'Wrote', about: shortPath(path), code: true, body: { kind: 'file', path, text: word('content') } }
    case 'Edit':
      return {
        verb: 'Edited',
        about: shortPath(path),
        code: true,
        body: { kind: 'edits', path, edits: [{ before: word('old_string'), after: word('new_string') }] },
      }
    case 'MultiEdit':
      return {
        verb: 'Edited',
        about: shortPath(path),
        code: true,
        body: { kind: 'edits', path, edits: editsIn(fields['edits']) },
      }
    case 'Glob':
    case 'Grep':
      return { verb: 'Searched', about: [word('pattern'), shortPath(path)].filter(Boolean).join(' in '), code: true, body: plain }
    case 'TodoWrite': {
      const todos = todosIn(fields['todos'])
      const done = todos.filter(({ state }) => state === 'completed').length
      return { verb: 'List', about: `${done} of ${todos.length} done`, code: false, body: { kind: 'todos', todos } }
    }
    case 'TaskCreate':
      return { verb: 'Noted', about: word('subject'), code: false, body: plain }
    case 'TaskUpdate':
      return { verb: 'Marked', about: [word('taskId'), word('status').replaceAll('_', ' ')].join(' '), code: false, body: plain }
    case 'Agent':
    case 'Task':
      return {
        verb: 'Sub-agent',
        about: word('description') || clip(word('prompt'), 200),
        code: false,
        body: { kind: 'agent', prompt: word('prompt') },
      }
    case 'WebFetch':
      return { verb: 'Fetched', about: word('url'), code: true, body: plain }
    case 'WebSearch':
      return { verb: 'Searched for', about: word('query'), code: false, body: plain }
    default:
      return { verb: tool, about: anyWord(fields), code: true, body: plain }
  }
}

const shortPath = (path: string): string => path.replace(/^\/workspace\//, '')

function lines(fields: Readonly<Record<string, unknown>>): string {
  const { offset, limit } = fields
  if (typeof offset !== 'number') return ''
  return typeof limit === 'number' ? `:${offset}–${offset + limit - 1}` : `:${offset}`
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

function editsIn(value: unknown): readonly Edit[] {
  if (!Array.isArray(value)) return []
  return value.flatMap((one: unknown) =>
    typeof one === 'object' && one !== null && 'old_string' in one && 'new_string' in one
      ? [{ before: text(one.old_string), after: text(one.new_string) }]
      : [],
  )
}

export function todosIn(value: unknown): readonly Todo[] {
  if (!Array.isArray(value)) return []
  return value.flatMap((one: unknown) => {
    if (typeof one !== 'object' || one === null || !('content' in one)) return []
    const status = 'status' in one ? one.status : null
    return [{ text: text(one.content), state: status === 'completed' || status === 'in_progress' ? status : 'pending' }]
  })
}

function anyWord(fields: Readonly<Record<string, unknown>>): string {
  for (const name of ['command', 'file_path', 'path', 'pattern', 'description', 'query', 'url', 'prompt']) {
    if (typeof fields[name] === 'string') return fields[name]
  }
  const all = JSON.stringify(fields)
  return all === '{}' ? '' : clip(all, 300)
}
