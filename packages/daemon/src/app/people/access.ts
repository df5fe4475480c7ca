import { type Actor, may, type Permission } from '@anchorhold/core/actors'
import { deviceName } from '@anchorhold/core/device-name'
import type { Token, WhoAmI } from '@anchorhold/protocol/api/access'
import { Failure } from '@anchorhold/protocol/failures'
import { newTokenId, type SessionId, type TokenId, type UserId } from '@anchorhold/protocol/ids'
import type { User } from '@anchorhold/protocol/people'
import { createHash } from 'node:crypto'
import type { TokenRow } from '../../store/store.ts'
import { type Tx, transaction, type Writes } from '../../transaction.ts'
import { by, type Parts, type Reads, require } from '../parts.ts'
import { requireProof } from './step-up.ts'

const dayMs = 24 * 60 * 60 * 1000
const linkMs = 15 * 60 * 1000
/** An invitation may lie in a mailbox over a weekend. */
export const inviteMs = 3 * dayMs
export const loginMs = 7 * dayMs
const agentCharsMax = 300
/** A use is written down at most this often. */
const touchMs = 60_000

// A token has 256 random bits, so a plain hash is enough: there is nothing to guess.
const hashOf = (secret: string) => createHash('sha256').update(secret).digest('hex')

type Made = { readonly token: Token; readonly secret: string }
/** Who a secret belongs to, and by which token. */
export type Known = { readonly actor: Actor; readonly token: TokenId }

type NewToken = {
  readonly user: User
  readonly name: string
  readonly role: TokenRow['role']
  readonly lifeMs: number | null
  /** Of a device that somebody has logged in. */
  readonly login?: { readonly how: 'link' | 'password' | 'code' | 'passkey'; readonly caller: Caller }
}
/** Where a login comes from, as far as the door can tell. */
export type Caller = { readonly address: string | null; readonly agent: string; readonly door: string }

export function makeToken(
  tx: Tx & Pick<Parts, 'now' | 'random'>,
  actor: Actor,
  { user, name, role, lifeMs, login }: NewToken,
): Made {
  const secret = `anchor_${Buffer.from(tx.random(32)).toString('base64url')}`
  const now = tx.now()
  const row: TokenRow = {
    id: newTokenId(tx.random),
    user: user.id,
    name,
    role,
    kind: role === 'bearer' ? 'token' : 'login',
    hash: hashOf(secret),
    created_at: now,
    used_at: null,
    expires_at: lifeMs === null ? null : now + lifeMs,
    address: login?.caller.address ?? null,
    agent: login?.caller.agent.slice(0, agentCharsMax) ?? null,
    // Whoever has just come in has just shown who they are.
    proved_at: login === undefined ? null : now,
  }
  const { id: token, expires_at } = row
  tx.store.tokens.insert(row)
  const about = { user: user.name, token, name, ...by(actor) }
  if (login !== undefined) tx.note({ type: 'login', body: { ...about, ...traces(login.how, login.caller) } })
  else tx.note({ type: 'token.made', body: { ...about, kind: role === 'link' ? 'login link' : 'token', expires_at } })
  return { token: view(row, user.name), secret }
}

/** What the log keeps of where somebody came from. */
export const traces = (how: 'link' | 'password' | 'code' | 'passkey', { address, agent }: Caller) => ({
  how,
  address,
  agent: agent.slice(0, agentCharsMax),
})

/** Logs a device in: the secret is its cookie's. */
export function logDeviceIn(
  tx: Tx & Pick<Parts, 'now' | 'random'>,
  user: User,
  how: 'link' | 'password' | 'code' | 'passkey',
  caller: Caller,
): Made {
  const actor: Actor = { kind: user.role, user: user.id, name: user.name, door: caller.door }
  const name = deviceName(caller.agent)
  return makeToken(tx, actor, { user, name, role: 'cookie', lifeMs: loginMs, login: { how, caller } })
}

const view = ({ id, name, kind, created_at, used_at, expires_at }: TokenRow, user: string): Token => ({
  id,
  user,
  name,
  kind,
  created_at,
  used_at,
  expires_at,
})

/** Who a secret belongs to, or null. It must have been made for the way it came in: a cookie is no bearer token. What its user is
 *  in the house is looked up each time, so that a change holds from the next call on. */
export function whoIs(
  parts: Reads & Pick<Parts, 'log' | 'now'>,
  secret: string,
  role: 'bearer' | 'cookie',
  { address, door }: Pick<Caller, 'address' | 'door'>,
): Known | null {
  const row = parts.store.tokens.byHash(hashOf(secret))
  const now = parts.now()
  const actor = row === null || row.role !== role ? null : actorOf(parts, row, door, now)
  if (row === null || actor === null) return null
  if (row.used_at === null || now - row.used_at > touchMs) touch(parts, row.id, now, address)
  return { actor, token: row.id }
}

/** When a token was last used is for people to look at. Nobody is kept out because that cannot be written down. */
function touch({ store, log }: Reads & Pick<Parts, 'log'>, token: TokenId, now: number, address: string | null): void {
  try {
    store.tokens.touch(token, now, address)
  } catch (error) {
    log(`Cannot write down that a token was used: ${error instanceof Error ? error.message : String(error)}`)
  }
}

function actorOf(parts: Reads, row: TokenRow, door: string, now: number): Actor | null {
  if (row.expires_at !== null && row.expires_at <= now) return null
  const user = parts.store.people.get(row.user)
  if (user === null) return null
  const actor = { kind: user.role, user: user.id, name: user.name, door, token: row.name }
  return row.role === 'cookie' ? { ...actor, provenAt: row.proved_at } : actor
}

/** Whether whoever opened a stream is still who they were then, and may still see what it shows. */
export function stillMay(
  parts: Reads & Pick<Parts, 'now'>,
  { actor, token }: Known,
  permission: Permission,
  session?: SessionId,
): boolean {
  const row = parts.store.tokens.get(token)
  const now = row === null ? null : actorOf(parts, row, actor.door, parts.now())
  const ties = session === undefined ? undefined : parts.store.people.ties(session)
  return now !== null && now.kind === actor.kind && ties !== null && may(now, permission, ties)
}

export function whoAmI(parts: Reads, actor: Actor): WhoAmI {
  require(parts, actor, 'house.read')
  const user = actor.user === null ? null : parts.store.people.get(actor.user)
  if (user === null) throw new Failure('not_found', 'You are not a user here')
  return { user, token: actor.token ?? null, door: actor.door }
}

/** Oneself, or with the right to it somebody else. */
export function userFor(parts: Reads, actor: Actor, name: string | null, own: Permission): User {
  const user = name === null ? (actor.user === null ? null : parts.store.people.get(actor.user)) : parts.store.people.byName(name)
  require(parts, actor, user !== null && user.id === actor.user ? own : 'people.write')
  if (user === null) throw noUser(name ?? actor.name)
  return user
}
export const noUser = (name: string) =>
  new Failure('not_found', `There is no user "${name}"`, { hint: 'anchorhold user ls shows them' })

export function createLoginLink(
  parts: Writes & Pick<Parts, 'random'>,
  actor: Actor,
  url: string,
): { readonly url: string; readonly expires_at: number } {
  return transaction(parts, (tx) => {
    const user = userFor(tx, actor, null, 'tokens.own')
    requireProof(tx, actor, 'make a login link')
    return loginLink(tx, actor, user, url, linkMs)
  })
}

export function loginLink(
  tx: Tx & Pick<Parts, 'now' | 'random'>,
  actor: Actor,
  user: User,
  url: string,
  lifeMs: number,
): { readonly url: string; readonly expires_at: number } {
  const { token, secret } = makeToken(tx, actor, { user, name: 'login link', role: 'link', lifeMs })
  // In the fragment: it reaches no server's log, ours included.
  return { url: `${url}/#login=${secret}`, expires_at: token.expires_at ?? 0 }
}

/** Takes a login link's secret, once, and gives a cookie's. */
export function logIn(parts: Writes & Pick<Parts, 'random'>, secret: string, caller: Caller): Made {
  return transaction(parts, (tx) => {
    const { tokens, people } = tx.store
    tokens.removeExpired(tx.now())
    const row = tokens.byHash(hashOf(secret))
    const user = row === null || row.role !== 'link' ? null : people.get(row.user)
    if (row === null || user === null || !tokens.remove(row.id)) {
      throw new Failure('unauthenticated', 'This login link is not valid: it was used already, or has expired', {
        hint: 'Make a new one: anchorhold login-link',
      })
    }
    return logDeviceIn(tx, user, 'link', caller)
  })
}

export type TokenOptions = { readonly name: string; readonly days?: number | undefined; readonly user?: string | undefined }

export function createToken(parts: Writes & Pick<Parts, 'random'>, actor: Actor, { name, days, user }: TokenOptions): Made {
  return transaction(parts, (tx) => {
    const whose = userFor(tx, actor, user ?? null, 'tokens.own')
    requireProof(tx, actor, 'make a token')
    if (name === cliTokenName)
      throw new Failure('bad_request', `Cannot name a token "${name}": that is what the command line of this machine has`, {
        hint: 'Choose another name',
      })
    return makeToken(tx, actor, { user: whose, name, role: 'bearer', lifeMs: days === undefined ? null : days * dayMs })
  })
}

/** One's own; an owner sees everybody's. */
export function listTokens(parts: Reads, actor: Actor): readonly Token[] {
  require(parts, actor, 'tokens.own')
  const all = may(actor, 'people.write')
  const names = new Map<UserId, string>(parts.store.people.list().map((user) => [user.id, user.name]))
  return parts.store.tokens
    .list()
    .filter(({ user }) => all || user === actor.user)
    .map((row) => view(row, names.get(row.user) ?? ''))
}

export function revokeToken(parts: Writes & Pick<Parts, 'watches'>, actor: Actor, id: TokenId): void {
  transaction(parts, (tx) => {
    const row = tx.store.tokens.get(id)
    const own = row?.role === 'cookie' ? 'account.own' : 'tokens.own'
    require(tx, actor, row !== null && row.user === actor.user ? own : 'people.write')
    if (row === null) throw new Failure('not_found', `There is no token "${id}"`)
    forget(tx, actor, row)
  })
  parts.watches.recheck()
}

/** Gives up the token that one came in with. */
export function logOut(parts: Writes & Pick<Parts, 'watches'>, actor: Actor, token: TokenId): void {
  require(parts, actor, 'house.read')
  transaction(parts, (tx) => {
    const row = tx.store.tokens.get(token)
    if (row !== null) forget(tx, actor, row)
  })
  parts.watches.recheck()
}

/** What the command line of this machine comes in with: it lies in a file of the owner's, and is new at every start. */
export const cliTokenName = 'cli'

/** Logs out every device of one's own but the one that asks; with `tokens`, programs and login links too. */
export function revokeOthers(
  parts: Writes & Pick<Parts, 'watches'>,
  actor: Actor,
  own: TokenId | null,
  { tokens }: { readonly tokens: boolean } = { tokens: false },
): number {
  require(parts, actor, 'account.own')
  if (tokens) require(parts, actor, 'tokens.own')
  const isMeant = ({ role, name }: TokenRow) => role === 'cookie' || (tokens && !(role === 'bearer' && name === cliTokenName))
  const revoked = transaction(parts, (tx) => {
    const others = tx.store.tokens.list().filter((row) => isMeant(row) && row.user === actor.user && row.id !== own)
    for (const row of others) forget(tx, actor, row)
    if (tokens && actor.user !== null) tx.store.tokens.removeLinksOf(actor.user)
    return others.length
  })
  parts.watches.recheck()
  return revoked
}

function forget(tx: Tx, actor: Actor, { id: token, name, user }: TokenRow): void {
  if (!tx.store.tokens.remove(token)) return
  const whose = tx.store.people.get(user)?.name ?? ''
  tx.note({ type: 'token.revoked', body: { user: whose, token, name, ...by(actor) } })
}
