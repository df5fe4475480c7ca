import { z } from 'zod'
import { PromptId, SessionId } from './ids.ts'
import { SecretName } from './credentials.ts'
import { Micros } from './money.ts'
import { Autonomy } from './policy.ts'
import { LimitInForce, Rung } from './rungs.ts'

export const sessionStates = [
  'creating',
  'ready',
  'working',
  'waiting',
  'paused',
  'stopped',
  'interrupted',
  'failed',
  'archived',
] as const
export const SessionState = z.enum(sessionStates)
export type SessionState = z.infer<typeof SessionState>

export const TurnCause = z.enum(['prompt', 'task', 'schedule', 'resume'])
export type TurnCause = z.infer<typeof TurnCause>

/** What becomes of a turn that a crash cut short. */
export const OnCrash = z.enum(['wait', 'resume'])
export type OnCrash = z.infer<typeof OnCrash>

/** What becomes of a model call that the budget does not hold. */
export const Spend = z.enum(['stop', 'ask'])
export type Spend = z.infer<typeof Spend>

export const TurnEnd = z.enum(['done', 'interrupted', 'waiting', 'budget', 'breaker', 'error', 'crashed'])
export type TurnEnd = z.infer<typeof TurnEnd>

/** What a session's cell reaches beside its model: nothing; what rules let through its net window; or, where there is no wall,
 *  all that its machine reaches. */
export const Network = z.enum(['none', 'proxy_only', 'host'])
export type Network = z.infer<typeof Network>

const Patterns = z.array(z.string().min(1).max(500)).max(1000)
/** Which files of a workspace a cell does not see. `standard` hides what secrets are usually called, `strict` what they might
 *  be called; a list of one's own hides what it says. */
export const RepoFilter = z.union([
  z.enum(['none', 'standard', 'strict']),
  z.strictObject({ denylist: Patterns, allowlist: Patterns.default([]) }),
])
export type RepoFilter = z.infer<typeof RepoFilter>

/** How a cell may reach a host folder that it is given as workspace, when the daemon runs as root. */
export const WorkspaceAccess = z
  .enum(['owner', 'copy', 'snapshot', 'chown', 'acl'])
  .describe(
    'How a host folder is entered: as its owner; as a copy; as a copy without the history of its repository; after giving it to the session; or by an access list entry that is undone when the session is archived',
  )
export type WorkspaceAccess = z.infer<typeof WorkspaceAccess>

export const limits = {
  nameLength: 200,
  promptLength: 1_000_000,
  systemPromptLength: 200_000,
  imageBytes: 5 * 1024 * 1024,
  imagesPerPrompt: 20,
  /** All of a prompt's together: it goes to its keeper as one frame (`frameBytesMax` in link.ts). */
  imagesBytes: 32 * 1024 * 1024,
  toolsPerSession: 200,
  idempotencyKeyLength: 200,
  timeoutMsMax: 24 * 60 * 60 * 1000,
} as const

/** It becomes an argument of the agent's program, so it must not look like an option. */
export const ModelName = z.string().regex(/^\w[\w.:@/[\]-]{0,199}$/, 'this must be the id of a model, as claude-sonnet-5')
/** A root file system for cells, by the name it was built or added under. */
export const ImageName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,39}$/, 'this must be the name of an image: small letters, digits and dashes, a letter first')

/** What a container can have beyond what every cell has. Each makes the wall lower: none is on unless it is asked for by name. */
export const Extras = z
  .strictObject({
    gpu: z.boolean().default(false).describe('Every GPU of the machine, by CDI'),
    sudo: z.boolean().default(false).describe('Root inside, which is nobody outside'),
    nested: z.boolean().default(false).describe('Containers from an engine inside'),
  })
  .describe('What a container can have beyond what every cell has')
export type Extras = z.infer<typeof Extras>
export const noExtras: Extras = { gpu: false, sudo: false, nested: false }

const base64Chars = (bytes: number) => Math.ceil((bytes * 4) / 3) + 4

export const Image = z.strictObject({
  media_type: z.enum(['image/png', 'image/jpeg', 'image/gif', 'image/webp']),
  data: z.base64().max(base64Chars(limits.imageBytes)),
})
export type Image = z.infer<typeof Image>

/** `steer` reaches a running turn at its next step; `queue` waits for its end. */
export const PromptMode = z.enum(['steer', 'queue'])
export type PromptMode = z.infer<typeof PromptMode>

export const NewPrompt = z.strictObject({
  text: z.string().min(1).max(limits.promptLength),
  images: z
    .array(Image)
    .max(limits.imagesPerPrompt)
    .refine((images) => images.reduce((chars, { data }) => chars + data.length, 0) <= base64Chars(limits.imagesBytes), {
      message: `the images of a prompt may have ${limits.imagesBytes / 1024 ** 2} MiB together`,
    })
    .optional(),
  mode: PromptMode.optional(),
  idempotency_key: z.string().min(1).max(limits.idempotencyKeyLength).optional(),
})
export type NewPrompt = z.infer<typeof NewPrompt>

/** Tokens of a conversation, and how many its model takes. */
export const ContextUse = z.object({ used_tokens: z.int().min(0), window_tokens: z.int().min(1) })
export type ContextUse = z.infer<typeof ContextUse>

/** A session as every door shows it: what its events add up to. */
export const Session = z.object({
  id: SessionId,
  owner: z.string().describe('Whose it is: who created it'),
  name: z.string(),
  state: SessionState,
  /** Why it is in that state, when there is something to say. */
  why: z.string().nullable(),
  rung: Rung,
  provider: z.string(),
  model: z.string(),
  simulated: z.boolean(),
  workspace: z.string(),
  branch: z
    .string()
    .nullable()
    .describe("The branch that its repository had checked out when the last turn ended, in the cell's words"),
  context: ContextUse.nullable().describe('How much of its context the last turn left in use'),
  created_at: z.int(),
  active_at: z.int(),
  archived_at: z.int().nullable(),
  last_seq: z.int(),
  turns: z.int(),
  cost_micros: Micros,
  budget_micros: Micros.nullable(),
  limits: z.array(LimitInForce),
  open_requests: z.int(),
  queued_prompts: z.int(),
  forked_from: SessionId.nullable(),
  on_crash: OnCrash,
  spend: Spend,
  network: Network,
  autonomy: Autonomy.nullable().describe('As it was chosen for the session; null where the policy says it'),
  policy: z.string().nullable(),
  observe: z.boolean(),
  group: z.string().nullable(),
  secrets_inside: z.array(SecretName).describe('Secrets that its cell holds, by name: code in it can read them'),
})
export type Session = z.infer<typeof Session>

export const PromptReceipt = z.object({ id: PromptId, session: SessionId, queued_at: z.int() })
export type PromptReceipt = z.infer<typeof PromptReceipt>
