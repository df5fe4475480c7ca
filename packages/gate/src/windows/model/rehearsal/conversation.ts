import { z } from 'zod'
import { base64ImageSize } from '../image-size.ts'

const Block = z.looseObject({ type: z.string() })
type Block = z.infer<typeof Block>
const Content = z.union([z.string(), z.array(Block)])

/** What the rehearsal provider reads of a request to the Messages API. */
export const ApiRequest = z.looseObject({
  model: z.string(),
  max_tokens: z.int().min(1).optional(),
  stream: z.boolean().optional(),
  system: Content.optional(),
  messages: z.array(z.looseObject({ role: z.enum(['user', 'assistant', 'system']), content: Content })).min(1),
  tools: z.array(z.looseObject({ name: z.string() })).optional(),
  thinking: z.looseObject({ type: z.string() }).optional(),
  output_config: z.looseObject({ format: z.unknown().optional() }).optional(),
})
export type ApiRequest = z.infer<typeof ApiRequest>

/** A tool call that was made since the instruction, with its result once there is one. */
export type Outcome = {
  readonly tool: string
  readonly input: unknown
  readonly text: string
  readonly failed: boolean
}

/** Where a conversation stands: the last thing that a person said, and what was done about it since. */
export type Conversation = {
  readonly instruction: string
  /** Each image that came with the instruction, in words. */
  readonly images: readonly string[]
  /** All that was said before, piece by piece. */
  readonly earlier: readonly string[]
  readonly outcomes: readonly Outcome[]
  /** The last tool call that was made before the instruction. */
  readonly lastCall: { readonly tool: string; readonly input: unknown } | null
  /** Assistant messages since the instruction. */
  readonly replies: number
  readonly tools: ReadonlySet<string>
  /** Tools that the agent can ask for by ToolSearch, and has not yet. */
  readonly deferred: ReadonlySet<string>
  readonly folder: string | null
  /** Whether plan mode was on when the instruction came. */
  readonly planning: boolean
  readonly planFile: string | null
  readonly thinks: boolean
  /** What the workspace tells its agents (CLAUDE.md, AGENTS.md), if it came along. */
  readonly guidance: string | null
}

export function conversationOf(request: ApiRequest): Conversation {
  let instruction = ''
  /** What the instruction is made of, as it was said. */
  let pieces: string[] = []
  let images: string[] = []
  let earlier: string[] = []
  let outcomes: { id: string; tool: string; input: unknown; text: string; failed: boolean }[] = []
  let lastCall: Conversation['lastCall'] = null
  let replies = 0
  let planMode = false
  let planning = false
  const told: string[] = [textOf(request.system ?? '')]

  for (const message of request.messages) {
    const blocks = blocksOf(message.content)
    if (message.role === 'assistant') {
      replies += 1
      for (const block of blocks) {
        if (block.type === 'tool_use') {
          outcomes.push({ id: String(block.id), tool: String(block.name), input: block.input, text: '', failed: false })
        }
      }
      continue
    }
    const text = textOf(message.content)
    told.push(text)
    planMode = planModeAfter(text, planMode)
    if (replies === 0) planning = planMode
    for (const block of blocks) {
      if (block.type !== 'tool_result') continue
      const outcome = outcomes.find(({ id }) => id === block.tool_use_id)
      const result = textOf((block.content as string | Block[] | undefined) ?? '')
      planMode = planModeAfter(result, planMode)
      told.push(result)
      if (outcome !== undefined) Object.assign(outcome, { text: human(result), failed: block.is_error === true })
    }
    const said = (message.role === 'user' && spoken(text)) || steeringIn(text) || notificationIn(text)
    // An agent puts what nobody has answered into one message, each thing that was said in a block of its own.
    const apart = message.role === 'user' ? blocks.map((block) => spoken(textOf([block]))).filter((part) => part !== '') : []
    const saidApart = apart.length > 0 ? apart : [said]
    const shown = blocks.filter(({ type }) => type === 'image').map(describeImage)
    if (said === '' && shown.length === 0) continue
    // What was said before anybody answered belongs together; anything later is a new instruction.
    if (replies === 0 && instruction !== '') {
      instruction = `${instruction}\n${said}`
      pieces = [...pieces, ...saidApart]
      images = [...images, ...shown]
    } else {
      if (instruction !== '') earlier = [...earlier, ...pieces]
      instruction = said
      pieces = saidApart
      images = shown
    }
    const last = outcomes.at(-1)
    if (last !== undefined) lastCall = { tool: last.tool, input: last.input }
    outcomes = []
    replies = 0
    planning = planMode
  }

  const everything = told.join('\n')
  return {
    instruction,
    images,
    earlier,
    outcomes,
    lastCall,
    replies,
    tools: new Set((request.tools ?? []).map(({ name }) => name)),
    deferred: deferredIn(everything),
    folder: /^[^\S\n]*(?:- )?(?:Primary w|W)orking directory: (.+)$/m.exec(everything)?.[1]?.trim() ?? null,
    planning,
    planFile:
      /(?:create your plan at|plan file(?: already)? exists at|plan file: ?) ?(\/\S+?\.md)/i.exec(everything)?.[1] ?? null,
    thinks: request.thinking !== undefined && request.thinking.type !== 'disabled',
    guidance:
      /Contents of [^\n]{0,200}(?:CLAUDE|AGENTS)\.md[^\n]{0,100}:\n([\s\S]{1,2000}?)(?:\nContents of |<\/system-reminder>|\n\s{0,9}IMPORTANT: this context|$)/
        .exec(everything)?.[1]
        ?.trim() ?? null,
  }
}

const blocksOf = (content: string | readonly Block[]): readonly Block[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

function textOf(content: string | readonly Block[]): string {
  return blocksOf(content)
    .flatMap((block) => (block.type === 'text' && typeof block.text === 'string' ? [block.text] : []))
    .join('\n')
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

function deferredIn(text: string): ReadonlySet<string> {
  const lists = text.matchAll(/deferred tools are now available via ToolSearch[^\n]{0,500}\n((?:[\w-]+\n?)+)/g)
  return new Set([...lists].flatMap(([, names]) => names!.trim().split('\n')))
}

function describeImage(block: Block): string {
  const source = block.source as { media_type?: unknown; data?: unknown } | undefined
  const type = typeof source?.media_type === 'string' ? source.media_type : 'an unknown type'
  const size = typeof source?.data === 'string' ? base64ImageSize(source.data) : null
  return size === null ? type : `${type}, ${size.width}×${size.height}`
}
