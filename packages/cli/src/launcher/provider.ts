import { Failure } from '@anchorhold/protocol/failures'
import { readStored } from '@anchorhold/daemon/store/sqlite/from-beside'
import type { Provider } from '@anchorhold/protocol/providers'

/** Where the calls of a cell go, and the one variable that its gate is to see. */
export type Chosen = {
  readonly provider: Provider
  readonly model: string | null
  readonly env: Readonly<Record<string, string>>
}

/** For cells that ask no model. */
export const rehearsal: Chosen = {
  provider: { name: 'rehearsal', kind: 'rehearsal', base_url: null, auth: 'none', credential: { from: 'none' } },
  model: 'rehearsal-1',
  env: {},
}

/** The provider named, or the one in use, or the one whose key the environment holds; the rehearsal otherwise. */
export function chooseProvider(
  database: string,
  named: string | null,
  env: Readonly<Record<string, string | undefined>>,
): Chosen {
  if (named === 'rehearsal') return rehearsal
  const stored = storedProvider(database, named)
  if (stored !== null) {
    const { credential } = stored.provider
    const value = credential.from === 'env' ? env[credential.name] : undefined
    return { ...stored, env: credential.from === 'env' && value !== undefined ? { [credential.name]: value } : {} }
  }
  const byKey = (
    [
      ['anthropic', 'ANTHROPIC_API_KEY', 'api_key'],
      ['openrouter', 'OPENROUTER_API_KEY', 'bearer'],
    ] as const
  ).find(([kind, variable]) => (named ?? kind) === kind && (env[variable] ?? '') !== '')
  if (byKey !== undefined) {
    const [kind, variable, auth] = byKey
    return {
      provider: { name: kind, kind, base_url: null, auth, credential: { from: 'env', name: variable } },
      model: null,
      env: { [variable]: env[variable]! },
    }
  }
  if (named !== null)
    throw new Failure('provider_unavailable', `There is no provider "${named}"`, {
      hint: `Add it: anchorhold provider add ${named}`,
    })
  return rehearsal
}

function storedProvider(database: string, named: string | null): Omit<Chosen, 'env'> | null {
  return readStored(database, ({ providers }) => {
    const name = named ?? providers.inUse()
    const row = name === null ? null : providers.get(name)
    if (row === null) return null
    const { kind, baseUrl, auth, credential, model } = row
    return { provider: { name: row.name, kind, base_url: baseUrl, auth, credential }, model }
  })
}
