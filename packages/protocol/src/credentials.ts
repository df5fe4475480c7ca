import { z } from 'zod'
import { Glob } from './policy.ts'

/** What a secret of the house is called. */
export const SecretName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'this must be a name of letters, digits, dashes and underscores, a letter first')
export type SecretName = z.infer<typeof SecretName>

/** The name of a variable in a cell. */
export const VariableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,100}$/, 'this must be the name of a variable: letters, digits and underscores')

/** The variable that a cell finds a secret in which it is given; null for a name that would take the place of what a cell lives by. */
export function variableOf(secret: SecretName): string | null {
  const variable = secret.toUpperCase().replaceAll('-', '_')
  return /^(PATH|HOME|SHELL|IFS|ENV|BASH_ENV|(LD|NODE|ANTHROPIC|CLAUDE|ANCHORHOLD)_.*|.*_PROXY)$/.test(variable) ? null : variable
}

/** So short a secret would be found, and struck out, in what has nothing to do with it. */
export const secretCharsMin = 8

/** How a secret is put into a request. */
const put = z.discriminatedUnion('as', [
  /** The value, with `{}` in the secret's place. */
  z.object({ as: z.literal('header'), name: z.string().regex(/^[A-Za-z0-9-]{1,100}$/), format: z.string().max(200) }),
  z.object({ as: z.literal('basic'), user: z.string().regex(/^[\x21-\x39\x3b-\x7e]{0,200}$/) }),
  z.object({ as: z.literal('query'), name: z.string().regex(/^[A-Za-z0-9_.-]{1,100}$/) }),
])

/** A secret that is for one endpoint, as the gate has it. */
export const BoundCredential = z.object({
  host: z.string().min(1).max(253),
  port: z.int().min(1).max(65_535),
  method: z.array(z.string().max(20)).min(1).optional(),
  path: Glob.optional(),
  put,
  secret: SecretName,
  /** What a cell has in its place. */
  placeholder: z.string().min(secretCharsMin).max(200),
  /** The secret, sealed: only the gate can open it; null when none of that name is stored, and then nothing is called there. */
  box: z.string().nullable(),
})
export type BoundCredential = z.infer<typeof BoundCredential>
