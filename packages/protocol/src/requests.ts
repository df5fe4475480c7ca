import { z } from 'zod'
import { Digest } from './actions.ts'
import { SecretName } from './credentials.ts'
import { RequestAction, RequestAnswer } from './events.ts'
import { RequestId, SessionId } from './ids.ts'
import { Rule } from './policy.ts'

/** Something that wants to happen, and what was answered. */
export const Request = z.object({
  id: RequestId,
  session: SessionId,
  session_name: z.string(),
  secrets_inside: z.array(SecretName).describe('Secrets that the cell of its session holds, by name'),
  action: RequestAction,
  digest: Digest.nullable().describe('Of what the action means: what an allowance is bound to'),
  why: z.string().nullable().describe('Why it is asked'),
  rule: Rule.nullable().describe('The rule that would settle it from now on'),
  rule_refused: z.string().nullable().describe('Why there is no such rule'),
  opened_at: z.int(),
  expires_at: z.int().nullable().describe('Nobody can answer it after this'),
  deferred: z.boolean().describe('Somebody has said "not now"'),
  answer: RequestAnswer.nullable(),
  answered_at: z.int().nullable(),
  answered_by: z.string().nullable(),
  answered_from: z.string().nullable().describe('The door that the answer came by'),
})
export type Request = z.infer<typeof Request>
