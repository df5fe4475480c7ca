import { z } from 'zod'
import { Digest } from './actions.ts'
import { NodeName, Span } from './events.ts'
import { SessionId, TokenId } from './ids.ts'
import { Nanos } from './money.ts'
import { Role } from './people.ts'

const by = { actor: z.string(), door: z.string() }

/** How somebody came in and where from; older events do not say. */
const from = {
  how: z.enum(['link', 'password', 'code', 'passkey']).optional(),
  address: z.string().nullable().optional(),
  agent: z.string().optional().describe('The browser, in its own words'),
}
export const AccountChange = z.enum([
  'password set',
  'password removed',
  'passkey added',
  'passkey removed',
  'second factor on',
  'second factor off',
  'recovery code used',
])
export type AccountChange = z.infer<typeof AccountChange>

/** What happens in the house and is no session's, by type. */
export const houseBodies = {
  'user.added': z.object({ user: z.string(), role: Role, policy: z.string().nullable(), ...by }),
  'user.changed': z.object({ user: z.string(), role: Role, policy: z.string().nullable(), ...by }),
  'user.removed': z.object({ user: z.string(), ...by }),
  'token.made': z.object({
    user: z.string(),
    token: TokenId,
    name: z.string(),
    kind: z.enum(['token', 'login link']),
    expires_at: z.int().nullable(),
    ...by,
  }),
  'token.revoked': z.object({ user: z.string(), token: TokenId, name: z.string(), ...by }),
  login: z.object({ user: z.string(), token: TokenId, name: z.string(), ...from, ...by }),
  'login.failed': z.object({ user: z.string().nullable().describe('Who it was said to be'), why: z.string(), ...from, ...by }),
  /** A device showed again who sits at it. */
  'login.proved': z.object({ user: z.string(), token: TokenId, ...from, ...by }),
  'account.changed': z.object({ user: z.string(), what: AccountChange, ...by }),
  'policy.changed': z.object({ policy: z.string(), sha256: Digest.nullable().describe('Null when it is gone'), ...by }),
  'provider.changed': z.object({ provider: z.string(), what: z.enum(['put', 'used', 'removed']), ...by }),
  /** Its credential was used for a call that is no session's. */
  'provider.tested': z.object({ provider: z.string(), verdict: z.string(), ...by }),
  /** No event ever holds a secret. */
  'secret.changed': z.object({
    secret: z.string(),
    what: z.enum(['put', 'removed']),
    /** Cells may be given it. */
    inside: z.literal(true).optional(),
    ...by,
  }),
  'secret.key_rotated': z.object({ resealed: z.int(), ...by }),
  'budget.set': z.object({ node: NodeName, span: Span, cap_nanos: Nanos.nullable(), ...by }),
  panic: z.object({ sessions: z.int(), ...by }),
  'panic.lifted': z.object({ ...by }),
  shutdown: z.object({ all: z.boolean(), ...by }),
  /** Its log is gone: this is where it ended. */
  'session.purged': z.object({ session: SessionId, name: z.string(), seq: z.int(), hash: Digest.nullable(), ...by }),
  /** Everything was exported: so many logs, and a digest over their signed heads. */
  exported: z.object({ logs: z.int(), digest: Digest, ...by }),
}

export type HouseEventType = keyof typeof houseBodies
export type NewHouseEvent = {
  [T in HouseEventType]: { readonly type: T; readonly body: z.infer<(typeof houseBodies)[T]> }
}[HouseEventType]

/** An event of the house's own log, which counts by itself. */
export type HouseEvent = NewHouseEvent & { readonly seq: number; readonly at: number }
export const HouseEvent = /* @__PURE__ */ anyHouseEvent() as unknown as z.ZodType<HouseEvent>
function anyHouseEvent() {
  const [first, ...rest] = Object.entries(houseBodies).map(([type, body]) =>
    z.object({ seq: z.int(), at: z.int(), type: z.literal(type), body: body as z.ZodType }),
  )
  return z.discriminatedUnion('type', [first!, ...rest])
}
