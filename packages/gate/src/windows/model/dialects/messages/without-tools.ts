import type { DeniedTools } from '@anchorhold/core/policy/denied-tools'

type Json = { readonly [name: string]: unknown }

/** Tools that models know by a type of their own, and what they are to the agent's program. */
const ownNames: Readonly<Record<string, readonly string[]>> = { bash: ['Bash'], text_editor: ['Edit', 'Write', 'Read'] }

/** Content deeper than this is refused by the screen that comes after. */
const depthMax = 8
/** A message must say something. */
const takenOut = { type: 'text', text: '(Anchorhold took a tool out that its policy denies)' }

/** A request without the tools that are denied: what would offer one is taken out, and what has used one is a reason to refuse
 *  the whole. `refusal` says which.
 *  Does not stop: a tool that code in the cell offers under another name. A policy that lists what is allowed does. */
export function withoutTools(body: Json, denied: DeniedTools): { readonly body: Json; readonly refusal: string | null } {
  const why = (name: unknown) => (typeof name === 'string' ? denied(name) : null)
  const whyTool = (tool: unknown): string | null => {
    if (!isObject(tool)) return null
    const own = typeof tool.type === 'string' ? ownNames[tool.type.replace(/_\d{8}$/, '')] : undefined
    return [tool.name, tool.tool_name, ...(own ?? [])].map(why).find((one) => one !== null) ?? null
  }
  const choice = isObject(body.tool_choice) ? body.tool_choice : null
  const chosen = choice?.type === 'tool' ? why(choice.name) : null
  if (chosen !== null) return { body, refusal: sentence(choice?.name, chosen, 'insists on') }

  /** Calls that the request shows, so that a result can be told by its call. */
  const calls = new Set<unknown>()
  let refusal: string | null = null
  function clean(content: unknown, depth: number): unknown {
    if (!Array.isArray(content) || depth > depthMax) return content
    const kept = content.flatMap((block: unknown) => {
      if (!isObject(block)) return [block]
      if (block.type === 'tool_use') {
        const against = why(block.name)
        if (against !== null) refusal ??= sentence(block.name, against, 'has used')
        calls.add(block.id)
        return [block]
      }
      if (block.type === 'tool_result' && !calls.has(block.tool_use_id))
        refusal ??= 'The request has the result of a tool call that it does not show: the policy cannot be held to it'
      if (block.type === 'tool_reference' && whyTool(block) !== null) return []
      if (block.type === 'tool_addition' && whyTool(block.tool) !== null) return []
      return [block.content === undefined ? block : { ...block, content: clean(block.content, depth + 1) }]
    })
    return kept.length === 0 && content.length > 0 ? [takenOut] : kept
  }
  const messages = Array.isArray(body.messages)
    ? body.messages.map((message: unknown) =>
        isObject(message) && Array.isArray(message.content) ? { ...message, content: clean(message.content, 0) } : message,
      )
    : body.messages
  if (refusal !== null) return { body, refusal }
  const tools = Array.isArray(body.tools) ? body.tools.filter((tool) => whyTool(tool) === null) : body.tools
  const { tools: _tools, tool_choice, ...rest } = body
  // Without a tool there is nothing to choose from.
  const offered = Array.isArray(tools) && tools.length === 0 ? {} : { tools, tool_choice }
  return { body: { ...rest, ...defined(offered), messages }, refusal: null }
}

const sentence = (name: unknown, why: string, what: string) =>
  `The policy denies the tool "${String(name)
    .replaceAll(/[^\w.:-]/g, '?')
    .slice(0, 80)}" (${why}), and this conversation ${what} it: start another session, or let the owner change the policy`

const defined = (fields: Json): Json => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
