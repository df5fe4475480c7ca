import type { Used } from '@anchorhold/core/prices'
import { z } from 'zod'

/** Reads along with an answer as it passes, and says what it used. It reads a little later, so that the answer goes out first. */
export type Meter = {
  feed(chunk: Uint8Array): void
  /** What was used, as far as it was seen. `whole` when the upstream gave its final count. */
  read(): { readonly used: Used; readonly whole: boolean; readonly started: boolean }
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
const Usage = z.object({
  ...counts,
  /** Where one call ran the model several times, the totals are in here. */
  iterations: z.array(z.object(counts)).max(1000).nullish(),
  server_tool_use: z.object({ web_search_requests: count }).nullish(),
})
type Usage = z.infer<typeof Usage>

export function meter(kind: 'stream' | 'json'): Meter {
  const seen = { start: null as Usage | null, end: null as Usage | null, answerBytes: 0, overrun: false }
  let unread: Uint8Array[] = []
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
  const take = (): string => {
    const text = pending.length === 1 ? asBuffer(pending[0]!).toString('utf8') : Buffer.concat(pending).toString('utf8')
    pending = []
    pendingBytes = 0
    return text
  }

  const line = (text: string) => {
    if (!text.startsWith('data:')) return
    const data = parsed(text.slice('data:'.length))
    if (data === null) return
    if (data.type === 'message_start') {
      seen.start = usageOf((data.message as { usage?: unknown } | undefined)?.usage) ?? seen.start
    } else if (data.type === 'message_delta') {
      seen.end = usageOf(data.usage) ?? seen.end
    } else if (data.type === 'content_block_delta') {
      seen.answerBytes += deltaBytes(data.delta)
    } else if (data.type === 'content_block_start') {
      seen.answerBytes += deltaBytes(data.content_block)
    }
  }

  const lines = (chunk: Uint8Array) => {
    let from = 0
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      keep(chunk.subarray(from, at))
      from = at + 1
      if (pending.length > 0) line(take())
    }
    keep(chunk.subarray(from))
  }
  const catchUp = () => {
    const chunks = unread
    unread = []
    const read = kind === 'json' ? keep : lines
    for (const chunk of chunks) read(chunk)
  }

  return {
    feed(chunk) {
      if (unread.push(chunk) === 1) setImmediate(catchUp)
    },
    read() {
      catchUp()
      if (kind === 'json' && pending.length > 0) {
        seen.answerBytes = pendingBytes
        seen.end = usageOf(parsed(take())?.usage)
        seen.start = seen.end
      }
      const whole = seen.end !== null && !seen.overrun
      const used = total(seen.start, seen.end)
      const output = whole ? used.output : Math.max(used.output, Math.ceil(seen.answerBytes / bytesPerToken))
      return { used: { ...used, output }, whole, started: seen.start !== null }
    },
  }
}

/** The last word counts for each number; a final count that is missing leaves what the beginning said. */
function total(start: Usage | null, end: Usage | null): Required<Used> {
  const parts = end?.iterations?.length ? end.iterations : [{ ...withoutNulls(start), ...withoutNulls(end) }]
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

function withoutNulls(usage: Usage | null): Partial<Usage> {
  return Object.fromEntries(Object.entries(usage ?? {}).filter(([, value]) => value !== null && value !== undefined))
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

const asBuffer = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
