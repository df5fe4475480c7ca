import { createHash } from 'node:crypto'
import type { Move } from '../conversation.ts'
import type { Piece } from '../dialect.ts'
import type { ApiRequest } from './request.ts'

const bytesPerToken = 4
/** Counted by length alone, so that the same request always costs the same. */
const tokensOf = (bytes: number) => Math.ceil(bytes / bytesPerToken)
const tokensIn = (text: string) => tokensOf(Buffer.byteLength(text))
/** What one answer may hold in memory, whatever a request says. */
const outputTokensMax = 128_000

/** What a request comes to, without the request. */
export type Asked = {
  readonly model: string
  readonly digest: string
  readonly inputTokens: number
  readonly outputTokensMax: number
}

export function askedBy({ model, max_tokens, messages, system, tools }: ApiRequest): Asked {
  const hash = createHash('sha256')
  let bytes = 0
  for (const part of [messages, system ?? '', tools ?? []]) {
    const json = JSON.stringify(part)
    hash.update(json)
    bytes += Buffer.byteLength(json)
  }
  return {
    model,
    digest: hash.digest('hex'),
    inputTokens: tokensOf(bytes),
    outputTokensMax: Math.min(max_tokens ?? outputTokensMax, outputTokensMax),
  }
}

export const countedBy = ({ messages, system, tools }: ApiRequest): number => tokensIn(JSON.stringify([messages, system, tools]))

type ApiEvent = { readonly type: string; readonly [name: string]: unknown }
/** What happens in an answer, in the words of the Messages API. */
type Happening = { readonly at: 'event'; readonly event: ApiEvent } | Exclude<Piece, { at: 'text' }>

/** The answer as it is streamed. */
export function* streamed(asked: Asked, moves: readonly Move[]): Generator<Piece> {
  for (const one of happenings(asked, moves))
    yield one.at === 'event' ? { at: 'text', text: `event: ${one.event.type}\ndata: ${JSON.stringify(one.event)}\n\n` } : one
}

/** The same answer as one message, for those who did not ask for a stream. */
export function whole(asked: Asked, moves: readonly Move[]): Piece[] {
  const pieces: Piece[] = []
  const events: ApiEvent[] = []
  for (const one of happenings(asked, moves)) {
    if (one.at === 'event') events.push(one.event)
    else pieces.push(one)
    if (one.at === 'cut') return pieces
  }
  return [...pieces, { at: 'text', text: JSON.stringify(messageOf(events)) }]
}

/** The whole of an answer as the events of the Messages API, with the pauses between them. */
function* happenings(
  { model, digest, inputTokens, outputTokensMax: limit }: Asked,
  moves: readonly Move[],
): Generator<Happening> {
  const usage = { input_tokens: inputTokens, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  const shell = { id: `msg_${digest.slice(0, 24)}`, type: 'message', role: 'assistant', model, content: [] }
  yield event('message_start', {
    message: { ...shell, stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 1 } },
  })

  let index = 0
  let output = 0
  let stop = 'end_turn'
  let inText = false
  for (const move of moves) {
    if (move.do === 'wait') {
      yield { at: 'wait', ms: move.ms }
      continue
    }
    if (move.do === 'cut') return yield { at: 'cut' }
    const said = move.do === 'call' ? JSON.stringify(move.input ?? {}) : move.text
    if (said === '') continue
    const room = Math.max(0, limit - output)
    const fits = tokensIn(said) <= room
    // Half a tool call is of no use to anyone, half a text is.
    if (!fits && (move.do === 'call' || room === 0)) {
      stop = 'max_tokens'
      break
    }
    const text = fits ? said : cutAt(said, room * bytesPerToken)
    output += tokensIn(text)
    // What is said in one breath is one block.
    if (inText && move.do !== 'text') {
      yield event('content_block_stop', { index })
      index += 1
    }
    if (!(inText && move.do === 'text'))
      yield event('content_block_start', { index, content_block: emptyBlock(move, `toolu_${digest.slice(0, 20)}${index}`) })
    yield* deltas(index, move, text)
    inText = move.do === 'text'
    if (!inText) {
      yield event('content_block_stop', { index })
      index += 1
    }
    if (move.do === 'call') stop = 'tool_use'
    if (!fits) {
      stop = 'max_tokens'
      break
    }
  }
  if (inText) yield event('content_block_stop', { index })
  yield event('message_delta', {
    delta: { stop_reason: stop, stop_sequence: null },
    usage: { ...usage, output_tokens: Math.max(1, output) },
  })
  yield event('message_stop', {})
}

type Spoken = Exclude<Move, { do: 'wait' | 'cut' }>

function emptyBlock(move: Spoken, id: string): Record<string, unknown> {
  switch (move.do) {
    case 'text':
      return { type: 'text', text: '' }
    case 'thinking':
      return { type: 'thinking', thinking: '', signature: '' }
    case 'call':
      return { type: 'tool_use', id, name: move.tool, input: {} }
  }
}

function* deltas(index: number, move: Spoken, text: string): Generator<Happening> {
  const delta = (delta: { readonly type: string; readonly [name: string]: string }) =>
    event('content_block_delta', { index, delta })
  switch (move.do) {
    case 'text':
      for (const part of words(text, move.paceMs === 0 ? 4 : 1)) {
        yield delta({ type: 'text_delta', text: part })
        if (move.paceMs > 0) yield { at: 'wait', ms: move.paceMs }
      }
      return
    case 'thinking':
      for (const part of words(text, 4)) yield delta({ type: 'thinking_delta', thinking: part })
      return yield delta({ type: 'signature_delta', signature: 'cmVoZWFyc2Fs' })
    case 'call':
      for (const part of slices(text, 40)) yield delta({ type: 'input_json_delta', partial_json: part })
  }
}

/** Without the half of a character that may be at its end. */
const cutAt = (text: string, bytes: number) =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.from(text).subarray(0, bytes), { stream: true })
const event = (type: string, rest: Record<string, unknown>): Happening => ({ at: 'event', event: { type, ...rest } })

/** So many words at a time, with the blanks around them. */
function* words(text: string, each: number): Generator<string> {
  let part = ''
  let count = 0
  for (const [word] of text.matchAll(/(?:^\s+)?\S+\s*|^\s+/g)) {
    part += word
    if (++count < each) continue
    yield part
    part = ''
    count = 0
  }
  if (part !== '') yield part
}

function* slices(text: string, length: number): Generator<string> {
  let part = ''
  let count = 0
  for (const character of text) {
    part += character
    if (++count < length) continue
    yield part
    part = ''
    count = 0
  }
  if (part !== '') yield part
}

function messageOf(events: readonly ApiEvent[]): Record<string, unknown> {
  let message: Record<string, unknown> = {}
  const content: Record<string, unknown>[] = []
  const json: string[] = []
  for (const event of events) {
    if (event.type === 'message_start') message = event.message as Record<string, unknown>
    if (event.type === 'content_block_start') content.push({ ...(event.content_block as Record<string, unknown>) })
    const current = content.at(-1)
    if (event.type === 'content_block_delta') {
      for (const [name, value] of Object.entries(event.delta as Record<string, string>)) {
        if (name === 'partial_json') json.push(value)
        else if (name !== 'type') current![name] = `${(current![name] as string | undefined) ?? ''}${value}`
      }
    }
    if (event.type === 'content_block_stop' && current?.type === 'tool_use') current.input = JSON.parse(json.splice(0).join(''))
    if (event.type === 'message_delta') message = { ...message, ...(event.delta as object), usage: event.usage }
  }
  return { ...message, content }
}
