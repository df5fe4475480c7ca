import { bounds, type BlockId, type NewEvent } from '@anchorhold/protocol/events'
import { promptOfUuid } from '@anchorhold/protocol/ids'
import type { SDKMessage } from '@anthropic-ai/claude-agent-sdk'
import type { AgentListener } from '../agent.ts'

type Kind = 'text' | 'thinking'
/** A run of text that the agent is saying, from its first delta until its finished block is stored. */
type Block = { readonly id: BlockId; readonly kind: Kind; readonly parent: string | null; text: string; stored: boolean }
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

/** Turns the Claude agent's messages into events. Unknown ones are kept as `agent.raw`. */
export function claudeTranslator(heard: AgentListener, newBlock: () => BlockId) {
  /** The message being streamed, for the main thread (null) and for each sub-agent. */
  const streams = new Map<string | null, Message>()
  const toolNames = new Map<string, string>()

  const say = (event: NewEvent) => heard.event(event)

  /** What was streamed and never finished: a retry has begun, or the turn was cut. */
  function supersede(parent: string | null): void {
    for (const block of streams.get(parent)?.blocks.values() ?? []) {
      if (block.stored || block.text === '') continue
      block.stored = true
      say({ type: block.kind, body: { block: block.id, text: clip(block.text, bounds.textChars), parent, superseded: true } })
    }
    streams.delete(parent)
  }

  function stream(parent: string | null, event: StreamEvent): void {
    switch (event.type) {
      case 'message_start':
        supersede(parent)
        streams.set(parent, { id: event.message.id, blocks: new Map() })
        return
      case 'content_block_start': {
        const kind = event.content_block.type
        if (kind !== 'text' && kind !== 'thinking') return
        streams.get(parent)?.blocks.set(event.index, { id: newBlock(), kind, parent, text: '', stored: false })
        return
      }
      case 'content_block_delta': {
        const block = streams.get(parent)?.blocks.get(event.index)
        const text = event.delta.text ?? event.delta.thinking
        if (block === undefined || typeof text !== 'string' || text === '' || block.text.length >= bounds.textChars) return
        heard.live({ type: `${block.kind}.delta`, block: block.id, offset: block.text.length, text, parent })
        block.text += text
        return
      }
      default:
    }
  }

  /** A finished block takes the name it was streamed under, so that a watcher can put it in the deltas' place. */
  function finished(kind: Kind, text: string, parent: string | null, messageId: string): void {
    const message = streams.get(parent)
    const streamed =
      message?.id === messageId ? [...message.blocks.values()].find((block) => block.kind === kind && !block.stored) : undefined
    if (streamed !== undefined) streamed.stored = true
    if (text === '') return
    say({ type: kind, body: { block: streamed?.id ?? newBlock(), text: clip(text, bounds.textChars), parent } })
  }

  function assistant(parent: string | null, messageId: string, content: readonly ContentBlock[]): void {
    for (const block of content) {
      if (block.type === 'text') finished('text', block.text ?? '', parent, messageId)
      else if (block.type === 'thinking') finished('thinking', block.thinking ?? '', parent, messageId)
      else if (block.type === 'tool_use') {
        const call = clip(String(block.id), 200)
        const tool = clip(String(block.name), 200)
        toolNames.set(call, tool)
        say({ type: 'tool.started', body: { call, tool, ...boundedInput(block.input), parent } })
      }
    }
  }

  function toolResults(parent: string | null, content: unknown): void {
    if (!Array.isArray(content)) return
    for (const block of content as ContentBlock[]) {
      if (block.type !== 'tool_result') continue
      const call = clip(String(block.tool_use_id), 200)
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
          parent,
        },
      })
    }
  }

  return (message: SDKMessage): void => {
    // The types are a promise of the SDK's; what comes is whatever code in the cell wrote.
    const raw = message as unknown as Raw
    const parent = typeof raw.parent_tool_use_id === 'string' ? clip(raw.parent_tool_use_id, 200) : null
    const kind = typeof raw.subtype === 'string' ? `${word(raw.type)}/${raw.subtype}` : word(raw.type)
    switch (raw.type) {
      case 'stream_event':
        return stream(parent, raw.event as StreamEvent)
      case 'assistant': {
        const inner = raw.message as { id?: unknown; content?: unknown }
        if (Array.isArray(inner?.content)) assistant(parent, String(inner.id), inner.content as ContentBlock[])
        return
      }
      case 'user':
        return toolResults(parent, (raw.message as { content?: unknown } | undefined)?.content)
      case 'tool_progress':
        return heard.live({
          type: 'tool.progress',
          call: clip(String(raw.tool_use_id), 200),
          tool: clip(String(raw.tool_name), 200),
          elapsed_ms: Math.max(0, Math.round(Number(raw.elapsed_time_seconds) * 1000)) || 0,
        })
      case 'result': {
        for (const thread of [...streams.keys()]) supersede(thread)
        const ok = raw.subtype === 'success' && raw.is_error !== true
        const errors = Array.isArray(raw.errors) ? raw.errors.map(String).join('; ') : ''
        const why = ok
          ? null
          : clip(typeof raw.result === 'string' && raw.result !== '' ? raw.result : errors || String(raw.subtype), 2000)
        const uuids = Array.isArray(raw.user_message_uuids) ? raw.user_message_uuids.map(String) : []
        return heard.result({ ok, why, prompts: uuids.map(promptOfUuid).filter((id) => id !== null) })
      }
      case 'system':
        if (raw.subtype === 'session_state_changed') return heard.state(raw.state === 'idle' ? 'idle' : 'running')
        if (raw.subtype === 'background_tasks_changed') return heard.tasks(Array.isArray(raw.tasks) ? raw.tasks.length : 0)
        if (raw.subtype === 'api_retry') {
          supersede(null)
          const status = raw.error_status === null ? 'no answer' : `status ${Number(raw.error_status)}`
          return say({
            type: 'notice',
            body: {
              level: 'warning',
              code: 'model_retry',
              message: `The model call failed (${clip(status, 40)}); try ${Number(raw.attempt)} follows`,
            },
          })
        }
    }
    if (uninteresting.has(kind)) return
    const json = JSON.stringify(message) ?? 'null'
    say({
      type: 'agent.raw',
      body: { kind: clip(kind, 100), json: clip(json, bounds.rawChars), truncated: json.length > bounds.rawChars },
    })
  }
}

type Raw = Readonly<Record<string, unknown>>
type ContentBlock = Readonly<{
  type: string
  text?: string
  thinking?: string
  id?: unknown
  name?: unknown
  input?: unknown
  tool_use_id?: unknown
  content?: unknown
  is_error?: unknown
}>
type StreamEvent =
  | { readonly type: 'message_start'; readonly message: { readonly id: string } }
  | { readonly type: 'content_block_start'; readonly index: number; readonly content_block: { readonly type: string } }
  | {
      readonly type: 'content_block_delta'
      readonly index: number
      readonly delta: { readonly text?: unknown; readonly thinking?: unknown }
    }
  | { readonly type: 'content_block_stop' | 'message_delta' | 'message_stop' | 'ping' }

const word = (value: unknown) => (typeof value === 'string' ? value : 'unknown')
const clip = (text: string, max: number) => (text.length > max ? text.slice(0, max) : text)

function boundedInput(input: unknown): { readonly input: unknown; readonly truncated: boolean } {
  const json = JSON.stringify(input) ?? 'null'
  return json.length > bounds.toolInputChars
    ? { input: clip(json, bounds.toolInputChars), truncated: true }
    : { input, truncated: false }
}

function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part: ContentBlock) => (part.type === 'text' ? (part.text ?? '') : `[${part.type}]`)).join('\n')
}
