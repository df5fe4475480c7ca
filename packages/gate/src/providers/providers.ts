import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import type { Seller } from '@anchorhold/core/prices'
import { Failure } from '@anchorhold/protocol/failures'
import type { Credential, Provider, ProviderKind } from '@anchorhold/protocol/providers'
import type { Connections, Listener, Outgoing, Sent } from './connections.ts'
import type { Secrets } from '../keys/secrets.ts'
import { scrubberOf, type Scrubber } from '../windows/scrub.ts'

/** A provider made ready to be dialled. Invariant: where it leads comes from the owner's configuration alone. */
export type Upstream = {
  readonly name: string
  /** Play money: nothing of what it answers is paid for. */
  readonly simulated: boolean
  /** Paid by a subscription. */
  readonly notional: boolean
  /** Whether anyone could be charged: a provider that takes no credential bills nobody. */
  readonly billed: boolean
  readonly seller: Seller
  /** Says that it cannot be reached, why, and what to do where that is known. */
  unreachable(code: string): string
  /** The credential, looked up now. Throws `provider_unavailable` when it is gone. */
  authorise(): Promise<Authorised>
  /** Sends a request to a path of the provider's. It never follows a redirect. */
  dial(request: Outgoing, listener: Listener, connection: 'kept' | 'fresh'): Sent
}

export type ProviderKey = { readonly auth: Exclude<Provider['auth'], 'none'>; readonly secret: string }

export type Authorised = {
  /** The credential itself, which the dialect puts where it belongs; null where there is none. */
  readonly key: ProviderKey | null
  /** Takes it out of what the provider says; null where there is none. */
  readonly scrubber: Scrubber | null
}

export type ProviderParts = {
  readonly secrets: Secrets
  readonly env: Readonly<Record<string, string | undefined>>
  /** Where the rehearsal provider listens. */
  readonly rehearsalSocket: string
  readonly connections: Connections
}

const defaultBase: Record<ProviderKind, string> = {
  anthropic: 'https://api.anthropic.com',
  openrouter: 'https://openrouter.ai/api',
  local: 'http://127.0.0.1:11434',
  rehearsal: 'http://rehearsal.internal',
}
/** The daemon, or whoever launched the cell, starts it, and starts it again when it has died. */
const rehearsalRemedy =
  'It is started again within seconds where Anchorhold runs (anchorhold status); if it stays away, see rehearsal.log in the state folder'

const credentialBytesMax = 16 * 1024

export function upstream(provider: Provider, parts: ProviderParts): Upstream {
  const base = baseOf(provider)
  const simulated = provider.kind === 'rehearsal'
  const prefix = base.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')
  const connections = parts.connections.to(base.origin, ...(simulated ? [parts.rehearsalSocket] : []))
  // A sealed box does not change while the window is open, so it is opened once.
  let sealed: string | null = null
  let known: (Authorised & { readonly key: ProviderKey }) | null = null

  return {
    name: provider.name,
    simulated,
    notional: provider.auth === 'oauth',
    billed: provider.kind !== 'local' || provider.auth !== 'none',
    seller: provider.kind === 'openrouter' ? 'reseller' : 'maker',
    unreachable: (code) =>
      simulated
        ? `The demo model (provider "rehearsal") is not running: ${code}. ${rehearsalRemedy}`
        : `Cannot reach provider "${provider.name}" at ${base.origin}: ${code}`,
    async authorise() {
      if (provider.auth === 'none' || simulated) return { key: null, scrubber: null }
      sealed ??= provider.credential.from === 'sealed' ? parts.secrets.open(provider.credential.box) : null
      const secret = sealed ?? (await readCredential(provider, provider.credential, parts.env))
      if (!/^[\x21-\x7e]+$/.test(secret)) {
        throw missing(provider, 'it holds characters that no credential has')
      }
      if (known?.key.secret !== secret) known = { key: { auth: provider.auth, secret }, scrubber: scrubberOf([secret]) }
      return known
    },
    dial: ({ path, headers, body }, listener, connection) =>
      connections.send({ path: `${prefix}${path}`, headers, body }, listener, connection),
  }
}

export function baseOf(provider: Provider): URL {
  const base = new URL(provider.base_url ?? defaultBase[provider.kind])
  const plain = base.protocol === 'http:' && (provider.kind === 'local' || provider.kind === 'rehearsal')
  if (base.protocol !== 'https:' && !plain) {
    throw new Failure('provider_unavailable', `Cannot use provider "${provider.name}": its address must begin with https://`)
  }
  if (base.username !== '' || base.password !== '' || base.search !== '' || base.hash !== '') {
    throw new Failure(
      'provider_unavailable',
      `Cannot use provider "${provider.name}": its address may hold a host, a port and a path only`,
    )
  }
  return base
}

async function readCredential(provider: Provider, credential: Credential, env: ProviderParts['env']): Promise<string> {
  switch (credential.from) {
    case 'none':
      throw missing(provider, 'none is set')
    case 'env': {
      const value = env[credential.name]?.trim()
      if (!value) throw missing(provider, `the environment variable "${credential.name}" is not set`)
      return value
    }
    case 'file':
      return readCredentialFile(provider, credential.path)
    case 'sealed':
      throw new Error('A sealed credential is opened, not read')
  }
}

async function readCredentialFile(provider: Provider, path: string): Promise<string> {
  // A pipe under this name must not be waited for.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((cause: NodeJS.ErrnoException) => {
    throw missing(provider, `the file "${path}" cannot be read (${cause.code ?? 'unknown'})`)
  })
  try {
    const stat = await file.stat()
    if (!stat.isFile()) throw missing(provider, `"${path}" is not a file`)
    if ((stat.mode & 0o077) !== 0) throw missing(provider, `the file "${path}" can be read by others; chmod 600 it`)
    if (stat.size > credentialBytesMax) throw missing(provider, `the file "${path}" is larger than ${credentialBytesMax} bytes`)
    const value = (await file.readFile('utf8')).trim()
    if (value === '') throw missing(provider, `the file "${path}" is empty`)
    return value
  } finally {
    await file.close()
  }
}

function missing(provider: Provider, why: string): Failure {
  return new Failure('provider_unavailable', `Cannot use the credential of provider "${provider.name}": ${why}`, {
    hint: `Put it in its place, or enter it again with: anchorhold provider add ${provider.name}`,
  })
}
