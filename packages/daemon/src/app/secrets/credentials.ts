import type { BoundCredential } from '@anchorhold/protocol/credentials'
import { Failure } from '@anchorhold/protocol/failures'
import type { Network } from '@anchorhold/protocol/sessions'
import type { Config } from '../../config.ts'
import { type Credential, readCredentials } from '../../policy/read-credentials.ts'
import type { ProviderTable, SecretTable } from '../../store/store.ts'

type InConfig = { readonly config: Pick<Config, 'config'> }

/** What the owner has written down of which secrets are for which endpoints. */
export const credentialsIn = ({ config }: InConfig): readonly Credential[] => readCredentials(`${config.config}/credentials.yaml`)

/** Why what is written there cannot be used, if it cannot. */
export function troubleWithCredentials(parts: InConfig): string | null {
  try {
    credentialsIn(parts)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** Refuses a session whose net window could not be told which secrets are for which endpoints. */
export function requireCredentials(parts: InConfig, network: Network): void {
  const trouble = network === 'proxy_only' ? troubleWithCredentials(parts) : null
  if (trouble !== null)
    throw new Failure('cell_unavailable', trouble, {
      hint: 'An owner mends that file; a session with --network none starts without it',
    })
}

/** Those that sessions of this user may use; null for a cell that is nobody's, which has what is for everybody. */
const credentialsOf = (parts: InConfig, user: string | null): readonly Credential[] =>
  credentialsIn(parts).filter((one) => one.for === null || (user !== null && one.for.includes(user)))

/** The same for the gate, each with its secret, sealed. */
export function boundCredentials(
  parts: InConfig & { readonly store: { readonly secrets: Pick<SecretTable, 'get'> } },
  user: string | null,
): BoundCredential[] {
  return credentialsOf(parts, user).map(({ host, port, method, path, put, secret, placeholder }) => {
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
export const placeholders = (parts: InConfig, user: string | null): Record<string, string> =>
  Object.fromEntries(credentialsOf(parts, user).flatMap(({ env, placeholder }) => (env === null ? [] : [[env, placeholder]])))

/** Hosts that models are called at: what a cell sends there is looked at, whatever rules say. */
export function modelHosts(providers: Pick<ProviderTable, 'list'>): string[] {
  const named = providers.list().flatMap(({ baseUrl }) => (baseUrl === null ? [] : [new URL(baseUrl).hostname]))
  return [...new Set(['api.anthropic.com', 'openrouter.ai', ...named])]
}
