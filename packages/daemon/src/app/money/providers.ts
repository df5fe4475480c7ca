import type { Actor } from '@anchorhold/core/actors'
import type { ProviderView, PutProvider } from '@anchorhold/protocol/api/providers'
import { Failure } from '@anchorhold/protocol/failures'
import { type Credential, type Provider, ProviderVerdict } from '@anchorhold/protocol/providers'
import { z } from 'zod'
import type { ProviderRow } from '../../store/store.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Parts, type Reads, require } from '../parts.ts'
import { requireProof } from '../people/step-up.ts'

const rehearsal: ProviderRow = {
  name: 'rehearsal',
  kind: 'rehearsal',
  baseUrl: null,
  auth: 'none',
  credential: { from: 'none' },
  model: 'rehearsal-1',
}

/** Where a kind of provider lives and how it is entered, when nothing else is said. */
const kinds = {
  anthropic: { baseUrl: 'https://api.anthropic.com', auth: 'api_key', model: 'claude-sonnet-5' },
  openrouter: { baseUrl: 'https://openrouter.ai/api', auth: 'bearer', model: 'anthropic/claude-sonnet-5' },
  local: { baseUrl: null, auth: 'none', model: 'default' },
} as const

/** The provider of a session: the one named, or the one in use; with none set up, the rehearsal. */
export function providerFor(parts: Reads, name: string | null): ProviderRow {
  const wanted = name ?? parts.store.providers.inUse() ?? 'rehearsal'
  if (wanted === 'rehearsal') return rehearsal
  const row = parts.store.providers.get(wanted)
  if (row === null) {
    throw new Failure('provider_unavailable', `There is no provider "${wanted}"`, {
      hint: `Add it: anchorhold provider add ${wanted}`,
    })
  }
  return row
}

export const forGate = ({ name, kind, baseUrl, auth, credential }: ProviderRow): Provider => ({
  name,
  kind,
  base_url: baseUrl,
  auth,
  credential,
})

export function listProviders(parts: Reads, actor: Actor): readonly ProviderView[] {
  require(parts, actor, 'house.read')
  return [rehearsal, ...parts.store.providers.list()].map((row) => view(parts, row))
}

function view(parts: Reads, row: ProviderRow): ProviderView {
  const words: Record<Credential['from'], (credential: Credential) => string> = {
    none: () => 'none',
    env: (credential) => `from the variable ${credential.from === 'env' ? credential.name : ''}`,
    file: (credential) => `from the file ${credential.from === 'file' ? credential.path : ''}`,
    sealed: () => 'stored encrypted',
  }
  return {
    name: row.name,
    kind: row.kind,
    base_url: row.baseUrl,
    model: row.model,
    credential: words[row.credential.from](row.credential),
    in_use: providerFor(parts, null).name === row.name,
  }
}

export async function putProvider(
  parts: Writes & Pick<Parts, 'config' | 'gate'>,
  actor: Actor,
  name: string,
  input: PutProvider,
): Promise<{ readonly provider: ProviderView; readonly verdict: ProviderVerdict | null }> {
  require(parts, actor, 'providers.write')
  requireProof(parts, actor, `store the provider "${name}"`)
  if (name === 'rehearsal') throw new Failure('bad_request', 'The name "rehearsal" is taken')
  const preset = kinds[input.kind]
  const baseUrl = input.base_url ?? preset.baseUrl
  if (baseUrl === null)
    throw new Failure('bad_request', 'A provider of kind "local" needs its base_url', {
      hint: 'For Ollama: --url http://127.0.0.1:11434',
    })
  const credential = await credentialFrom(parts, input.credential)
  const auth = input.auth ?? (credential.from === 'none' ? 'none' : input.kind === 'local' ? 'bearer' : preset.auth)
  if (auth !== 'none' && credential.from === 'none') {
    throw new Failure('bad_request', `A provider of kind "${input.kind}" needs a credential`, {
      hint: 'Give a key, --env NAME or --file PATH',
    })
  }
  const row: ProviderRow = { name, kind: input.kind, baseUrl, auth, credential, model: input.model ?? preset.model }
  const verdict = input.test === false ? null : await tryProvider(parts, row)
  if (verdict !== null && verdict.verdict !== 'ok') {
    throw new Failure('provider_unavailable', `Nothing was stored: ${verdict.message}`, {
      hint: 'Correct it, or store it untested with --no-test',
    })
  }
  // Trying it took its time, in which the key may have been changed: what is stored is sealed just before.
  const stored =
    verdict === null || input.credential.from !== 'key'
      ? row
      : { ...row, credential: await credentialFrom(parts, input.credential) }
  transaction(parts, (tx) => {
    require(tx, actor, 'providers.write')
    tx.store.providers.put(stored)
    if (input.use !== false) tx.store.providers.use(name)
    tx.note({ type: 'provider.changed', body: { provider: name, what: 'put', ...by(actor) } })
  })
  return { provider: view(parts, stored), verdict }
}

async function credentialFrom(parts: Pick<Parts, 'config' | 'gate'>, source: PutProvider['credential']): Promise<Credential> {
  switch (source.from) {
    case 'none':
    case 'file':
      return source
    case 'env':
      if (parts.config.env[source.name] === undefined) {
        throw new Failure('bad_request', `The daemon's environment has no variable "${source.name}"`, {
          hint: 'Start the daemon where it is set, or store the key itself',
        })
      }
      // The gate sees only the variables that providers name, so a new one asks for a new gate.
      await parts.gate.restartWith(source.name)
      return source
    case 'key': {
      const box = z.object({ box: z.string() }).parse(await parts.gate.do({ do: 'seal', plaintext: source.key }))
      return { from: 'sealed', ...box }
    }
  }
}

async function tryProvider(parts: Pick<Parts, 'gate'>, row: ProviderRow): Promise<ProviderVerdict> {
  return ProviderVerdict.parse(await parts.gate.do({ do: 'test', provider: forGate(row), model: row.model }))
}

/** Why the provider's credential cannot be used, if it cannot: a variable or file that a provider names may vanish. */
export async function troubleWith(parts: Pick<Parts, 'gate'>, row: ProviderRow): Promise<string | null> {
  if (!parts.gate.up) return null
  return z
    .string()
    .nullable()
    .parse(await parts.gate.do({ do: 'check', provider: forGate(row) }))
}

export function useProvider(parts: Writes, actor: Actor, name: string): ProviderView {
  require(parts, actor, 'providers.write')
  const row = transaction(parts, (tx) => {
    const found = providerFor(tx, name)
    tx.store.providers.use(name === 'rehearsal' ? null : name)
    tx.note({ type: 'provider.changed', body: { provider: name, what: 'used', ...by(actor) } })
    return found
  })
  return view(parts, row)
}

export async function testProvider(parts: Writes & Pick<Parts, 'gate'>, actor: Actor, name: string): Promise<ProviderVerdict> {
  require(parts, actor, 'providers.write')
  const verdict = await tryProvider(parts, providerFor(parts, name))
  transaction(parts, (tx) =>
    tx.note({ type: 'provider.tested', body: { provider: name, verdict: verdict.verdict, ...by(actor) } }),
  )
  return verdict
}

export function deleteProvider(parts: Writes, actor: Actor, name: string): void {
  require(parts, actor, 'providers.write')
  requireProof(parts, actor, `remove the provider "${name}"`)
  transaction(parts, (tx) => {
    if (!tx.store.providers.remove(name)) throw new Failure('not_found', `There is no provider "${name}"`)
    tx.note({ type: 'provider.changed', body: { provider: name, what: 'removed', ...by(actor) } })
  })
}
