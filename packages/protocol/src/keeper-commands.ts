import { z } from 'zod'
import { Grant } from './authority.ts'
import { RequestAnswer } from './events.ts'
import { PromptId, RequestId } from './ids.ts'
import { Policy } from './policy.ts'
import { LimitInForce } from './rungs.ts'
import { Image, PromptMode, TurnCause } from './sessions.ts'
import { ShellId, TerminalSize } from './terminal.ts'
import { WorkspaceAsk } from './workspace.ts'

export const KeeperCommand = z.discriminatedUnion('do', [
  z.object({ do: z.literal('ping') }),
  z.object({
    do: z.literal('prompt'),
    id: PromptId,
    text: z.string(),
    images: z.array(Image),
    mode: PromptMode,
    cause: TurnCause,
  }),
  z.object({ do: z.literal('interrupt') }),
  /** Somebody takes these back. Those that the agent has not been given are journalled as dropped, also where the keeper had not heard of
   *  them: one that comes in later is not handed on. Who asked and why stands in the event. */
  z.object({
    do: z.literal('drop'),
    prompts: z.array(PromptId).max(1000),
    why: z.string(),
    actor: z.string(),
    door: z.string(),
  }),
  z.object({ do: z.literal('pause') }),
  z.object({ do: z.literal('resume') }),
  /** A request was answered, in the log already. The result is a `Told`; to be told twice does no harm. */
  z.object({
    do: z.literal('answer'),
    request: RequestId,
    answer: RequestAnswer,
    actor: z.string(),
    grant: Grant.nullable(),
  }),
  /** What decides is another policy from here on. */
  z.object({ do: z.literal('policy'), policy: Policy }),
  /** Nobody answers for now: end the turn as `waiting`, and leave. What was asked stays open. */
  z.object({ do: z.literal('park'), why: z.string() }),
  z.object({ do: z.literal('model'), model: z.string() }),
  /** Looks at the workspace from inside the cell. */
  z.object({ do: z.literal('workspace'), asked: WorkspaceAsk }),
  /** Which commands the agent knows. */
  z.object({ do: z.literal('commands') }),
  /** A shell of a person's in the cell, on a terminal of its own. What it shows is read after a number of bytes, for as long as
   *  there is none: nothing is pushed, so whoever is slow is waited for. */
  z.object({ do: z.literal('shell.open'), ...TerminalSize.shape, actor: z.string(), door: z.string() }),
  z.object({ do: z.literal('shell.write'), shell: ShellId, base64: z.string() }),
  /** With whoever comes back to it: they find only what they opened themselves. */
  z.object({ do: z.literal('shell.size'), shell: ShellId, ...TerminalSize.shape, actor: z.string().optional() }),
  z.object({ do: z.literal('shell.read'), shell: ShellId, after: z.int().min(0) }),
  z.object({ do: z.literal('shell.close'), shell: ShellId, why: z.string() }),
  /** End the turn, the agent and the cell, journal why, and leave. */
  z.object({
    do: z.literal('leave'),
    why: z.string(),
    /** Prompts that the agent has and has not read go to the next one. A person who stops the session has ended them too. */
    unread: z.literal('kept').optional(),
  }),
])
export type KeeperCommand = z.infer<typeof KeeperCommand>

/** The result of a keeper's ping. */
export const KeeperHealth = z.object({
  state: z.enum(['idle', 'working', 'waiting', 'paused', 'leaving']),
  limits: z.array(LimitInForce),
  idle_ms: z.int(),
})
