import type { Used } from '@anchorhold/core/prices'
import type { Nanos } from '@anchorhold/protocol/money'
import { z } from 'zod'

/** Reads along with an answer as it passes, and says what it used. It reads a little later, so that the answer goes out first. */
export type Meter = {
  feed(chunk: Uint8Array): void
  /** What was used, as far as it was seen. `whole` when the upstream gave its final count; `thought` when there was thinking in it,
   *  of which an answer shows a summary or nothing, whatever its length. */
  read(): {
    readonly used: Used
    readonly whole: boolean
    readonly started: boolean
    readonly thought: boolean
    /** What it cost, where the upstream says so itself. */
    readonly saidNanos: Nanos | null
  }
}

/** A longer line or body is passed on but not read any more. */
const readBytesMax = 32 * 1024 * 1024
/** Of an answer that was cut off, only its text is known. */
const bytesPerToken = 2

const count = z.int().min(0).max(1_000_000_000).nullish()
const counts = {
  input_tokens: count,
  output_tokens: count,
  cache_read_input_tokens: count,
  cache_creation_input_tokens: count,
  cache_creation: z.object({ ephemeral_1h_input_tokens: count }).nullish(),
}
/** In US dollars; one that cannot be read is not there. */
const cost = z.number().min(0).max(100_000).nullish().catch(null)
const Usage = z.object({
  ...counts,
  cost,
  is_byok: z.boolean().nullish().catch(null),
  cost_details: z.object({ upstream_inference_cost: cost }).nullish().catch(null),
  /** Where one call ran the model several times, the totals are in here. */
  iterations: z.array(z.object(counts)).max(1000).nullish(),
  server_tool_use: z.object({ web_search_requests: count }).nullish(),
})
type Usage = z.infer<typeof Usage>

/** How nearly every line of a stream looks: a piece of text with no escape in it, so that its length can be seen. */
const plainDelta =
  /data: ?\{"type":"content_block_delta","index":\d+,"delta":\{"type":"\w+","(text|thinking|partial_json)":"([^"\\\n]*)"\}\}\r?$/my

export function meter(kind: 'stream' | 'json'): Meter {
  const seen = { start: null as Usage | null, end: null as Usage | null, answerBytes: 0, thought: false, overrun: false }
  let unread: Uint8Array[] = []
  /** The beginning of a line, or of a body. */
  let pending: Uint8Array[] = []
  let pendingBytes = 0

  const keep = (bytes: Uint8Array) => {
    if (seen.overrun || bytes.length === 0) return
    pendingBytes += bytes.length
    if (pendingBytes > readBytesMax) {
      seen.overrun = true
      pending = []
      return
    }
    pending.push(bytes)
  }
  const take = (): Buffer => {
    const bytes = pending.length === 1 ? asBuffer(pending[0]!) : Buffer.concat(pending)
    pending = []
    pendingBytes = 0
    return bytes
  }

  const data = (json: string) => {
    const event = parsed(json)
    if (event === null) return
    if (event.type === 'message_start') {
      seen.start = usageOf((event.message as { usage?: unknown } | undefined)?.usage) ?? seen.start
    } else if (event.type === 'message_delta') {
      seen.end = usageOf(event.usage) ?? seen.end
    } else if (event.type === 'content_block_delta') {
      seen.answerBytes += deltaBytes(event.delta)
      seen.thought ||= isThinking(event.delta)
    } else if (event.type === 'content_block_start') {
      seen.answerBytes += deltaBytes(event.content_block)
      seen.thought ||= isThinking(event.content_block)
    }
  }
  /** Whole lines. As Latin-1 each byte is a character, so a length in it is one in bytes. */
  const lines = (bytes: Buffer) => {
    const text = bytes.toString('latin1')
    for (let from = 0; from < text.length;) {
      const found = text.indexOf('\n', from)
      const to = found === -1 ? text.length : found
      if (text.startsWith('data:', from)) {
        plainDelta.lastIndex = from
        const delta = plainDelta.exec(text)
        if (delta === null) data(bytes.toString('utf8', from + 'data:'.length, to))
        else {
          seen.answerBytes += delta[2]!.length
          seen.thought ||= delta[1] === 'thinking'
        }
      }
      from = to + 1
    }
  }
  const catchUp = () => {
    const chunks = unread
    unread = []
    for (const chunk of chunks) {
      const end = kind === 'json' ? 0 : chunk.lastIndexOf(10) + 1
      if (end > 0) {
        keep(chunk.subarray(0, end))
        if (pending.length > 0) lines(take())
      }
      keep(chunk.subarray(end))
    }
  }

  return {
    feed(chunk) {
      // A body says nothing before its end.
      if (unread.push(chunk) === 1 && kind === 'stream') setImmediate(catchUp)
    },
    read() {
      catchUp()
      if (kind === 'json' && pending.length > 0) {
        seen.answerBytes = pendingBytes
        seen.end = usageOf(parsed(take().toString('utf8'))?.usage)
        seen.start = seen.end
      }
      const whole = seen.end !== null && !seen.overrun
      const used = total(seen.start, seen.end)
      const output = whole ? used.output : Math.max(used.output, Math.ceil(seen.answerBytes / bytesPerToken))
      return {
        used: { ...used, output },
        whole,
        started: seen.start !== null,
        thought: seen.thought,
        saidNanos: saidIn(seen.end),
      }
    },
  }
}

/** The last word counts for each number; a final count that is missing leaves what the beginning said. */
function total(start: Usage | null, end: Usage | null): Required<Used> {
  const parts = end?.iterations?.length ? end.iterations : [lastWords(start ?? {}, end ?? {})]
  const sum = { input: 0, output: 0, cache_read: 0, cache_write: 0, cache_write_1h: 0, web_searches: 0 }
  for (const part of parts) {
    sum.input += part.input_tokens ?? 0
    sum.output += part.output_tokens ?? 0
    sum.cache_read += part.cache_read_input_tokens ?? 0
    sum.cache_write += part.cache_creation_input_tokens ?? 0
    sum.cache_write_1h += part.cache_creation?.ephemeral_1h_input_tokens ?? 0
  }
  sum.web_searches = end?.server_tool_use?.web_search_requests ?? 0
  return sum
}

function lastWords(start: Usage, end: Usage): Usage {
  return {
    input_tokens: end.input_tokens ?? start.input_tokens,
    output_tokens: end.output_tokens ?? start.output_tokens,
    cache_read_input_tokens: end.cache_read_input_tokens ?? start.cache_read_input_tokens,
    cache_creation_input_tokens: end.cache_creation_input_tokens ?? start.cache_creation_input_tokens,
    cache_creation: end.cache_creation ?? start.cache_creation,
  }
}

/** With a key of the owner's own at the maker's, the maker's bill comes beside the reseller's (OpenRouter, "Usage Accounting"). */
function saidIn(end: Usage | null): Nanos | null {
  if (typeof end?.cost !== 'number') return null
  const beside = end.is_byok === false ? 0 : (end.cost_details?.upstream_inference_cost ?? 0)
  return Math.round((end.cost + beside) * 1e9)
}

function usageOf(value: unknown): Usage | null {
  const usage = Usage.safeParse(value)
  return usage.success ? usage.data : null
}

function parsed(text: string): { readonly [name: string]: unknown } | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as { readonly [name: string]: unknown }) : null
  } catch {
    return null
  }
}

/** The length of what a delta adds: its text, thinking, or piece of a tool's input. */
function deltaBytes(delta: unknown): number {
  if (typeof delta !== 'object' || delta === null) return 0
  let bytes = 0
  for (const [name, value] of Object.entries(delta)) {
    if (typeof value === 'string' && name !== 'type' && name !== 'signature') bytes += Buffer.byteLength(value)
  }
  return bytes
}

/** A block of thinking, shown or not, or a piece of one. */
const isThinking = (part: unknown): boolean =>
  typeof part === 'object' &&
  part !== null &&
  'type' in part &&
  /^(?:redacted_)?thinking|^signature_delta$/.test(String(part.type))

const asBuffer = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
