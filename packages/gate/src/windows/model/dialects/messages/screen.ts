import { malformed, refused } from '../../answers.ts'
import type { Answer, Endpoint, Media, Screened, ScreenedOn, Screening } from '../../dialect.ts'
import { base64ImageSize } from '@anchorhold/core/image-size'
import { withoutTools } from './without-tools.ts'
import type { DeniedTools } from '@anchorhold/core/policy/denied-tools'
import { exceedsJson } from '@anchorhold/protocol/json-shape'
import { callTokensMax, imageTokens } from '@anchorhold/core/prices'

/** Top-level fields that agents send. Whatever else the API learns is refused until the owner names it. */
const fields = new Set(
  (
    'model messages system tools tool_choice metadata max_tokens stream thinking context_management output_config output_format ' +
    'temperature top_p top_k stop_sequences service_tier cache_control safeguards diagnostics'
  ).split(' '),
)
/** Content that says something by itself; all other kinds refer to what a server keeps, fetches or runs. */
const blocks = new Set(
  'text image document search_result thinking redacted_thinking tool_use tool_result tool_reference tool_addition tool_removal'.split(
    ' ',
  ),
)
/** Tools that the agent's own program carries out. */
const clientTool = /^(?:bash|text_editor|memory|computer)_\d{8}$/
/** Betas that change how a model answers. Those that open files, servers, other models or dearer tiers are not here. */
const betas = new Set(
  (
    'claude-code claude-code-side-query interleaved-thinking context-management context-1m context-hint effort task-budgets ' +
    'advanced-tool-use tool-search-tool tool-examples tool-provenance inline-tools fine-grained-tool-streaming token-efficient-tools ' +
    'mid-conversation-tool-changes mid-conversation-system mid-conversation-system-clear-at per-turn-control structured-outputs ' +
    'thinking-token-count thinking-display-updates thinking-resumption thinking-binding-controls redact-thinking dev-full-thinking ' +
    'dangerous-tool-use afk-mode auto-mode-classifier prompt-caching prompt-caching-scope prompt-caching-evict extended-cache-ttl ' +
    'cache-keepalive cache-diagnosis token-counting output-128k computer-use request-tags timing summarize-connector-text'
  ).split(' '),
)
/** Ten times what the longest conversations come to. */
const bounds = { depthMax: 200, partsMax: 500_000 } as const
/** Nested content deeper than this is an attack on a parser. */
const depthMax = 8

type Json = { readonly [name: string]: unknown }

/** Decides whether a request from inside may go out. What goes out is written anew from what was parsed, so that
 *  nothing that another parser might read differently (doubled keys, odd escapes, broken UTF-8) survives. */
export function screen(raw: Uint8Array, { costs }: Pick<Endpoint, 'costs'>, { allow, denied }: ScreenedOn): Screening {
  try {
    return { ok: true, request: screened(raw, allow, costs, denied) }
  } catch (error) {
    if (error instanceof Refusal) return { ok: false, answer: error.answer }
    // Nesting that is too deep for the engine's own serialiser ends here as well.
    if (error instanceof RangeError) return { ok: false, answer: malformed('The request is nested too deeply') }
    throw error
  }
}

/** The request as it is sent: what was screened, with the length of the answer that was paid for. */
export function serialise({ head, messages }: Screened, maxTokens: number | null): string {
  const limit = maxTokens === null ? '' : `,"max_tokens":${maxTokens}`
  return `${head.slice(0, -1)}${limit},"messages":[${messages.map(({ json }) => json).join(',')}]}`
}

/** The betas of a request that may go out. */
export function screenBetas(header: string | undefined, allow: ReadonlySet<string>): string[] {
  if (header === undefined) return []
  const named = header.split(',').map((beta) => beta.trim())
  return named.filter((beta) => {
    const match = /^([a-z0-9-]{1,60})-\d{4}-?\d{2}-?\d{2}$/.exec(beta)
    return match !== null && (betas.has(match[1]!) || allow.has(`beta:${match[1]!}`) || allow.has(`beta:${beta}`))
  })
}

class Refusal extends Error {
  readonly answer: Answer
  constructor(answer: Answer) {
    super(answer.message)
    this.answer = answer
  }
}
const deny = (what: string, name: string): never => {
  throw new Refusal(refused(`Anchorhold does not let ${what} out of the cell: the owner can allow it with the rule "${name}"`))
}
const broken = (message: string): never => {
  throw new Refusal(malformed(message))
}

function screened(raw: Uint8Array, allow: ReadonlySet<string>, costs: boolean, denied: DeniedTools | null): Screened {
  const parsed = parse(raw)
  const { body, refusal } = denied === null ? { body: parsed, refusal: null } : withoutTools(parsed, denied)
  if (refusal !== null) throw new Refusal(refused(refusal))
  for (const name of Object.keys(body)) {
    if (!fields.has(name) && !allow.has(`field:${name}`)) deny(`the request field ${quoted(name)}`, `field:${shown(name)}`)
  }
  const { messages, max_tokens: maxTokens, metadata, ...rest } = body
  if (typeof body.model !== 'string' || !/^[\w.:@/[\]-]{1,200}$/.test(body.model)) broken('"model" must be the id of a model')
  if (!Array.isArray(messages)) return broken('"messages" must be a list')
  if (costs && !(Number.isSafeInteger(maxTokens) && (maxTokens as number) > 0)) {
    broken('"max_tokens" must be a positive whole number')
  }
  // A sum that is set aside for more than this is no longer a whole number.
  if (costs && (maxTokens as number) > callTokensMax) {
    broken(`"max_tokens" must be at most ${callTokensMax}`)
  }
  if (body.stream !== undefined && typeof body.stream !== 'boolean') broken('"stream" must be true or false')
  screenTools(body.tools, allow)
  screenContent(body.system, allow, 0)
  screenSafeguards(body.safeguards)
  const head = written({ ...rest, ...reducedMetadata(metadata) })
  const passed = messages.map((message: unknown) => {
    if (!isObject(message)) return broken('Each message must be an object')
    const { content } = message
    screenContent(content, allow, 0)
    const { mediaChars, imageTokens, documents } = weighMedia(content, 0)
    return { json: written(message), mediaChars, imageTokens, documents }
  })
  return {
    model: body.model as string,
    stream: body.stream === true,
    maxTokens: costs ? (maxTokens as number) : 0,
    thinkingTokens: thinkingTokens(body.thinking),
    thinks: isObject(body.thinking) && body.thinking.type !== 'disabled',
    caching: cachingIn(head, passed),
    head,
    messages: passed,
  }
}

function written(part: Json): string {
  const json = JSON.stringify(part)
  // A key of this name is unescaped in what was just written, while the same word inside a text is not.
  if (json.includes('"__proto__":')) deny('the key "__proto__"', 'nothing allows it')
  return json
}

function parse(raw: Uint8Array): Json {
  let body: unknown
  if (exceedsJson(raw, bounds))
    broken(`The request is nested deeper than ${bounds.depthMax} levels, or has more than ${bounds.partsMax} parts`)
  try {
    body = JSON.parse(Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString('utf8'))
  } catch {
    broken('The request is not valid JSON')
  }
  return isObject(body) ? body : broken('The request must be a JSON object')
}

function screenTools(tools: unknown, allow: ReadonlySet<string>): void {
  if (tools === undefined || tools === null) return
  if (!Array.isArray(tools)) broken('"tools" must be a list')
  for (const tool of tools as unknown[]) screenTool(tool, allow)
}

function screenTool(tool: unknown, allow: ReadonlySet<string>): void {
  if (!isObject(tool)) return broken('Each tool must be an object')
  const { type } = tool
  if (type === undefined || type === null || type === 'custom') return
  if (typeof type !== 'string') return broken('The type of a tool must be a word')
  if (!clientTool.test(type) && !allow.has(`tool:${type}`))
    deny(`the tool type ${quoted(type)}, which runs on a server,`, `tool:${shown(type)}`)
}

/** Content is a text or a list of blocks, and some blocks hold content of their own. What a tool was called with is data. */
function screenContent(content: unknown, allow: ReadonlySet<string>, depth: number): void {
  if (content === undefined || content === null || typeof content === 'string') return
  if (!Array.isArray(content)) broken('Content must be a text or a list of blocks')
  if (depth > depthMax) broken('The content is nested too deeply')
  for (const block of content as unknown[]) {
    if (!isObject(block)) return broken('Each content block must be an object')
    const { type } = block
    if (typeof type !== 'string') return broken('Each content block must have a type')
    if (!blocks.has(type) && !allow.has(`block:${type}`)) deny(`content of type ${quoted(type)}`, `block:${shown(type)}`)
    if (type === 'tool_addition' || type === 'tool_removal') screenToolChange(block.tool, allow)
    // A search result names where it came from in words; every other source is an object.
    if (block.source !== undefined && !(type === 'search_result' && typeof block.source === 'string')) {
      if (type !== 'tool_use') screenSource(block.source, allow, depth)
    }
    if (type !== 'tool_use') screenContent(block.content, allow, depth + 1)
  }
}

function screenSource(source: unknown, allow: ReadonlySet<string>, depth: number): void {
  if (!isObject(source)) return broken('The source of a content block must be an object')
  const { type } = source
  if (typeof type !== 'string') return broken('The source of a content block must have a type')
  if (type === 'content') return screenContent(source.content, allow, depth + 1)
  if (type === 'base64' || type === 'text') return
  if (!allow.has(`source:${type}`)) deny(`a content source of type ${quoted(type)}`, `source:${shown(type)}`)
}

function screenToolChange(tool: unknown, allow: ReadonlySet<string>): void {
  if (isObject(tool) && tool.type === 'tool_reference') return
  screenTool(tool, allow)
}

/** The API's own check of tool calls, which agents ask for in plan mode; no other kind is known. */
function screenSafeguards(safeguards: unknown): void {
  if (safeguards === undefined || safeguards === null) return
  const known =
    Array.isArray(safeguards) && safeguards.every((one: unknown) => isObject(one) && one.type === 'dangerous_tool_use')
  if (!known) deny('a safeguard of an unknown type', 'field:safeguards')
}

function reducedMetadata(metadata: unknown): Json {
  const userId = isObject(metadata) ? metadata.user_id : undefined
  return typeof userId === 'string' && userId.length <= 1000 ? { metadata: { user_id: userId } } : {}
}

function thinkingTokens(thinking: unknown): number {
  const budget = isObject(thinking) ? thinking.budget_tokens : undefined
  if (typeof budget === 'number' && budget > callTokensMax) {
    return broken(`"budget_tokens" of "thinking" must be at most ${callTokensMax}`)
  }
  return Number.isSafeInteger(budget) && (budget as number) > 0 ? (budget as number) : 0
}

function cachingIn(head: string, messages: readonly { readonly json: string }[]): Screened['caching'] {
  const marks = (mark: string) => head.includes(mark) || messages.some(({ json }) => json.includes(mark))
  if (!marks('"cache_control":{')) return 'none'
  return marks('"ttl":"1h"') ? '1h' : '5m'
}

const noMedia: Media = { mediaChars: 0, imageTokens: 0, documents: 0 }

function weighMedia(content: unknown, depth: number): Media {
  if (!Array.isArray(content) || depth > depthMax) return noMedia
  const sum = { mediaChars: 0, imageTokens: 0, documents: 0 }
  for (const block of content as Json[]) {
    const source = isObject(block.source) ? block.source : undefined
    const nested = block.type === 'tool_use' ? [] : [block.content, source?.content]
    for (const inner of nested.map((one) => weighMedia(one, depth + 1))) {
      sum.mediaChars += inner.mediaChars
      sum.imageTokens += inner.imageTokens
      sum.documents += inner.documents
    }
    const data = source?.type === 'base64' && typeof source.data === 'string' ? source.data : null
    if (block.type === 'image') {
      sum.imageTokens += imageTokens(data === null ? null : base64ImageSize(data))
    } else if (block.type === 'document' && source?.type !== 'text' && source?.type !== 'content') {
      sum.documents += 1
    } else {
      continue
    }
    sum.mediaChars += data?.length ?? 0
  }
  return sum
}

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
const shown = (name: string) => name.replaceAll(/[^\w.:-]/g, '?').slice(0, 80)
const quoted = (name: string) => `"${shown(name)}"`
