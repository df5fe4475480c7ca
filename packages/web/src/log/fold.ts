import type { Event, RequestAction, RequestAnswer } from '@anchorhold/protocol/events'
import type { PromptId, SessionId } from '@anchorhold/protocol/ids'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'
import type { Rule } from '@anchorhold/protocol/policy'
import type { PromptMode, TurnEnd } from '@anchorhold/protocol/sessions'
import { clip } from './clip.ts'
import { checklist } from './checklist.ts'
import type { Todo, ToolCall } from './tool-face.ts'

type Base = {
  readonly key: string
  /** The event that it began with. */
  readonly seq: number
  readonly at: number
}
export type PromptItem = Base & {
  readonly kind: 'prompt'
  readonly id: PromptId
  readonly text: string
  readonly images: number
  readonly by: string | null
  /** Waits for its turn. */
  readonly queued: PromptMode | null
}
export type WordsItem = Base & {
  readonly kind: 'text' | 'thinking'
  readonly text: string
  /** Cut off in the middle, or said again afterwards. */
  readonly cut: 'partial' | 'superseded' | null
  /** Is being said right now. */
  readonly growing?: boolean
}
export type ToolItem = Base &
  ToolCall & {
    readonly kind: 'tool'
    readonly call: string
    readonly output: string | null
    readonly truncated: boolean
    /** What a sub-agent said and did on its behalf. */
    readonly thread: readonly Item[]
  }
export type RequestItem = Base & {
  readonly kind: 'request'
  readonly id: string
  readonly action: RequestAction
  readonly why: string | null
  /** The rule that would settle it from now on. */
  readonly rule: Rule | null
  /** Somebody has said "not now". */
  readonly deferred: boolean
  readonly answer: RequestAnswer | null
  readonly by: string | null
}
export type TurnItem = Base & {
  readonly kind: 'turn'
  readonly reason: TurnEnd
  readonly why: string | null
  readonly durationMs: number
  readonly costMicros: number
  readonly simulated: boolean
  /** The last words of the turn. */
  readonly said: string | null
}
/** The agent's own list of what it has to do, as it stood last in a turn. */
export type ChecklistItem = Base & { readonly kind: 'checklist'; readonly todos: readonly Todo[] }

export type NoteItem = Base & {
  readonly kind: 'note'
  readonly level: 'info' | 'warning' | 'error'
  readonly text: string
  /** The place in another session that it speaks of. */
  readonly of?: { readonly session: SessionId; readonly at: number | null }
}
export type Item = PromptItem | WordsItem | ToolItem | RequestItem | TurnItem | ChecklistItem | NoteItem

type Mutable<T> = { -readonly [K in keyof T]: T[K] }
type OpenTool = Mutable<Omit<ToolItem, 'thread'>> & { thread: Item[] }

/** What a run of a session's events amounts to for a person. It may begin and end anywhere: what lies outside is not missed. */
export function fold(events: readonly Event[]): readonly Item[] {
  const items: Item[] = []
  const tools = new Map<string, OpenTool>()
  const queued = new Map<string, PromptItem>()
  const requests = new Map<string, Mutable<RequestItem>>()
  /** Calls that are a question or a plan. */
  const asking = new Set<string>()
  const list = checklist()
  /** Where it is shown in this turn. */
  let listed: Mutable<ChecklistItem> | null = null
  const listCalls = new Set<string>()
  let costNanos = 0
  let simulated = false
  let said: string | null = null

  /** A tool call, also one that began before the run. */
  const toolOf = (call: string, base: Base, list: Item[], tool: string): OpenTool => {
    const known = tools.get(call)
    if (known !== undefined) return known
    const made: OpenTool = {
      ...base,
      key: `tool ${call}`,
      kind: 'tool',
      call,
      tool,
      input: null,
      state: 'running',
      output: null,
      truncated: false,
      exitCode: null,
      thread: [],
    }
    tools.set(call, made)
    list.push(made)
    return made
  }

  for (const event of events) {
    const base: Base = { key: `${event.type} ${event.seq}`, seq: event.seq, at: event.at }
    const note = (level: NoteItem['level'], text: string) => void items.push({ ...base, kind: 'note', level, text })
    const listOf = (parent: string | null | undefined): Item[] => (parent ? toolOf(parent, base, items, 'Agent').thread : items)
    switch (event.type) {
      case 'prompt.queued': {
        const { id, text, images, mode, actor } = event.body
        queued.set(id, { ...base, key: `prompt ${id}`, kind: 'prompt', id, text, images, by: actor, queued: mode })
        break
      }
      case 'prompt': {
        const { id, text, images } = event.body
        const by = queued.get(id)?.by ?? null
        queued.delete(id)
        items.push({ ...base, key: `prompt ${id}`, kind: 'prompt', id, text, images, by, queued: null })
        break
      }
      case 'prompt.dropped': {
        const taken = queued.get(event.body.id)
        queued.delete(event.body.id)
        note('info', taken === undefined ? `A prompt was withdrawn: ${event.body.why}` : `Withdrawn: “${clip(taken.text, 120)}”`)
        break
      }
      case 'prompt.again':
        note('info', 'The agent ended before it read this prompt, so the next one was given it')
        break
      case 'text':
      case 'thinking': {
        const { block, text, parent, partial, superseded } = event.body
        if (text === '') break
        const cut = superseded ? 'superseded' : partial ? 'partial' : null
        listOf(parent).push({ ...base, key: `block ${block}`, kind: event.type, text, cut })
        if (event.type === 'text' && !parent && cut !== 'superseded') said = text
        break
      }
      case 'tool.started': {
        const { call, tool, input, parent } = event.body
        if (!parent && list.hears(tool)) {
          listCalls.add(call)
          list.started(tool, call, input)
          if (listed === null) items.push((listed = { ...base, key: `list ${event.seq}`, kind: 'checklist', todos: [] }))
          listed.todos = list.todos()
          break
        }
        const made = toolOf(call, base, listOf(parent), tool)
        made.tool = tool
        made.input = input
        break
      }
      case 'tool.finished': {
        const { call, tool, output, truncated, failed, parent, exit_code: exitCode = null } = event.body
        if (asking.has(call)) break
        if (listCalls.has(call)) {
          list.finished(tool, call, output, failed)
          if (listed !== null) listed.todos = list.todos()
          break
        }
        const made = toolOf(call, base, listOf(parent), tool)
        Object.assign(made, { output, truncated, exitCode, state: failed ? 'failed' : 'done' } satisfies Partial<ToolItem>)
        break
      }
      case 'request.opened': {
        const { id, call, action, why = null, rule = null } = event.body
        const made: Mutable<RequestItem> = {
          ...base,
          key: `request ${id}`,
          kind: 'request',
          id,
          action,
          why,
          rule,
          deferred: false,
          answer: null,
          by: null,
        }
        requests.set(id, made)
        // A question or a plan is a tool of the agent's; the request says all that the call does.
        const asks = action.kind === 'question' || action.kind === 'plan'
        if (asks && call !== null) asking.add(call)
        const at = asks && call !== null ? items.findIndex((item) => item.kind === 'tool' && item.call === call) : -1
        if (at === -1) items.push(made)
        else items[at] = made
        break
      }
      case 'request.answered': {
        const { id, answer, actor } = event.body
        const made = requests.get(id)
        if (made !== undefined) Object.assign(made, { answer, by: actor })
        break
      }
      case 'request.deferred': {
        const made = requests.get(event.body.id)
        if (made !== undefined) made.deferred = true
        break
      }
      case 'usage':
        costNanos += event.body.cost_nanos
        simulated ||= event.body.simulated
        break
      case 'turn.ended': {
        const { reason, why, duration_ms: durationMs } = event.body
        for (const one of tools.values()) if (one.state === 'running' && reason !== 'done') one.state = 'cut'
        items.push({ ...base, kind: 'turn', reason, why, durationMs, costMicros: microsUp(costNanos), simulated, said })
        costNanos = 0
        said = null
        listed = null
        break
      }
      case 'turn.started':
        if (event.body.cause === 'resume') note('info', 'The turn was resumed')
        break
      case 'session.created':
        if (event.body.forked_from !== null)
          items.push({
            ...base,
            kind: 'note',
            level: 'info',
            text: 'Forked: the agent knows what was said before, up to this point',
            of: { session: event.body.forked_from, at: event.body.at ?? null },
          })
        break
      case 'session.changed': {
        // A change of the autonomy has a notice, which says what it means.
        const { name, model, budget_nanos: budget } = event.body
        if (name !== undefined) note('info', `Renamed to “${name}”`)
        if (model !== undefined) note('info', `The model is now ${model}`)
        if (budget !== undefined)
          note('info', budget === null ? 'The budget was removed' : `The budget is now ${formatUsd(microsUp(budget))}`)
        break
      }
      case 'session.state': {
        const words = stateNote(event.body)
        if (words !== null) note(words.level, words.text)
        break
      }
      case 'keeper.lost':
        note('error', event.body.why)
        break
      case 'notice':
        note(event.body.level, event.body.message)
        break
      case 'terminal.opened':
        note('info', `${event.body.actor} opened a terminal in the cell`)
        break
      case 'file.uploaded':
        note('info', `${event.body.actor} put ${event.body.path} into the workspace`)
        break
      case 'decision':
        if (event.body.effect === 'deny')
          note('warning', `${event.body.unanswered === true ? 'Not done' : 'Refused'}: ${event.body.by}`)
        break
      default:
        break
    }
  }
  return [...items, ...queued.values()]
}

function stateNote({
  to,
  why,
  goes_on,
}: Extract<Event, { type: 'session.state' }>['body']): Pick<NoteItem, 'level' | 'text'> | null {
  const because = (text: string) => (why === null || why === '' ? text : `${text}: ${why}`)
  switch (to) {
    case 'failed':
      return { level: 'error', text: because('It could not go on') }
    case 'interrupted':
      return goes_on
        ? { level: 'warning', text: because('Interrupted, then resumed') }
        : { level: 'error', text: because('Interrupted') }
    case 'paused':
      return { level: 'info', text: 'Paused' }
    case 'stopped':
      return { level: 'info', text: because('Stopped') }
    case 'archived':
      return { level: 'info', text: 'Archived: read-only from now on' }
    default:
      return null
  }
}
