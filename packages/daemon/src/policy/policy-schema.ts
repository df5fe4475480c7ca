import { formatUsd, parseUsd } from '@anchorhold/protocol/money'
import { Autonomy, Breakers, Glob, Preset, Rule } from '@anchorhold/protocol/policy'
import { Rung } from '@anchorhold/protocol/rungs'
import { Network } from '@anchorhold/protocol/sessions'
import { z } from 'zod'
import { IsolationMode, SeedRepoFilter } from './seed-names.ts'

/** A bare number beyond this is taken for a mistake in the unit. */
const bareMicrosMax = 10_000_000_000
const nanosPerMicro = 1000

/** A sum of money as nano-USD: a whole number of micro-USD, or dollars as `"$5"`. Where the unit could be mistaken, both readings are
 *  shown and neither is taken. */
const Money = z.union([z.number(), z.string()]).transform((value, context) => {
  const refuse = (message: string) => {
    context.addIssue({ code: 'custom', message })
    return z.NEVER
  }
  if (typeof value === 'string') {
    const nanos = value.trim().startsWith('$') ? parseUsd(value) : null
    return nanos ?? refuse(`"${value}" is no sum of money: write dollars as "$5" or "$0.25", or whole micro-USD as a number`)
  }
  const readings = `as micro-USD it is ${precisely(value / 1_000_000)}, as dollars ${precisely(value)}`
  const remedy = `write "$${value > 0 && value < 1_000_000 ? value : 5}" for dollars, or whole micro-USD`
  if (!Number.isInteger(value)) return refuse(`${value} is a fraction, and its unit is not clear: ${readings}; ${remedy}`)
  if (value < 0) return refuse(`${value} is below nothing`)
  if (value > bareMicrosMax)
    return refuse(
      `${value} is more than ${formatUsd(bareMicrosMax)}, and its unit is not clear: ${readings}; write it as "$…" if it is meant`,
    )
  return value * nanosPerMicro
})

const precisely = (usd: number): string =>
  `$${usd.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 12 })}`

const Globs = z.array(Glob).max(1000)
/** A host name, or one with a star or a dot in front for all that lies below. */
const HostName = z
  .string()
  .min(1)
  .max(253)
  .regex(/^(\*|(\*?\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?|\[?[0-9a-fA-F:]+\]?)$/, {
    error: 'not a host: write its name without scheme, port or path; letters beyond ASCII as xn--…',
  })

const [onTool, onNet, onHost, onSpend] = Rule.options
const FileRule = z.discriminatedUnion('on', [
  onTool,
  onNet
    .extend({
      match: onNet.shape.match.extend({ host: HostName.describe(onNet.shape.match.shape.host.description ?? '') }).optional(),
      preset: Preset.optional(),
    })
    .refine(({ match, preset }) => (match === undefined) !== (preset === undefined), 'name a match or a preset, one of them')
    .refine(({ preset, own_network }) => preset === undefined || own_network === undefined, {
      path: ['own_network'],
      error: 'a preset is of hosts that everybody reaches',
    })
    .refine(({ how, only_ours }) => how !== 'tunnel' || only_ours === undefined, {
      path: ['only_ours'],
      error: 'what is passed on unread cannot be held to it: leave how: tunnel out',
    })
    .transform(({ match, preset, ...rest }) => (preset === undefined ? { ...rest, match: match! } : { ...rest, preset })),
  onHost,
  onSpend.extend({
    match: onSpend.shape.match
      .omit({ above_nanos: true })
      .extend({ above: Money.optional().describe('Only calls that may cost more than this') })
      .transform(({ above, ...rest }) => ({ ...rest, ...(above === undefined ? {} : { above_nanos: above }) })),
  }),
])

const Budget = z
  .strictObject({
    per_tick_usd: Money.optional().describe('What may be spent in one tick'),
    per_tick_micros: Money.optional().describe('The same, under another name'),
    per_day_usd: Money.optional().describe('What may be spent in one day'),
    per_day_micros: Money.optional().describe('The same, under another name'),
    approval_threshold_usd: Money.optional().describe(
      'A session that has spent this much asks before it spends on, each time for as much again',
    ),
    approval_threshold_micros: Money.optional().describe('The same, under another name'),
    approvers: z
      .array(z.string().min(1).max(200))
      .max(100)
      .optional()
      .describe('Who may approve it beside owners, by name; otherwise all who may answer'),
  })
  .describe('What may be spent')

/** What a policy file may say: every field of the `/claude` mount's policy, and ours. All of it may be left out. */
const file = z.strictObject({
  rules: z
    .array(FileRule)
    .max(20_000)
    .optional()
    .describe(
      '`{ on: tool|net|host|spend, match, effect: allow|ask|deny, step_up, why }`, on net also `how: tunnel|open`, `own_network: true`, `only_ours: true`, and `preset` in place of `match`: of those that match, the strictest counts',
    ),
  default_autonomy: Autonomy.optional().describe(
    'Of sessions that name none: full runs anything no rule covers, supervised asks about it, restricted asks for every tool, read_only runs none',
  ),
  allowed_tools: Globs.optional().describe('Unless empty: these are allowed, and all others denied'),
  blocked_tools: Globs.optional().describe('Denied, whatever else allows them'),
  approval_required_tools: Globs.optional().describe('Asked for each time'),
  allowed_providers: z.array(z.string().min(1).max(100)).max(100).optional().describe('Unless empty: no others'),
  allowed_models: Globs.optional().describe('Unless empty: no others'),
  blocked_models: Globs.optional().describe('Not these, whatever else allows them'),
  allowed_tunnels: z
    .array(z.string())
    .max(0, 'There are no tunnels here: leave it empty')
    .optional()
    .describe('Accepted where it is empty: there are no tunnels'),
  proxy_allowlist: z
    .array(z.union([HostName, z.templateLiteral(['preset:', Preset])]))
    .max(10_000)
    .optional()
    .describe('Hosts that are allowed over the network; `preset:npm` for those of a preset'),
  max_cost_usd_per_tick: Money.optional().describe('What may be spent in one tick'),
  max_cost_micros_per_tick: Money.optional().describe('The same, under another name'),
  max_cost_usd_per_day: Money.optional().describe('What may be spent in one day'),
  max_cost_micros_per_day: Money.optional().describe('The same, under another name'),
  default_max_cost_usd: Money.optional().describe('The budget of sessions that name none'),
  default_max_cost_micros: Money.optional().describe('The same, under another name'),
  require_max_cost: z.boolean().optional().describe('Sessions that name no budget are refused'),
  budget: Budget.optional(),
  tick_seconds: z.int().min(1).max(31_536_000).optional().describe('How long a tick is (default: an hour)'),
  max_concurrent: z
    .int()
    .min(0)
    .max(10_000)
    .optional()
    .describe('Sessions of one user that are not ended (default: 3 for agents, any number for people)'),
  rates: z
    .strictObject({
      requests_per_minute: z.int().min(1).max(1_000_000).optional().describe('Model calls of one user, in all their sessions'),
      tokens_per_minute: z.int().min(1).max(1_000_000_000).optional().describe('Tokens of one user, in all their sessions'),
    })
    .optional()
    .describe('How fast'),
  max_context_tokens: z.int().min(1).max(100_000_000).optional().describe('Model calls with more are refused'),
  require_idempotency: z.boolean().optional().describe('Sessions and prompts without an idempotency key are refused'),
  isolation_mode: IsolationMode.optional().describe(
    'The weakest cell, in the words of earlier policy files: local, container, gvisor, firecracker',
  ),
  rung: Rung.optional().describe('The weakest cell'),
  network_mode: Network.optional().describe(
    'The most that a cell may reach beside its model: none, proxy_only, or host for those that are asked for with the network of this machine by name',
  ),
  repo_filter: SeedRepoFilter.optional().describe(
    'The weakest filter of a host folder: none, standard, strict, or { denylist, allowlist }',
  ),
  breakers: Breakers.partial()
    .optional()
    .describe(
      'When a turn is ended because its agent goes in circles (default: 5 repeats, 10 errors, any number of turns); null switches one off',
    ),
  park_after_seconds: z
    .int()
    .min(1)
    .max(604_800)
    .optional()
    .describe('A request that waits longer ends the turn, and keeper and cell leave (default: 15 minutes)'),
  request_hours: z.number().positive().max(8760).optional().describe('How long a request can be answered (default: a week)'),
  grant_hours: z.number().positive().max(8760).optional().describe('How long what was allowed can be used (default: a day)'),
})

export const policySchemas = {
  file,
  /** The seed's own nesting, where policy and budget lie below a mount. */
  mounts: z.strictObject({
    mounts: z.strictObject({
      '/claude': z.strictObject({
        type: z.literal('claude').optional(),
        access: z
          .enum(['budgeted', 'read_only', 'read_write', 'full', 'disabled'], {
            error: 'write budgeted, read_only, read_write, full or disabled',
          })
          .optional(),
        budget: Budget.optional(),
        policy: file.omit({ budget: true, rules: true }).optional(),
      }),
    }),
  }),
}
export type PolicyFile = z.output<(typeof policySchemas)['file']>
export type SeedMounts = z.output<(typeof policySchemas)['mounts']>
