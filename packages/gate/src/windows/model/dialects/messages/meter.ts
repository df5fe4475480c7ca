import type { Used } from '@anchorhold/core/prices'
import type { Nanos } from '@anchorhold/protocol/money'
import { z } from 'zod'
import { dataIn, type Line, lineReader } from '../../../line-reader.ts'
import type { Meter } from '../../dialect.ts'

/** A longer body is passed on but not read any more. */
const readBytesMax = 32 * 1024 * 1024
/** So is a longer line of a stream. The lines behind it are read. */
const lineBytesMax = 4 * 1024 * 1024
const eventLinesMax = 10_000
/** Of an answer that was cut off, only its text is known. */
const bytesPerToken = 2
const lineFeed = Buffer.from('\n')
/** The other half of a line's end is no line. */
const lineEndBytesMax = 1

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

/** How nearly every event of a stream looks: a piece of text with no escape in it, so that its length can be seen. As Latin-1 each byte
 *  is a character, so a length in it is one in bytes. */
const plainDelta =
  /^\{"type":"content_block_delta","index":\d{1,9},"delta":\{"type":"\w{1,40}","(text|thinking|partial_json)":"([^"\\]*)"\}\}$/

export function meter(kind: 'stream' | 'whole'): Meter {
  const seen = { start: null as Usage | null, end: null as Usage | null, answerBytes: 0, thought: false, overrun: false }
  let unread: Uint8Array[] = []
  const reader = lineReader(lineBytesMax)
  /** What the lines of data of an event have said so far. */
  let event: Buffer[] = []
  let eventBytes = 0
  const body: Uint8Array[] = []
  let bodyBytes = 0

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
  /** An event ends with an empty line (https://html.spec.whatwg.org/#event-stream-interpretation), and with the stream. */
  const dispatch = () => {
    const lines = event
    event = []
    eventBytes = 0
    if (lines.length === 0) return
    const said =
      lines.length === 1 ? lines[0]! : Buffer.concat(lines.flatMap((line, at) => (at === 0 ? [line] : [lineFeed, line])))
    const delta = plainDelta.exec(said.toString('latin1'))
    if (delta === null) return data(said.toString('utf8'))
    seen.answerBytes += delta[2]!.length
    seen.thought ||= delta[1] === 'thinking'
  }
  const take = (line: Line) => {
    const { content, bytes } = line
    if (content?.length === 0) return dispatch()
    const said = dataIn(line)
    if (said !== null && event.length < eventLinesMax && eventBytes + said.length <= lineBytesMax) {
      event.push(said)
      eventBytes += said.length
    } else if (said !== null || (content === null && bytes.length > lineEndBytesMax)) seen.answerBytes += bytes.length
  }
  const catchUp = () => {
    const chunks = unread
    unread = []
    for (const chunk of chunks) {
      if (kind === 'stream') for (const line of reader.feed(chunk)) take(line)
      else if ((bodyBytes += chunk.length) <= readBytesMax) body.push(chunk)
      else seen.overrun = true
    }
  }

  return {
    feed(chunk) {
      // A body says nothing before its end.
      if (unread.push(chunk) === 1 && kind === 'stream') setImmediate(catchUp)
    },
    read() {
      catchUp()
      dispatch()
      if (kind === 'whole' && bodyBytes > 0 && !seen.overrun) {
        seen.answerBytes = bodyBytes
        seen.end = usageOf(parsed(Buffer.concat(body).toString('utf8'))?.usage)
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
