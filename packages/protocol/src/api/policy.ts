import { z } from 'zod'
import { ActionText } from '../actions.ts'
import { SessionId } from '../ids.ts'
import { PolicyName } from '../people.ts'
import { Autonomy, Effect, Policy, PolicyProblem, Rule } from '../policy.ts'
import { type Route } from './route.ts'

const textCharsMax = 256 * 1024
const daysMax = 365
const sessionsMax = 200

/** Whose policy an action is held against: a session's, or that of a session that is asked for like this. */
const held = {
  session: SessionId.optional(),
  policy: PolicyName.optional(),
  autonomy: Autonomy.optional(),
}

export const PolicyFileView = z.object({
  file: z.string(),
  name: z.string().nullable(),
  in_force: z.enum(['current', 'last good', 'locked']).describe('As it stands; as it could last be used; nothing but refusals'),
  problems: z.array(PolicyProblem),
})
export type PolicyFileView = z.infer<typeof PolicyFileView>

const Origin = z.object({ file: z.string(), line: z.int() })
export const RuleView = z.object({ rule: Rule, words: z.string(), at: Origin })

export const PolicyView = z.object({
  folder: z.string().describe('Where policy files are'),
  files: z.array(PolicyFileView.extend({ exists: z.boolean().describe('The house needs no file') })),
  policy: Policy.omit({ rules: true }),
  settings: z
    .array(z.object({ key: z.string(), value: z.string() }))
    .describe('All that policies have set beside their rules and the autonomy, each under its key'),
  rules: z.array(RuleView),
})
export type PolicyView = z.infer<typeof PolicyView>
export const ShowPolicy = z.strictObject({ session: SessionId.optional() })

export const CheckPolicy = z.strictObject({
  text: z.string().max(textCharsMax).optional().describe('A file that is not in force (default: those of the config folder)'),
  name: z.string().max(200).optional().describe('What to call it'),
})
export const PolicyCheck = z.object({ ok: z.boolean(), rules: z.int(), problems: z.array(PolicyProblem) })

export const ExplainAction = z.strictObject({
  action: ActionText,
  ...held,
  text: z.string().max(textCharsMax).optional().describe('A policy that is not in force, instead of those that are'),
})
export type ExplainAction = z.infer<typeof ExplainAction>

/** What stands in an action's way beside the rules. */
export const LimitView = z.object({ effect: Effect, by: z.string(), change: z.string() })
export type LimitView = z.infer<typeof LimitView>

export const Explained = z.object({
  effect: Effect.describe('By rules and limits together: the strictest counts'),
  by: z.string(),
  at: Origin.nullable().describe('Where the rule that decided stands'),
  command: z.string().nullable().describe('Of several commands, the one that decided'),
  autonomy: Autonomy,
  parts: z.array(
    z.object({
      command: z.string().nullable(),
      matches: z.array(z.object({ words: z.string(), at: Origin, effect: Effect, maybe: z.boolean(), decides: z.boolean() })),
    }),
  ),
  limits: z.array(LimitView).describe('Models, providers, caps, network mode and addresses that stand in its way'),
  unseen: z.array(z.string()).describe('What was not looked at, because only the run tells'),
  grants: z.array(z.string()).describe('What somebody has allowed that covers it'),
  change: z.array(z.string()).describe('What would lead to another decision'),
  rule: Rule.nullable().describe('The rule that would settle it'),
})
export type Explained = z.infer<typeof Explained>

export const TestPolicy = z.strictObject({
  fixtures: z.string().max(textCharsMax).describe('A YAML list of { action, expect }'),
  text: z.string().max(textCharsMax).optional().describe('A policy that is not in force'),
})
export const TestOutcome = z.object({
  line: z.int(),
  action: z.string(),
  expected: Effect,
  effect: Effect,
  by: z.string(),
  passed: z.boolean(),
})
export type TestOutcome = z.infer<typeof TestOutcome>
export const PolicyTested = z.object({ outcomes: z.array(TestOutcome), failed: z.int() })

export const ProposePolicy = z.strictObject({ sessions: z.array(SessionId).min(1).max(sessionsMax) })
export const PolicyProposed = z.object({
  text: z.string(),
  actions: z.int(),
  skipped: z.int().describe('Calls whose input was too long to be kept whole'),
  complete: z.boolean().describe('Whether all that these sessions did was looked at'),
})

export const BacktestPolicy = z.strictObject({
  text: z.string().max(textCharsMax).optional().describe('A policy file'),
  rule: Rule.optional().describe('Or one rule, beside what is in force'),
  days: z.int().min(1).max(daysMax).optional().describe('How far back (default: 30 days)'),
})
export type BacktestPolicy = z.infer<typeof BacktestPolicy>

const Hit = z.object({ seq: z.int(), at: z.int(), action: z.string(), before: Effect.nullable(), effect: Effect, by: z.string() })
export const PolicyBacktest = z.object({
  since: z.int(),
  actions: z.int().describe('All that were looked at'),
  complete: z.boolean().describe('Whether these are all since then; otherwise they are the newest'),
  denied: z.int(),
  asked: z.int(),
  allowed: z.int(),
  skipped: z.int(),
  sessions: z.array(
    z.object({
      session: SessionId,
      name: z.string(),
      stopped: z.string().nullable().describe('Why it would not have started at all'),
      denied: z.int(),
      asked: z.int(),
      allowed: z.int(),
      examples: z.array(Hit),
    }),
  ),
})
export type PolicyBacktest = z.infer<typeof PolicyBacktest>

export const policyRoutes = {
  showPolicy: {
    summary: 'What is in force for the house, or for one session, and where each rule stands',
    query: ShowPolicy,
    status: 200,
    response: PolicyView,
  },
  reloadPolicy: {
    summary: 'Look at the policy files again, now',
    status: 200,
    response: PolicyCheck,
  },
  checkPolicy: {
    summary: 'What is wrong with a policy file, and where',
    body: CheckPolicy,
    status: 200,
    response: PolicyCheck,
  },
  explainAction: {
    summary: 'How an action would be decided, by which rule, and what would change it',
    body: ExplainAction,
    status: 200,
    response: Explained,
  },
  testPolicy: {
    summary: 'Whether actions are decided as a list expects',
    body: TestPolicy,
    status: 200,
    response: PolicyTested,
  },
  proposePolicy: {
    summary: 'The smallest policy that would have allowed what sessions did',
    body: ProposePolicy,
    status: 200,
    response: PolicyProposed,
  },
  backtestPolicy: {
    summary: 'What a policy, or one more rule, would have done to past sessions',
    body: BacktestPolicy,
    status: 200,
    response: PolicyBacktest,
  },
} as const satisfies Record<string, Route>
