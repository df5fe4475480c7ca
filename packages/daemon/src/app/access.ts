import type { Actor } from '@anchorhold/core/actors'
import type { Token } from '@anchorhold/protocol/api'
import { Failure } from '@anchorhold/protocol/failures'
import { newTokenId, type TokenId } from '@anchorhold/protocol/ids'
import { createHash } from 'node:crypto'
import type { TokenRow } from '../store/store.ts'
import { type Parts, require } from './parts.ts'

const dayMs = 24 * 60 * 60 * 1000
const linkMs = 15 * 60 * 1000
export const loginMs = 7 * dayMs
/** A use is written down at most this often. */
const touchMs = 60_000

// A token has 256 random bits, so a plain hash is enough: there is nothing to guess.
const hashOf = (secret: string) => createHash('sha256').update(secret).digest('hex')

type Made = { readonly token: Token; readonly secret: string }

function make(parts: Parts, name: string, role: TokenRow['role'], lifeMs: number | null): Made {
  const secret = `anchor_${Buffer.from(parts.random(32)).toString('base64url')}`
  const now = parts.now()
  const row: TokenRow = {
    id: newTokenId(parts.random),
    name,
    role,
    kind: role === 'bearer' ? 'token' : 'login',
    hash: hashOf(secret),
    created_at: now,
    used_at: null,
    expires_at: lifeMs === null ? null : now + lifeMs,
  }
  parts.store.tokens.insert(row)
  return { token: view(row), secret }
}

const view = ({ id, name, kind, created_at, used_at, expires_at }: TokenRow): Token => ({
  id,
  name,
  kind,
  created_at,
  used_at,
  expires_at,
})

/** Who a secret belongs to, or null. It must have been made for the way it came in: a cookie is no bearer token. */
export function whoIs(
  parts: Parts,
  secret: string,
  role: 'bearer' | 'cookie',
  door: string,
): { readonly actor: Actor; readonly token: TokenId } | null {
  const row = parts.store.tokens.byHash(hashOf(secret))
  const now = parts.now()
  if (row === null || row.role !== role || (row.expires_at !== null && row.expires_at <= now)) return null
  if (row.used_at === null || now - row.used_at > touchMs) parts.store.tokens.touch(row.id, now)
  return { actor: { kind: 'owner', name: row.name, door }, token: row.id }
}

export function createLoginLink(parts: Parts, actor: Actor, url: string): { readonly url: string; readonly expires_at: number } {
  require(actor, 'administer')
  const { token, secret } = make(parts, 'login link', 'link', linkMs)
  // In the fragment: it reaches no server's log, ours included.
  return { url: `${url}/#login=${secret}`, expires_at: token.expires_at ?? 0 }
}

/** Takes a login link's secret, once, and gives a cookie's. */
export function logIn(parts: Parts, secret: string, agent: string): Made {
  return parts.store.atomically(() => {
    parts.store.tokens.removeExpired(parts.now())
    const row = parts.store.tokens.byHash(hashOf(secret))
    if (row === null || row.role !== 'link' || !parts.store.tokens.remove(row.id)) {
      throw new Failure('unauthenticated', 'This login link is not valid: it was used, or it is too old', {
        hint: 'Make a new one: anchorhold login-link',
      })
    }
    return make(parts, agent.slice(0, 100) || 'browser', 'cookie', loginMs)
  })
}

export function createToken(parts: Parts, actor: Actor, name: string, days: number | null): Made {
  require(actor, 'administer')
  return make(parts, name, 'bearer', days === null ? null : days * dayMs)
}

export function listTokens(parts: Parts, actor: Actor): readonly Token[] {
  require(actor, 'read')
  return parts.store.tokens.list().map(view)
}

export function revokeToken(parts: Parts, actor: Actor, id: TokenId): void {
  require(actor, 'administer')
  if (!parts.store.tokens.remove(id)) throw new Failure('not_found', `There is no token "${id}"`)
}
