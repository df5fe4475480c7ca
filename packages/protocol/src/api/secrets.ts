import { z } from 'zod'
import { SecretName, secretCharsMin } from '../credentials.ts'
import { Done, type Route } from './route.ts'

export const SecretView = z.object({
  name: SecretName,
  mask: z.string().describe('Its first and last characters, never the secret'),
  changed_at: z.int(),
  inside: z.boolean().describe('Whether a session may be given it, as a variable of its cell'),
})
export type SecretView = z.infer<typeof SecretView>

/** Where a secret is put into calls. */
export const CredentialView = z.object({
  host: z.string(),
  port: z.int(),
  method: z.array(z.string()).optional(),
  path: z.string().optional(),
  as: z.enum(['header', 'basic', 'query']),
  secret: SecretName,
  env: z.string().optional().describe('The variable of a cell that holds the placeholder'),
  for: z.array(z.string()).optional().describe('The users whose sessions it is put in for (default: those of all users)'),
})
export type CredentialView = z.infer<typeof CredentialView>

const params = z.strictObject({ name: SecretName })

export const secretsRoutes = {
  listSecrets: {
    summary: 'The secrets of the house by name, and the endpoints that they are for',
    status: 200,
    response: z.object({ secrets: z.array(SecretView), credentials: z.array(CredentialView) }),
  },
  putSecret: {
    summary: 'Store a secret, encrypted, or another one under its name',
    params,
    body: z.strictObject({
      value: z
        .string()
        .min(secretCharsMin)
        .max(10_000)
        .regex(/^[\x21-\x7e]+$/, 'it holds characters that no credential has'),
      inside: z.boolean().optional().describe('Let sessions be given it: code in their cells can read it then'),
    }),
    status: 200,
    response: SecretView,
  },
  deleteSecret: {
    summary: 'Forget a secret',
    params,
    status: 200,
    response: Done,
  },
  rotateKey: {
    summary: 'Encrypt every secret and every key of a provider anew, under a new key',
    status: 200,
    response: z.object({ resealed: z.int() }),
  },
} as const satisfies Record<string, Route>
