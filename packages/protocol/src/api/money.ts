import { z } from 'zod'
import { NodeName, Span, Tokens } from '../events.ts'
import { SessionId } from '../ids.ts'
import { Micros, Nanos } from '../money.ts'
import { type Route, session } from './route.ts'

export const Usage = z.object({
  total: z.object({ cost_micros: Micros, calls: z.int() }),
  simulated: z.object({ cost_micros: Micros, calls: z.int() }).describe('Play money of the rehearsal provider'),
  days: z.array(z.object({ day: z.string(), simulated: z.boolean(), cost_micros: Micros, calls: z.int() })),
  removed: z
    .array(z.object({ simulated: z.boolean(), cost_micros: Micros, calls: z.int() }))
    .describe('What sessions have cost that were removed since: in every sum, and in no list of sessions'),
  sessions: z.array(z.object({ id: SessionId, name: z.string(), simulated: z.boolean(), cost_micros: Micros, calls: z.int() })),
  models: z.array(z.object({ model: z.string(), simulated: z.boolean(), cost_micros: Micros, calls: z.int() })),
})
export type Usage = z.infer<typeof Usage>

/** One line of what was spent, summed up by session, group, day or model. */
export const Spending = z.object({
  key: z
    .string()
    .describe(
      'The id of the session (empty for those that were removed), the name of the group (empty without one), the day (UTC) or the model',
    ),
  name: z.string().nullable().describe('Of a session'),
  simulated: z.boolean().describe('Play money of the rehearsal provider'),
  calls: z.int(),
  tokens: Tokens,
  cost_micros: Micros,
  cost_nanos: Nanos.describe('The same to the nano-USD'),
})
export type Spending = z.infer<typeof Spending>

const BudgetSpan = z.object({
  spent_micros: Micros,
  cap_micros: Micros.nullable(),
  ends_at: z.int().nullable().describe('When the day (UTC) or the tick is over'),
})

export const BudgetView = z.object({
  node: z.string().describe('owner, policy/NAME or group/NAME'),
  simulated: z.boolean().describe('Play money has sums of its own, under the same caps'),
  life: BudgetSpan,
  day: BudgetSpan,
  tick: BudgetSpan,
})
export type BudgetView = z.infer<typeof BudgetView>

export const SetBudget = z.strictObject({
  node: NodeName.describe('owner or group/NAME'),
  per: Span.describe('Over its whole life, for each day (UTC) or for each tick'),
  budget_micros: Micros.nullable().describe('Null for no limit'),
})
export type SetBudget = z.infer<typeof SetBudget>

/** One turn of a session, and what its model calls came to. */
export const TurnCost = z.object({
  seq: z.int().describe('The event that it began with'),
  at: z.int(),
  title: z.string().nullable().describe('The beginning of its prompt'),
  calls: z.int(),
  input: z.int().describe('Tokens that were read, cached ones too'),
  output: z.int(),
  cost_micros: Micros,
})
export type TurnCost = z.infer<typeof TurnCost>

export const moneyRoutes = {
  turnCosts: {
    summary: 'What each turn of a session has cost: the last two hundred, the oldest first',
    ...session,
    status: 200,
    response: z.object({ turns: z.array(TurnCost) }),
  },
  usage: {
    summary: 'What was spent, by day, session and model',
    query: z.strictObject({ session: SessionId.optional() }),
    status: 200,
    response: Usage,
  },
  spending: {
    summary: 'What was spent, summed up by session, group, day or model; as CSV when the client accepts text/csv',
    query: z.strictObject({
      by: z.enum(['session', 'group', 'day', 'model']),
      since: z.iso.date().optional().describe('The first day, UTC'),
      session: SessionId.optional(),
    }),
    status: 200,
    response: z.object({ spending: z.array(Spending) }),
  },
  listBudgets: {
    summary: 'What the whole house and each group may spend, and have spent',
    status: 200,
    response: z.object({ budgets: z.array(BudgetView) }),
  },
  setBudget: {
    summary: 'Set what the whole house or a group may spend; calls that wait for it go on',
    body: SetBudget,
    status: 200,
    response: z.object({ budgets: z.array(BudgetView) }),
  },
} as const satisfies Record<string, Route>
