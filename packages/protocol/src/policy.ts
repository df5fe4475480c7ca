import { z } from 'zod'
import { Nanos } from './money.ts'

/** From the mildest to the strictest. */
export const Effect = z.enum(['allow', 'ask', 'deny'])
export type Effect = z.infer<typeof Effect>

/** How freely an agent uses its tools: `full` runs what no rule speaks of, `supervised` asks for it, `restricted` asks for every
 *  tool, `read_only` runs none. */
export const Autonomy = z.enum(['full', 'supervised', 'restricted', 'read_only'])
export type Autonomy = z.infer<typeof Autonomy>

/** `*` stands for any run of characters, and a backslash in front of a character for that character itself. */
export const Glob = z.string().min(1).max(500)
const why = z.string().max(1000).optional()
const step_up = z.literal(true).optional().describe('Whoever allows it in the web app shows a passkey or their password first')

/** Hosts of one toolchain, by a name for all of them. */
export const Preset = z.enum(['npm', 'pypi', 'crates', 'go', 'maven', 'debian', 'git'])
export type Preset = z.infer<typeof Preset>

const ToolMatch = z.strictObject({
  tool: Glob.optional().describe('The name of the tool'),
  command: z
    .string()
    .min(1)
    .max(2000)
    .optional()
    .describe('Words of a shell command: `*` within a word, `*` alone for one word, and at the end for all that follow, if any'),
  path: Glob.optional().describe(
    'The file that a tool reads or writes, within the workspace, from the root, or from the home folder (`~/`)',
  ),
  input: z.record(z.string(), Glob).optional().describe('Fields of what the tool is called with'),
})
const NetMatch = z.strictObject({
  host: z.string().min(1).max(253).describe('A host; with a dot in front, it and all below it; `*` for any'),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe('Without one an allowance is for ports 80 and 443, and what is denied or asked for is every port'),
  method: z.union([z.string().max(20), z.array(z.string().max(20)).min(1)]).optional(),
  path: Glob.optional(),
  any_case: z.literal(true).optional().describe('The path is meant in capitals and in small letters'),
})
const HostMatch = z.strictObject({ program: Glob, params: z.record(z.string(), Glob).optional() })
const SpendMatch = z.strictObject({
  provider: Glob.optional(),
  model: Glob.optional(),
  above_nanos: Nanos.optional().describe('Only calls that may cost more than this'),
})

/** What may happen. Of the rules that match, the strictest counts. */
export const Rule = z.discriminatedUnion('on', [
  z.strictObject({ on: z.literal('tool'), match: ToolMatch, effect: Effect, step_up, why }),
  z.strictObject({
    on: z.literal('net'),
    match: NetMatch,
    effect: Effect,
    how: z
      .enum(['tunnel', 'open'])
      .optional()
      .describe('Whether TLS to that host is passed on as it is or opened; opened where a rule names a method or a path'),
    own_network: z
      .literal(true)
      .optional()
      .describe('Of an allowance with one host and port: they may be on this machine or in a private network'),
    only_ours: z
      .literal(true)
      .optional()
      .describe(
        "No credential of the cell's own goes to that host: calls carry those of credentials.yaml, or none; TLS is opened",
      ),
    preset: Preset.optional().describe('What it was written as, where it is one of the rules that a preset stands for'),
    step_up,
    why,
  }),
  z.strictObject({ on: z.literal('host'), match: HostMatch, effect: Effect, step_up, why }),
  z.strictObject({ on: z.literal('spend'), match: SpendMatch, effect: Effect, step_up, why }),
])
export type Rule = z.infer<typeof Rule>

/** When a turn is ended because its agent goes in circles. Null switches one off. */
export const Breakers = z.strictObject({
  repeats: z.int().min(2).max(1000).nullable().describe('The same call with the same result so many times in a row'),
  errors: z.int().min(1).max(1000).nullable().describe('So many failed tool calls in a row'),
  turns: z.int().min(1).max(100_000).nullable().describe('So many rounds of model and tools in one turn'),
})
export type Breakers = z.infer<typeof Breakers>

/** What is in force for one session: the policies of the house, of its actor and its own, taken together. Nothing in it was
 *  written by an agent. */
export const Policy = z.object({
  rules: z.array(Rule).max(20_000),
  autonomy: Autonomy,
  /** What would be asked is done and written down instead. */
  observe: z.boolean(),
  /** A model must pass each of these: matched by one of `allowed` unless that is empty, and by none of `blocked`. */
  models: z.array(z.object({ allowed: z.array(Glob), blocked: z.array(Glob) })),
  /** A tool must be named in each of these lists. */
  tools: z.array(z.array(Glob)),
  max_context_tokens: z.int().min(1).nullable(),
  breakers: Breakers,
  /** A request that waits longer than this ends the turn, and keeper and cell leave. */
  park_after_ms: z.int().min(1),
  /** How long a request can be answered, and how long what was allowed can be used. */
  request_ms: z.int().min(1),
  grant_ms: z.int().min(1),
})
export type Policy = z.infer<typeof Policy>

/** What is wrong with a policy file, and where. With an error it cannot be used; a warning says what is hardly meant. */
export const PolicyProblem = z.object({
  file: z.string(),
  line: z.int().min(1),
  column: z.int().min(1),
  level: z.enum(['error', 'warning']),
  message: z.string(),
})
export type PolicyProblem = z.infer<typeof PolicyProblem>

/** Why a policy file cannot be used, and what is in force in its place: the one before it, or nothing but refusals. */
export const PolicyTrouble = PolicyProblem.extend({ in_force: z.enum(['last good', 'locked']) })
export type PolicyTrouble = z.infer<typeof PolicyTrouble>
