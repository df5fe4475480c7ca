import { bounds, type BlockId, type NewEvent } from '@anchorhold/protocol/events'
import { promptOfUuid } from '@anchorhold/protocol/ids'
import type { ContextUse } from '@anchorhold/protocol/sessions'
import { z } from 'zod'
import type { AgentListener } from '../agent.ts'

type Kind = 'text' | 'thinking'
/** A run of text that the agent is saying, from its first delta until its finished block is stored. */
type Block = { readonly id: BlockId; readonly kind: Kind; readonly parent: string | null; text: string }
/** Which message of the agent's own something was part of. */
type Part = { readonly message?: string }
type Message = { readonly id: string; readonly blocks: Map<number, Block> }

/** Messages that say nothing a person or a program would miss. */
const uninteresting = new Set([
  'system/init',
  'system/status',
  'system/thinking_tokens',
  'system/session_state_changed',
  'system/background_tasks_changed',
  'system/commands_changed',
  'system/hook_started',
  'system/hook_progress',
  'system/hook_response',
  'command_lifecycle',
  'stream_event',
])

/** How many threads, blocks of a message and running tools are kept in mind: an agent has few of each, and what is not
 *  an agent must not fill this process. */
const keptMax = 1000
/** How much may have been shown and not be finished, over all threads. What is more is not shown: the finished block has it. */
const openCharsMax = 2 * bounds.textChars

type Heard = Pick<AgentListener, 'event' | 'live' | 'state' | 'tasks' | 'result'>

/** Turns the Claude agent's messages into events. Unknown ones are kept as `agent.raw`, also those that have a known name
 *  and another shape. Invariant: never throws, whatever comes. */
export function claudeTranslator(heard: Heard, newBlock: () => BlockId): (message: unknown) => void {
  /** The message being streamed, for the main thread (null) and for each sub-agent. */
  const streams = new Map<string | null, Message>()
  let openChars = 0
  const toolNames = new Map<string, string>()
  /** The last call of the main thread: its model, and how many tokens went in and came out. */
  let call = { model: '', input: 0, output: 0 }

  const say = (event: NewEvent) => heard.event(event)

  /** Stores what was streamed and never finished: said anew by a retry, or left as it is by the end of the turn. */
  function cut(parent: string | null, how: { readonly superseded: true } | { readonly partial: true }): void {
    for (const block of streams.get(parent)?.blocks.values() ?? []) close(block, how)
    streams.delete(parent)
  }
  function close({ id, kind, parent, text }: Block, how: { readonly superseded: true } | { readonly partial: true }): void {
    openChars -= text.length
    if (text !== '') say({ type: kind, body: { block: id, text, parent, ...how } })
  }

  function stream(parent: string | null, event: Raw): void {
    const message = streams.get(parent)
    switch (event.type) {
      case 'message_start':
        cut(parent, { superseded: true })
        if (streams.size < keptMax) streams.set(parent, { id: word(fields(event.message).id), blocks: new Map() })
        return
      case 'message_delta':
        // The first message of a call tells only what it was given.
        if (parent === null) call = { ...call, output: count(fields(event.usage).output_tokens) }
        return
      case 'content_block_start': {
        const kind = fields(event.content_block).type
        const index = Number(event.index)
        if ((kind !== 'text' && kind !== 'thinking') || message === undefined || message.blocks.size >= keptMax) return
        if (!message.blocks.has(index)) message.blocks.set(index, { id: newBlock(), kind, parent, text: '' })
        return
      }
      case 'content_block_delta': {
        const block = message?.blocks.get(Number(event.index))
        const delta = fields(event.delta)
        const said = delta.text ?? delta.thinking
        if (block === undefined || typeof said !== 'string') return
        const text = clip(said, Math.min(bounds.textChars - block.text.length, openCharsMax - openChars))
        if (text === '') return
        heard.live({ type: `${block.kind}.delta`, block: block.id, offset: block.text.length, text, parent })
        block.text += text
        openChars += text.length
        return
      }
      default:
    }
  }

  /** A finished block takes the name it was streamed under, so that a watcher can put it in the deltas' place. */
  function finished(kind: Kind, text: string, parent: string | null, messageId: string, from: Part): void {
    const message = streams.get(parent)
    const [index, streamed] =
      message?.id === messageId ? ([...message.blocks].find(([, block]) => block.kind === kind) ?? []) : []
    if (index !== undefined) message?.blocks.delete(index)
    // What was shown is not taken back.
    if (text === '') return streamed === undefined ? undefined : close(streamed, { partial: true })
    openChars -= streamed?.text.length ?? 0
    say({ type: kind, body: { block: streamed?.id ?? newBlock(), text: clip(text, bounds.textChars), parent, ...from } })
  }

  /** The blocks of a message. Where there are more than any agent's, what is left out is told: each is an event, and a line of the CLI's
   *  has room for millions. */
  function few(content: readonly unknown[]): Raw[] {
    if (content.length > keptMax) keep('too_many_blocks', content.slice(keptMax, 2 * keptMax))
    return content.slice(0, keptMax).map(fields)
  }

  function assistant(parent: string | null, messageId: string, content: readonly unknown[], from: Part): void {
    for (const block of few(content)) {
      if (block.type === 'text') finished('text', textIn(block.text), parent, messageId, from)
      else if (block.type === 'thinking') finished('thinking', textIn(block.thinking), parent, messageId, from)
      else if (block.type === 'tool_use') {
        const call = clip(word(block.id), 200)
        const tool = clip(word(block.name), 200)
        if (toolNames.size < keptMax) toolNames.set(call, tool)
        say({ type: 'tool.started', body: { call, tool, ...boundedInput(block.input), parent, ...from } })
      }
    }
  }

  function toolResults(parent: string | null, content: unknown, from: Part): void {
    if (!Array.isArray(content)) return
    for (const block of few(content)) {
      if (block.type !== 'tool_result') continue
      const call = clip(word(block.tool_use_id), 200)
      const text = textOf(block.content)
      const tool = toolNames.get(call) ?? 'unknown'
      toolNames.delete(call)
      say({
        type: 'tool.finished',
        body: {
          call,
          tool,
          output: clip(text, bounds.toolOutputChars),
          truncated: text.length > bounds.toolOutputChars,
          failed: block.is_error === true,
          ...exitCodeOf(tool, text, block.is_error === true),
          parent,
          ...from,
        },
      })
    }
  }

  function translate(raw: Raw): void {
    const parent = typeof raw.parent_tool_use_id === 'string' ? clip(raw.parent_tool_use_id, 200) : null
    const uuid = parent === null ? z.uuid().safeParse(raw.uuid) : null
    const from: Part = uuid?.success ? { message: uuid.data } : {}
    const kind = typeof raw.subtype === 'string' ? `${word(raw.type)}/${raw.subtype}` : word(raw.type)
    switch (raw.type) {
      case 'stream_event':
        return stream(parent, fields(raw.event))
      case 'assistant': {
        // What the CLI makes of a refused model call; the result that follows says the same.
        if (typeof raw.error === 'string') return
        const { id, content, model, usage } = fields(raw.message)
        if (parent === null) call = { ...call, model: word(model), input: inputOf(fields(usage)) }
        if (Array.isArray(content)) return assistant(parent, word(id), content, from)
        break
      }
      case 'user':
        return toolResults(parent, fields(raw.message).content, from)
      case 'tool_progress':
        return heard.live({
          type: 'tool.progress',
          call: clip(word(raw.tool_use_id), 200),
          tool: clip(word(raw.tool_name), 200),
          elapsed_ms: count(Number(raw.elapsed_time_seconds) * 1000),
        })
      case 'result': {
        for (const thread of [...streams.keys()]) cut(thread, { partial: true })
        const ok = raw.subtype === 'success' && raw.is_error !== true
        const errors = texts(raw.errors).join('; ')
        const why = ok ? null : clip(plainly(textIn(raw.result) || errors || word(raw.subtype)), 2000)
        const prompts = texts(raw.user_message_uuids).map(promptOfUuid)
        return heard.result({ ok, why, prompts: prompts.filter((id) => id !== null), ...contextAfter(call, raw.modelUsage) })
      }
      case 'system':
        if (raw.subtype === 'session_state_changed') return heard.state(raw.state === 'idle' ? 'idle' : 'running')
        if (raw.subtype === 'background_tasks_changed') return heard.tasks(Array.isArray(raw.tasks) ? raw.tasks.length : 0)
        if (raw.subtype === 'api_retry') {
          cut(null, { superseded: true })
          const status = typeof raw.error_status === 'number' ? `status ${raw.error_status}` : 'no answer'
          return say({
            type: 'notice',
            body: {
              level: 'warning',
              code: 'model_retry',
              message: `The model call failed (${status}); try ${count(raw.attempt)} follows`,
            },
          })
        }
        break
      default:
    }
    if (!uninteresting.has(kind)) keep(kind, raw)
  }

  function keep(kind: string, message: unknown): void {
    const json = jsonOf(message)
    say({
      type: 'agent.raw',
      body: { kind: clip(kind, 100), json: clip(json, bounds.rawChars), truncated: json.length > bounds.rawChars },
    })
  }

  // The types are a promise of the SDK's; what comes is whatever code in the cell wrote.
  return (message) => {
    try {
      translate(fields(message))
    } catch {
      keep('unreadable', message)
    }
  }
}

type Raw = Readonly<Record<string, unknown>>

/** What an object holds; nothing where there is none. */
const fields = (value: unknown): Raw => (typeof value === 'object' && value !== null ? (value as Raw) : {})
const word = (value: unknown) => (typeof value === 'string' ? value : 'unknown')
/** The CLI calls every refusal of a model call a failure to authenticate; what follows is the window's own sentence. */
const plainly = (why: string) => why.replace(/^(Failed to authenticate\. )?API Error: \d{3} /, '')

const clip = (text: string, max: number) => (text.length > max ? text.slice(0, max) : text)

/** The CLI says a command's exit code in the first line of its result, and only where it is not 0. */
function exitCodeOf(tool: string, text: string, failed: boolean): { readonly exit_code?: number } {
  if (tool !== 'Bash') return {}
  const found = failed ? /^Exit code (\d{1,3})(?:\n|$)/.exec(text)?.[1] : undefined
  const code = Number(found)
  return found !== undefined && code <= 255 ? { exit_code: code } : {}
}

const textIn = (value: unknown) => (typeof value === 'string' ? value : '')
const texts = (value: unknown): string[] => (Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [])
/** A whole number from 0 up, whatever came. */
const count = (value: unknown) => Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(Number(value)))) || 0

/** All that a call was given, cached or not. */
const inputOf = (usage: Raw) =>
  count(count(usage.input_tokens) + count(usage.cache_read_input_tokens) + count(usage.cache_creation_input_tokens))

function contextAfter(
  { model, input, output }: { readonly model: string; readonly input: number; readonly output: number },
  modelUsage: unknown,
): { readonly context?: ContextUse } {
  const window = count(fields(fields(modelUsage)[model]).contextWindow)
  return window === 0 || input === 0 ? {} : { context: { used_tokens: count(input + output), window_tokens: window } }
}

/** What is nested deeper than the writer can go cannot be stored either. */
const tooDeep = '(nested too deeply)'
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null'
  } catch {
    return tooDeep
  }
}

function boundedInput(input: unknown): { readonly input: unknown; readonly truncated: boolean } {
  const json = jsonOf(input)
  return json.length > bounds.toolInputChars || json === tooDeep
    ? { input: clip(json, bounds.toolInputChars), truncated: true }
    : { input, truncated: false }
}

/** Of one tool's result: with an empty text each, they are as much as is kept of it. */
const partsMax = bounds.toolOutputChars

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .slice(0, partsMax)
    .map(fields)
    .map((part) => (part.type === 'text' ? textIn(part.text) : `[${word(part.type)}]`))
    .join('\n')
}
