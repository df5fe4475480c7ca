import { z } from 'zod'
import { Glob } from './policy.ts'

/** A repository of a forge, as `owner/name`. */
export const RepoName = z
  .string()
  .max(200)
  .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]*\/[A-Za-z0-9_][A-Za-z0-9_.-]*$/, { error: 'write it as owner/name' })
  .refine((name) => !name.endsWith('.git') && !name.includes('..'), { error: 'write it as owner/name, without .git' })

/** What a session may push to its own repository. */
export const PushRule = z.strictObject({
  branches: z.array(Glob).max(100).default(['agent/*']).describe('Branches that may be pushed'),
  tags: z.array(Glob).max(100).default([]).describe('Tags that may be pushed'),
  deletes: z.boolean().default(false).describe('Whether these may be deleted too'),
})
export type PushRule = z.infer<typeof PushRule>

/** The one repository that a session has at a forge. */
export const SessionRepo = z.object({ host: z.string(), api: z.string().nullable(), repo: RepoName, push: PushRule })
export type SessionRepo = z.infer<typeof SessionRepo>
