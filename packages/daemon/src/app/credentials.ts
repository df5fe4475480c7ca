import type { BoundCredential } from '@anchorhold/protocol/credentials'
import { type Credential, readCredentials } from '../policy/read-credentials.ts'
import type { ProviderTable } from '../store/store.ts'
import type { Parts } from './parts.ts'

/** What the owner has written down of which secrets are for which endpoints. */
export const credentialsIn = ({ config }: Pick<Parts, 'config'>): readonly Credential[] =>
  readCredentials(`${config.config}/credentials.yaml`)

/** The same for the gate, each with its secret, sealed. */
export function boundCredentials(parts: Pick<Parts, 'config' | 'store'>): BoundCredential[] {
  return credentialsIn(parts).map(({ host, port, method, path, put, secret, placeholder }) => {
    // One that is not there stops the calls that need it, and nothing else.
    const box = parts.store.secrets.get(secret)?.box ?? null
    return {
      ...{ host, port, put, secret, placeholder, box },
      ...(method === null ? {} : { method: [...method] }),
      ...(path === null ? {} : { path }),
    }
  })
}

/** What programs in a cell find in the place of a secret. */
export const placeholders = (parts: Pick<Parts, 'config'>): Record<string, string> =>
  Object.fromEntries(credentialsIn(parts).flatMap(({ env, placeholder }) => (env === null ? [] : [[env, placeholder]])))

/** Hosts that models are called at: what a cell sends there is looked at, whatever rules say. */
export function modelHosts(providers: Pick<ProviderTable, 'list'>): string[] {
  const named = providers.list().flatMap(({ baseUrl }) => (baseUrl === null ? [] : [new URL(baseUrl).hostname]))
  return [...new Set(['api.anthropic.com', 'openrouter.ai', ...named])]
}
