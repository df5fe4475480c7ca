import { z } from 'zod'
import { ProviderKind, ProviderVerdict } from '../providers.ts'
import { ModelName } from '../sessions.ts'
import { Done, type Route } from './route.ts'

export const CredentialSource = z.discriminatedUnion('from', [
  z.strictObject({ from: z.literal('none') }),
  z.strictObject({ from: z.literal('key'), key: z.string().min(1).max(10_000) }),
  z.strictObject({
    from: z.literal('env'),
    name: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]{0,200}$/, 'this must be the name of a variable: letters, digits and underscores'),
  }),
  z.strictObject({ from: z.literal('file'), path: z.string().startsWith('/').max(4096) }),
])

export const PutProvider = z.strictObject({
  kind: ProviderKind.exclude(['rehearsal']),
  base_url: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('Required for `local`'),
  auth: z.enum(['api_key', 'oauth', 'bearer', 'none']).optional(),
  credential: CredentialSource,
  model: ModelName.optional().describe('The model of sessions that name none'),
  use: z.boolean().optional().describe('Make it the provider of sessions that name none'),
  test: z.boolean().optional().describe('Make a test call before anything is stored; on by default'),
})
export type PutProvider = z.infer<typeof PutProvider>

export const ProviderView = z.object({
  name: z.string(),
  kind: ProviderKind,
  base_url: z.string().nullable(),
  model: z.string(),
  credential: z.string().describe('In words, never the credential itself'),
  in_use: z.boolean(),
})
export type ProviderView = z.infer<typeof ProviderView>

export const providersRoutes = {
  listProviders: {
    summary: 'Where model calls can go',
    status: 200,
    response: z.object({ providers: z.array(ProviderView) }),
  },
  putProvider: {
    summary: 'Add or replace a provider; a key is stored encrypted',
    params: z.strictObject({
      name: z
        .string()
        .regex(/^[a-z][a-z0-9-]{0,39}$/, 'this must be the name of a provider: small letters, digits and dashes, a letter first'),
    }),
    body: PutProvider,
    status: 200,
    response: z.object({ provider: ProviderView, verdict: ProviderVerdict.nullable() }),
  },
  useProvider: {
    summary: 'Make it the provider of sessions that name none',
    params: z.strictObject({ name: z.string().max(40) }),
    status: 200,
    response: ProviderView,
  },
  testProvider: {
    summary: 'Make one small call',
    params: z.strictObject({ name: z.string().max(40) }),
    status: 200,
    response: ProviderVerdict,
  },
  deleteProvider: {
    summary: 'Forget a provider and its credential',
    params: z.strictObject({ name: z.string().max(40) }),
    status: 200,
    response: Done,
  },
} as const satisfies Record<string, Route>
