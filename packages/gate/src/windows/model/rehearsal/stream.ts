import { createHash } from 'node:crypto'
import type { Move } from './brain.ts'
import type { ApiRequest } from './conversation.ts'

/** A block of an answer, with the pieces that it is streamed in. */
export type Piece =
  | { readonly at: 'event'; readonly event: { readonly type: string; readonly [name: string]: unknown } }
  | { readonly at: 'wait'; readonly ms: number }
  | { readonly at: 'cut' }

const bytesPerToken = 4
/** Counted by length alone, so that the same request always costs the same. */
export const tokensIn = (text: string) => Math.ceil(Buffer.byteLength(text) / bytesPerToken)

/** The whole of an answer as the events of the Messages API, with the pauses between them. */
export function* streamOf(request: ApiRequest, moves: readonly Move[]): Generator<Piece> {
  const asked = JSON.stringify(request.messages) + JSON.stringify(request.system ?? '') + JSON.stringify(request.tools ?? [])
  const digest = createHash('sha256').update(asked).digest('hex')
  const usage = { input_tokens: tokensIn(asked), cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  const shell = { id: `msg_${digest.slice(0, 24)}`, type: 'message', role: 'assistant', model: request.model, content: [] }
  yield event('message_start', {
    message: { ...shell, stop_reason: null, stop_sequence: null, usage: { ...usage, output_tokens: 1 } },
  })

  let index = 0
  let output = 0
  let stop = 'end_turn'
  let inText = false
  const limit = request.max_tokens ?? Number.MAX_SAFE_INTEGER
  for (const move of moves) {
    if (move.do === 'wait') {
      yield { at: 'wait', ms: move.ms }
      continue
    }
    if (move.do === 'cut') return yield { at: 'cut' }
    const whole = move.do === 'call' ? JSON.stringify(move.input ?? {}) : move.text
    if (whole === '') continue
    const room = Math.max(0, limit - output)
    const fits = tokensIn(whole) <= room
    // Half a tool call is of no use to anyone, half a text is.
    if (!fits && (move.do === 'call' || room === 0)) {
      stop = 'max_tokens'
      break
    }
    const text = fits ? whole : cutAt(whole, room * bytesPerToken)
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

function* deltas(index: number, move: Spoken, text: string): Generator<Piece> {
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

const cutAt = (text: string, bytes: number) =>
  Buffer.from(text)
    .subarray(0, bytes)
    .toString('utf8')
    .replace(/\uFFFD+$/, '')
const event = (type: string, rest: Record<string, unknown>): Piece => ({ at: 'event', event: { type, ...rest } })
const words = (text: string, each: number): string[] =>
  text.match(new RegExp(String.raw`(?:\s*\S+){1,${each}}\s*|\s+`, 'g')) ?? []
function slices(text: string, length: number): string[] {
  const characters = Array.from(text)
  return Array.from({ length: Math.ceil(characters.length / length) }, (_, index) =>
    characters.slice(index * length, (index + 1) * length).join(''),
  )
}

/** The same answer as one message, for those who did not ask for a stream. */
export function messageOf(pieces: Iterable<Piece>): Record<string, unknown> {
  let message: Record<string, unknown> = {}
  const content: Record<string, unknown>[] = []
  const json: string[] = []
  for (const piece of pieces) {
    if (piece.at !== 'event') continue
    const { event } = piece
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
