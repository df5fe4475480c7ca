import { z } from 'zod'
import { Digest, Pin, actionBounds } from './actions.ts'
import { RequestId } from './ids.ts'
import { Policy, Rule } from './policy.ts'

const Pins = z.array(Pin).max(actionBounds.pins)

/** What was allowed and is not used up, as it is told to whoever checks it. It bears the name of its request. */
export const Grant = z.object({
  request: RequestId,
  digest: Digest,
  pins: Pins,
  /** `once` is used up by the first action that it lets through. */
  scope: z.enum(['once', 'session']),
  /** Of a session's: it covers all that this rule does, and not the one action alone. */
  rule: Rule.nullable(),
  /** Of spending: the sum that whoever allowed it was shown. */
  nanos: z.int().nullable().optional(),
  expires_at: z.int().nullable(),
  /** Who gave it. */
  actor: z.string(),
})
export type Grant = z.infer<typeof Grant>

/** A request that is open: whoever does the same again waits for the same answer. */
export const Asked = z.object({ request: RequestId, digest: Digest, pins: Pins, expires_at: z.int().nullable() })
export type Asked = z.infer<typeof Asked>

/** What decides over a session's actions, for whoever checks them. */
export const Authority = z.object({ policy: Policy, grants: z.array(Grant), asked: z.array(Asked) })
export type Authority = z.infer<typeof Authority>

/** Whether somebody waited for the answer that was told, and has heard it. */
export const Told = z.object({ told: z.boolean() })
export type Told = z.infer<typeof Told>
