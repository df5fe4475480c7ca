import { z } from 'zod'
import { GrantScope, RequestAnswer } from '../events.ts'
import { RequestId, SessionId } from '../ids.ts'
import { Rule } from '../policy.ts'
import { Request } from '../requests.ts'
import { PolicyBacktest } from './policy.ts'
import { type Route } from './route.ts'

export const AnswerRequest = z.discriminatedUnion('decision', [
  z.strictObject({
    decision: z.literal('allow'),
    scope: GrantScope.optional().describe(
      'How far it reaches: this action once, this session, or a rule for all (default: once)',
    ),
    answers: RequestAnswer.shape.answers.describe("To a question: each question's answer, by its text"),
  }),
  z.strictObject({ decision: z.literal('deny'), reason: RequestAnswer.shape.reason.describe('The agent reads it') }),
  z.strictObject({ decision: z.literal('later') }).describe('Not now: it stays open, and the session waits without a cell'),
])
export type AnswerRequest = z.infer<typeof AnswerRequest>

/** What whoever is about to make a rule should know of it. */
export const RuleLook = z.object({
  rule: Rule.nullable(),
  words: z.string().nullable().describe('The same in words'),
  refused: z.string().nullable().describe('Why there is no such rule'),
  past: PolicyBacktest.nullable().describe('What it would have done to the last 30 days; at most the newest 20,000 actions'),
})
export type RuleLook = z.infer<typeof RuleLook>

export const requestsRoutes = {
  listRequests: {
    summary: 'What waits for an answer',
    query: z.strictObject({ all: z.enum(['true', 'false']).optional(), session: SessionId.optional() }),
    status: 200,
    response: z.object({ requests: z.array(Request) }),
  },
  getRequest: {
    summary: 'One request',
    params: z.strictObject({ id: RequestId }),
    status: 200,
    response: Request,
  },
  requestRule: {
    summary: 'The rule that would settle a request, and what it would have done to the last 30 days',
    params: z.strictObject({ id: RequestId }),
    status: 200,
    response: RuleLook,
  },
  answerRequest: {
    summary: 'Answer a request; exactly one answer wins',
    params: z.strictObject({ id: RequestId }),
    body: AnswerRequest,
    status: 200,
    response: Request,
  },
} as const satisfies Record<string, Route>
