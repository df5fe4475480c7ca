/** A tool call that was made since the instruction, with its result once there is one. */
export type Outcome = {
  readonly tool: string
  readonly input: unknown
  readonly text: string
  readonly failed: boolean
}

/** Where a conversation stands: the last thing that a person said, and what was done about it since. A dialect makes this of a request,
 *  so that what answers knows no dialect. */
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
  /** Whether the agent asks for nothing but a title for the conversation. */
  readonly wantsTitle: boolean
  /** What the workspace tells its agents (CLAUDE.md, AGENTS.md), if it came along. */
  readonly guidance: string | null
}

/** Something that an answer does, in the order of the stream. */
export type Move =
  | { readonly do: 'text'; readonly text: string; readonly paceMs: number }
  | { readonly do: 'thinking'; readonly text: string }
  | { readonly do: 'call'; readonly tool: string; readonly input: unknown }
  | { readonly do: 'wait'; readonly ms: number }
  /** The connection breaks off. */
  | { readonly do: 'cut' }

export type Reply =
  | { readonly kind: 'moves'; readonly moves: readonly Move[] }
  | { readonly kind: 'error'; readonly status: number; readonly message: string }
