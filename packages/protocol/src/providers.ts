import { z } from 'zod'

/** Where a credential comes from. `sealed` is ciphertext that only the gate can open. */
export const Credential = z.discriminatedUnion('from', [
  z.object({ from: z.literal('none') }),
  z.object({ from: z.literal('env'), name: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,200}$/) }),
  z.object({ from: z.literal('file'), path: z.string() }),
  z.object({ from: z.literal('sealed'), box: z.string() }),
])
export type Credential = z.infer<typeof Credential>

export const ProviderKind = z.enum(['anthropic', 'openrouter', 'local', 'rehearsal'])
export type ProviderKind = z.infer<typeof ProviderKind>

/** A provider as the gate knows it. Its destination comes from the owner's configuration alone. */
export const Provider = z.object({
  name: z.string(),
  kind: ProviderKind,
  base_url: z.url().nullable(),
  credential: Credential,
  /** `api_key` is sent as x-api-key, `oauth` as a bearer token of the owner's own login. */
  auth: z.enum(['api_key', 'oauth', 'bearer', 'none']),
})
export type Provider = z.infer<typeof Provider>

/** What came of a test call to a provider. */
export const ProviderVerdict = z.object({
  verdict: z.enum(['ok', 'refused', 'unreachable', 'incompatible']),
  message: z.string(),
})
export type ProviderVerdict = z.infer<typeof ProviderVerdict>
