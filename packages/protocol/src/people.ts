import { z } from 'zod'
import { UserId } from './ids.ts'

/** What somebody is in the house. An agent is a program: it works its own sessions under its policy, and widens nothing. */
export const Role = z.enum(['owner', 'member', 'viewer', 'agent'])
export type Role = z.infer<typeof Role>

/** A name stands in every log that its bearer leaves traces in, so it has no character that could be taken for another. */
export const UserName = z
  .string()
  .regex(/^[a-z][a-z0-9._-]{0,39}$/, 'this must be a name of small letters, digits, dots, dashes and underscores, a letter first')
export const PolicyName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,39}$/, 'this must be the name of a policy: small letters, digits and dashes, a letter first')

export const User = z.object({
  id: UserId,
  name: z.string(),
  role: Role,
  policy: z.string().nullable().describe("What an agent's sessions are held to beside the policy of the house"),
  created_at: z.int(),
})
export type User = z.infer<typeof User>

/** What a session is shared for: to work on it, or to look at it. */
export const ShareAccess = z.enum(['work', 'view'])
export type ShareAccess = z.infer<typeof ShareAccess>

export const Share = z.object({ user: UserId, name: z.string(), access: ShareAccess })
export type Share = z.infer<typeof Share>
