import { base64ImageSize } from '@anchorhold/core/image-size'
import { exceedsJson } from '@anchorhold/protocol/json-shape'
import { z } from 'zod'
import type { Conversation, Outcome } from '../conversation.ts'

/** What is read of a request to the Messages API. */
export type ApiRequest = z.infer<typeof Head> & {
  readonly system?: Content | undefined
  readonly messages: readonly Message[]
  readonly tools?: readonly { readonly name: string }[] | undefined
}
export type Message = { readonly role: 'user' | 'assistant' | 'system'; readonly content: Content }
type Block = { readonly type: string; readonly [name: string]: unknown }
type Content = string | readonly Block[]

const Head = z.object({
  model: z.string(),
  max_tokens: z.int().min(1).optional(),
  stream: z.boolean().optional(),
  thinking: z.object({ type: z.string() }).optional(),
  output_config: z.object({ format: z.unknown().optional() }).optional(),
})

/** Ten times what a long conversation comes to. */
const jsonBounds = { partsMax: 300_000, depthMax: 200 }

/** The parts that there can be so many of are looked at by hand: a schema would make a list of all that is wrong with each, which takes
 *  many times the memory of the request. Here the first one ends it. */
export function readRequest(body: Buffer): ApiRequest | { readonly wrong: string } {
  if (exceedsJson(body, jsonBounds)) return { wrong: 'The request has too many parts, or is nested too deeply' }
  let json: unknown
  try {
    json = JSON.parse(body.toString('utf8'))
  } catch {
    return { wrong: 'The request is not valid JSON' }
  }
  const head = Head.safeParse(json)
  if (!head.success) {
    const [issue] = head.error.issues
    return { wrong: `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'unknown'}` }
  }
  const { messages, system, tools } = json as Record<string, unknown>
  if (!Array.isArray(messages) || messages.length === 0) return { wrong: 'messages: expected a list with at least one message' }
  const wrongMessage = messages.findIndex((message) => !isMessage(message))
  if (wrongMessage !== -1) return { wrong: `messages.${wrongMessage}: expected a role and a content` }
  if (system !== undefined && !isContent(system)) return { wrong: 'system: expected a text or a list of blocks' }
  if (tools !== undefined && !(Array.isArray(tools) && tools.every(isTool))) return { wrong: 'tools: expected a list of tools' }
  return { ...head.data, messages, system, tools }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const isBlock = (value: unknown): value is Block => isRecord(value) && typeof value.type === 'string'
const isContent = (value: unknown): value is Content =>
  typeof value === 'string' || (Array.isArray(value) && value.every(isBlock))
const isTool = (value: unknown): value is { name: string } => isRecord(value) && typeof value.name === 'string'
const roles: readonly unknown[] = ['user', 'assistant', 'system']
const isMessage = (value: unknown): value is Message => isRecord(value) && roles.includes(value.role) && isContent(value.content)

/** Of what was said in one message: more than anybody says, and a script. */
const saidCharsMax = 1024 * 1024
/** Of one tool's result: twice what is ever quoted of it. */
const resultCharsMax = 8000
/** Of everything that the agent was told. Where it works and what its workspace says come early. */
const toldCharsMax = 4 * 1024 * 1024

export function conversationOf(request: ApiRequest): Conversation {
  let instruction: string[] = []
  /** What the instruction is made of, as it was said. */
  let pieces: string[] = []
  let images: string[] = []
  const earlier: string[] = []
  /** By the id of the call. */
  let outcomes = new Map<string, Outcome>()
  let lastCall: Conversation['lastCall'] = null
  let replies = 0
  let planMode = false
  let planning = false
  const told: string[] = []
  let toldChars = 0
  const tell = (text: string) => {
    const part = text.slice(0, Math.max(0, toldCharsMax - toldChars))
    if (part !== '') told.push(part)
    toldChars += part.length + 1
  }
  tell(textOf(request.system ?? ''))

  for (const message of request.messages) {
    const blocks = blocksOf(message.content)
    if (message.role === 'assistant') {
      replies += 1
      for (const { type, id, name, input } of blocks) {
        if (type === 'tool_use') outcomes.set(wordOf(id), { tool: wordOf(name), input, text: '', failed: false })
      }
      continue
    }
    const text = textOf(message.content)
    tell(text)
    planMode = planModeAfter(text, planMode)
    if (replies === 0) planning = planMode
    for (const block of blocks) {
      if (block.type !== 'tool_result') continue
      const id = wordOf(block.tool_use_id)
      const outcome = outcomes.get(id)
      const result = textOf(isContent(block.content) ? block.content : '')
      planMode = planModeAfter(result, planMode)
      tell(result)
      // In its place, as the calls were made.
      if (outcome !== undefined)
        outcomes.set(id, { ...outcome, text: human(result.slice(0, resultCharsMax)), failed: block.is_error === true })
    }
    const said = (message.role === 'user' && spoken(text)) || steeringIn(text) || notificationIn(text)
    // An agent puts what nobody has answered into one message, each thing that was said in a block of its own.
    const apart = message.role === 'user' ? blocks.map((block) => spoken(textOf([block]))).filter((part) => part !== '') : []
    const saidApart = apart.length > 0 ? apart : [said]
    const shown = blocks.filter(({ type }) => type === 'image').map(describeImage)
    if (said === '' && shown.length === 0) continue
    // What was said before anybody answered belongs together; anything later is a new instruction.
    if (replies > 0) {
      for (const piece of pieces) earlier.push(piece)
      instruction = []
      pieces = []
      images = []
    }
    if (said !== '') instruction.push(said)
    for (const piece of saidApart) if (piece !== '') pieces.push(piece)
    for (const image of shown) images.push(image)
    for (const { tool, input } of outcomes.values()) lastCall = { tool, input }
    outcomes = new Map()
    replies = 0
    planning = planMode
  }

  const everything = told.join('\n')
  const tools = request.tools ?? []
  return {
    instruction: instruction.join('\n').slice(0, saidCharsMax),
    images,
    earlier,
    outcomes: [...outcomes.values()],
    lastCall,
    replies,
    tools: new Set(tools.map(({ name }) => name)),
    deferred: deferredIn(everything),
    folder: folderIn(everything),
    planning,
    planFile:
      /(?:create your plan at|plan file(?: already)? exists at|plan file: ?) ?(\/\S+?\.md)/i.exec(everything)?.[1] ?? null,
    thinks: request.thinking !== undefined && request.thinking.type !== 'disabled',
    wantsTitle: tools.length === 0 && hasTitle(request.output_config?.format),
    guidance: guidanceIn(everything),
  }
}

const wordOf = (value: unknown): string => (typeof value === 'string' ? value : '')

const blocksOf = (content: Content): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

function textOf(content: Content): string {
  if (typeof content === 'string') return content.slice(0, saidCharsMax)
  const texts: string[] = []
  let room = saidCharsMax
  for (const { type, text } of content) {
    if (type !== 'text' || typeof text !== 'string') continue
    texts.push(text.slice(0, room))
    room -= text.length + 1
    if (room <= 0) break
  }
  return texts.join('\n')
}

/** What a person said: without the agent's own reminders and marks. No pattern here looks at a text again from each of its places: a
 *  cell may send whatever it likes, and every other session waits meanwhile. */
function human(text: string): string {
  return text
    .replaceAll(/<system-reminder>[\s\S]*?(?:<\/system-reminder>|$)/g, '')
    .replaceAll(
      /<(command-name|command-message|command-args|local-command-stdout|local-command-caveat)>(?:(?!<\1>)[\s\S])*?<\/\1>/g,
      '',
    )
    .replaceAll(/\[Request interrupted by user[^[\]]*\]/g, '')
    .trim()
}

/** News of a task in the background, which starts a turn without a person. */
const notificationIn = (text: string): string =>
  /<task-notification>(?:(?!<task-notification>)[\s\S])*?<\/task-notification>/.exec(text)?.[0] ?? ''

/** What a person said in the middle of a turn, between the sentences that the CLI puts around it: bare, or as a reminder. */
const steering =
  /The user sent a new message while you were working:\n([\s\S]*?)(?:\n\nThis is how Claude Code surfaces messages[^\n]*|(?=<\/system-reminder>)|$)/g

const spoken = (text: string): string => human(text).replaceAll(steering, '$1').trim()

const steeringIn = (text: string): string => [...text.matchAll(steering)].map(([, said]) => said!.trim()).join('\n')

function planModeAfter(text: string, before: boolean): boolean {
  const on = Math.max(
    text.lastIndexOf('Plan mode is active'),
    text.lastIndexOf('Plan mode still active'),
    text.lastIndexOf('Entered plan mode'),
  )
  const off = Math.max(text.lastIndexOf('xited plan mode'), text.lastIndexOf('User has approved your plan'))
  return on === off ? before : on > off
}

/** Each place in a text behind a mark. */
function* behind(text: string, mark: string): Generator<number> {
  for (let at = text.indexOf(mark); at !== -1; at = text.indexOf(mark, at + mark.length)) yield at + mark.length
}
/** The rest of the line that a place is in, as far as it is looked at. */
function restOfLine(text: string, from: number, charsMax: number): string {
  const part = text.slice(from, from + charsMax)
  const end = part.indexOf('\n')
  return end === -1 ? part : part.slice(0, end)
}

const indentCharsMax = 40
const pathCharsMax = 4096

function folderIn(text: string): string | null {
  const mark = 'orking directory: '
  for (const at of behind(text, mark)) {
    const before = text.slice(Math.max(0, at - mark.length - indentCharsMax), at - mark.length)
    if (!/(?:^|\n)[^\S\n]*(?:- )?(?:Primary w|W)$/.test(before)) continue
    const folder = restOfLine(text, at, pathCharsMax).trim()
    if (folder !== '') return folder
  }
  return null
}

const toolNamesMax = 1000

/** Names that follow each other, a line each, behind the sentence that announces them. */
function deferredIn(text: string): ReadonlySet<string> {
  const names = new Set<string>()
  /** Nothing is read twice. */
  let readTo = 0
  for (const mark of behind(text, 'deferred tools are now available via ToolSearch')) {
    if (mark < readTo) continue
    let at = mark + restOfLine(text, mark, 500).length + 1
    for (;;) {
      const name = /^[\w-]{1,200}/.exec(text.slice(at, at + 200))?.[0]
      if (text[at - 1] !== '\n' || name === undefined || names.size === toolNamesMax) break
      names.add(name)
      at += name.length + 1
    }
    readTo = at
  }
  return names
}

const guidanceCharsMax = 2000

/** What stands below the name of the first such file, up to what follows it. */
function guidanceIn(text: string): string | null {
  const files = ['CLAUDE.md', 'AGENTS.md'].map((name) => {
    for (const at of behind(text, name)) {
      const rest = restOfLine(text, at, 102)
      const before = text.slice(Math.max(0, at - name.length - 212), at - name.length)
      const isHeading = rest.endsWith(':') && text[at + rest.length] === '\n'
      if (isHeading && before.lastIndexOf('Contents of ') > before.lastIndexOf('\n')) return at + rest.length + 1
    }
    return Infinity
  })
  const from = Math.min(...files)
  if (from === Infinity) return null
  const part = text.slice(from, from + guidanceCharsMax)
  const end = part.search(/\nContents of |<\/system-reminder>|\n\s{0,9}IMPORTANT: this context/)
  const found = (end === -1 ? part : part.slice(0, end)).trim()
  return found === '' ? null : found
}

function hasTitle(format: unknown): boolean {
  const schema = isRecord(format) ? format.schema : null
  const properties = isRecord(schema) ? schema.properties : null
  return isRecord(properties) && properties.title !== undefined
}

function describeImage({ source: given }: Block): string {
  const source = isRecord(given) ? given : {}
  const type = typeof source.media_type === 'string' ? source.media_type.slice(0, 100) : 'an unknown type'
  const size = typeof source.data === 'string' ? base64ImageSize(source.data) : null
  return size === null ? type : `${type}, ${size.width}×${size.height}`
}
