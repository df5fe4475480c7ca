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
  /** Sends a request to a path of the Messages API. It never follows a redirect. */
  dial(request: Outgoing, listener: Listener, connection: 'kept' | 'fresh'): Sent
}

export type Authorised = {
  /** The headers that carry the credential. */
  readonly headers: Readonly<Record<string, string>>
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

/** Sent with a login of the owner's own, as the CLI does. */
export const oauthBeta = 'oauth-2025-04-20'
const credentialBytesMax = 16 * 1024

export function upstream(provider: Provider, parts: ProviderParts): Upstream {
  const base = baseOf(provider)
  const simulated = provider.kind === 'rehearsal'
  const prefix = base.pathname.replace(/\/+$/, '').replace(/\/v1$/, '')
  const line = parts.connections.to(base.origin, ...(simulated ? [parts.rehearsalSocket] : []))
  // A sealed box does not change while the window is open, so it is opened once.
  let sealed: string | null = null
  let known: { readonly secret: string; readonly authorised: Authorised } | null = null

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
      if (provider.auth === 'none' || simulated) return { headers: {}, scrubber: null }
      sealed ??= provider.credential.from === 'sealed' ? parts.secrets.open(provider.credential.box) : null
      const secret = sealed ?? (await readCredential(provider, provider.credential, parts.env))
      if (!/^[\x21-\x7e]+$/.test(secret)) {
        throw missing(provider, 'it holds characters that no credential has')
      }
      const headers: Record<string, string> =
        provider.auth === 'api_key' ? { 'x-api-key': secret } : { authorization: `Bearer ${secret}` }
      if (known?.secret !== secret) known = { secret, authorised: { headers, scrubber: scrubberOf([secret]) } }
      return known.authorised
    },
    dial: ({ path, headers, body }, listener, connection) =>
      line.send({ path: `${prefix}${path}`, headers, body }, listener, connection),
  }
}

/** What keeps a provider's credential from being used, in words; null when it is at hand. */
export async function checkProvider(provider: Provider, parts: ProviderParts): Promise<string | null> {
  try {
    await upstream(provider, parts).authorise()
    return null
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return error.hint === undefined ? error.message : `${error.message}. ${error.hint}`
  }
}

export type Verdict = {
  readonly verdict: 'ok' | 'refused' | 'unreachable' | 'incompatible'
  readonly message: string
}

const testTimeoutMs = 30_000
const testAnswerBytesMax = 256 * 1024

/** One call for one token, to say whether the provider works as it is set up. */
export async function testProvider(provider: Provider, model: string, parts: ProviderParts): Promise<Verdict> {
  let status: number
  let answer: string
  try {
    const target = upstream(provider, parts)
    const credential = await target.authorise()
    const body = JSON.stringify({ model, max_tokens: 1, messages: [{ role: 'user', content: 'Say hi.' }] })
    const headers = {
      'content-type': 'application/json',
      'anthropic-version': '2023-06-01',
      ...(provider.auth === 'oauth' ? { 'anthropic-beta': oauthBeta } : {}),
      ...credential.headers,
    }
    ;({ status, answer } = await exchange(target, { path: '/v1/messages', headers, body }))
    // What a provider says goes to a person's screen, and may hold the credential that it refuses.
    answer = credential.scrubber?.text(answer) ?? answer
  } catch (error) {
    if (error instanceof Failure) return { verdict: 'refused', message: error.message }
    return { verdict: 'unreachable', message: (error as Error).message }
  }
  return judge(provider, model, status, answer)
}

function judge(provider: Provider, model: string, status: number, answer: string): Verdict {
  const { type, error } = parseAnswer(answer)
  const said = error === null ? '' : `: ${error}`
  if (status === 200 && type === 'message')
    return { verdict: 'ok', message: `Provider "${provider.name}" answered with model "${model}"` }
  if (status === 401 || status === 403)
    return { verdict: 'refused', message: `Provider "${provider.name}" refused the credential${said}` }
  if (type !== 'error') {
    return {
      verdict: 'incompatible',
      message: `What answers at "${baseOf(provider).origin}" does not speak the Anthropic Messages API (status ${status})`,
    }
  }
  if (status === 429 || status >= 500) {
    return {
      verdict: 'ok',
      message: `Provider "${provider.name}" took the credential, but is busy now (status ${status})${said}`,
    }
  }
  return {
    verdict: 'refused',
    message: `Provider "${provider.name}" refused a call to model "${model}" (status ${status})${said}`,
  }
}

function exchange(target: Upstream, request: Outgoing): Promise<{ status: number; answer: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; answer: string }>()
  const chunks: Buffer[] = []
  let status = 0
  let bytes = 0
  const fail = (code: string) => reject(new Error(target.unreachable(code)))
  const sent = target.dial(
    request,
    {
      answered: (given) => void (status = given),
      data(chunk) {
        bytes += chunk.length
        if (bytes <= testAnswerBytesMax) chunks.push(chunk)
      },
      ended: () => resolve({ status, answer: Buffer.concat(chunks).toString('latin1') }),
      failed: ({ code }) => fail(code),
    },
    'fresh',
  )
  const late = setTimeout(() => {
    sent.cut()
    fail('ETIMEDOUT')
  }, testTimeoutMs)
  return promise.finally(() => clearTimeout(late))
}

function parseAnswer(answer: string): { type: unknown; error: string | null } {
  try {
    const body = JSON.parse(Buffer.from(answer, 'latin1').toString('utf8')) as {
      type?: unknown
      error?: { message?: unknown }
    } | null
    const message = body?.error?.message
    return { type: body?.type, error: typeof message === 'string' ? message.slice(0, 300) : null }
  } catch {
    return { type: null, error: null }
  }
}

function baseOf(provider: Provider): URL {
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
