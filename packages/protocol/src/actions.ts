import { z } from 'zod'
import { Nanos } from './money.ts'

/** Bounds of what may be asked for: what cannot be shown whole to a person is refused, not asked. */
export const actionBounds = { inputChars: 256 * 1024, params: 100, paramChars: 16 * 1024, pins: 50 } as const

/** A call of one of the agent's own tools, as the agent made it. */
export const ToolAction = z.object({
  kind: z.literal('tool'),
  tool: z.string().min(1).max(200),
  input: z.record(z.string(), z.unknown()),
})
export type ToolAction = z.infer<typeof ToolAction>

/** A call over the network. Method and path are null where the connection is not opened to look at them. */
export const NetAction = z.object({
  kind: z.literal('net'),
  host: z.string().min(1).max(253),
  port: z.int().min(1).max(65_535),
  method: z.string().max(20).nullable(),
  path: z.string().max(8192).nullable(),
})
export type NetAction = z.infer<typeof NetAction>

/** A command of the host that its owner declared. */
export const HostAction = z.object({
  kind: z.literal('host'),
  program: z.string().min(1).max(200),
  params: z.record(z.string().max(200), z.union([z.string().max(actionBounds.paramChars), z.number(), z.boolean()])),
})
export type HostAction = z.infer<typeof HostAction>

/** A model call, by what it may cost. */
export const SpendAction = z.object({
  kind: z.literal('spend'),
  provider: z.string().max(40).optional(),
  model: z.string(),
  needed_nanos: Nanos,
  /** What is left, and of how much: of the session's budget, or of what is above it and holds less. Null where nothing limits it. */
  left_nanos: Nanos.nullable(),
  budget_nanos: Nanos.nullable(),
  /** It is asked for because the money does not hold it; without this, because a rule says so. */
  short: z.literal(true).optional(),
})
export type SpendAction = z.infer<typeof SpendAction>

/** Something that wants to happen and that a rule, a grant or a person decides upon. */
export const Action = z.discriminatedUnion('kind', [ToolAction, NetAction, HostAction, SpendAction])
export type Action = z.infer<typeof Action>

/** SHA-256 over an action's meaning, in hex. What only describes it (a tool call's own description) is not part of it. */
export const Digest = z.string().regex(/^[0-9a-f]{64}$/)
export type Digest = z.infer<typeof Digest>

/** A file that the action would execute, as it was when somebody was asked. */
export const Pin = z.object({ path: z.string().max(4096), sha256: Digest })
export type Pin = z.infer<typeof Pin>

/** An action in the few words that people describe it by. */
export const ActionText = z.union([
  z.strictObject({
    tool: z.string().min(1).max(200),
    command: z.string().max(actionBounds.inputChars).optional().describe('For a shell'),
    path: z.string().max(4096).optional().describe('For a tool that is about a file'),
    input: z.record(z.string(), z.unknown()).optional().describe('Anything else that it is called with'),
  }),
  z.strictObject({ net: z.string().min(1).max(9000).describe('GET https://host/path, or host:port') }),
  z.strictObject({
    host: z.string().min(1).max(200).describe('A program of the host'),
    params: z.record(z.string().max(200), z.union([z.string().max(actionBounds.paramChars), z.number(), z.boolean()])).optional(),
  }),
  z.strictObject({
    spend: z.string().min(1).max(200).describe('A model'),
    provider: z.string().max(40).optional(),
    usd: z
      .union([z.string().max(20), z.number()])
      .optional()
      .describe('What the call may cost'),
  }),
])
export type ActionText = z.infer<typeof ActionText>
