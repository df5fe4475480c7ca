import { z } from 'zod'
import { Digest } from './actions.ts'
import { SessionId } from './ids.ts'

/** A log that has a chain of its own: a session's, or that of the house. */
export const LogName = z.union([SessionId, z.literal('house')])
export type LogName = z.infer<typeof LogName>

/** Where a log stood. The gate signs this and nothing of another shape. */
export const Head = z.strictObject({
  session: LogName,
  seq: z.int().min(0),
  /** Of the last event, and so of all before it. */
  hash: Digest,
  at: z.int().min(0),
})
export type Head = z.infer<typeof Head>

/** The gate's public key, and its fingerprint: SHA-256 over the key. */
export const SigningKey = z.object({ key: Digest, fingerprint: Digest })
export type SigningKey = z.infer<typeof SigningKey>

export const SignedHead = SigningKey.extend({ signature: z.string().regex(/^[0-9a-f]{128}$/) })
export type SignedHead = z.infer<typeof SignedHead>
