import type { Actor } from '@anchorhold/core/actors'
import { formatAddress, parseAddress } from '@anchorhold/core/net/addresses'
import type { ShownPasskey } from '@anchorhold/protocol/api/login'
import { Failure } from '@anchorhold/protocol/failures'
import { firstOwner, type TokenId, type UserId } from '@anchorhold/protocol/ids'
import type { User } from '@anchorhold/protocol/people'
import { createHash } from 'node:crypto'
import type { Charge } from '../../logins/attempts.ts'
import { ask, check, pageOf } from '../../logins/passkeys.ts'
import { stepOfCode } from '../../logins/totp.ts'
import { type Caller, logDeviceIn, traces } from './access.ts'
import { transaction, type Tx, type Writes } from '../../transaction.ts'
import { by, type Parts, type Reads, require } from '../parts.ts'

/** Tries in a quarter of an hour. What is counted against an account cannot be more than its owner could mistype; against an
 *  address more, as several people may share one. */
const accountTriesMax = 10
const addressTriesMax = 30
/** Challenges in a quarter of an hour: each is kept until it is answered or too old, and anybody may ask for one. */
const challengesMax = 100

/** In, by the secret of a cookie; or a ticket for the question of a second factor. */
export type Step = { readonly secret: string } | { readonly secret: null; readonly ticket: string }
type How = 'password' | 'code' | 'passkey'

export function ways(parts: Reads & Pick<Parts, 'config'>): { readonly password: boolean; readonly passkey: boolean } {
  const { password, passkey } = parts.store.logins.any()
  return { password: password || parts.config.passwordHash !== null, passkey }
}

export async function byPassword(
  parts: Writes & Pick<Parts, 'attempts' | 'config' | 'passwords' | 'random'>,
  { name, password }: { readonly name: string; readonly password: string },
  caller: Caller,
): Promise<Step> {
  const keys = charge(parts, [{ key: `account ${name}`, max: accountTriesMax }], caller)
  const user = parts.store.people.byName(name)
  const right = await parts.passwords.isRight(password, user === null ? null : passwordOf(parts, user.id))
  if (!right || user === null) throw failed(parts, 'password', name, caller, 'the name or the password is wrong')
  parts.attempts.forgive(keys)
  if (parts.store.logins.totp(user.id) !== null)
    return { secret: null, ticket: parts.attempts.keep({ kind: 'second', user: user.id }) }
  return { secret: transaction(parts, (tx) => logDeviceIn(tx, user, 'password', caller)).secret }
}

export function byCode(
  parts: Writes & Pick<Parts, 'attempts' | 'random'>,
  { ticket, code }: { readonly ticket: string; readonly code: string },
  caller: Caller,
): Step {
  const kept = parts.attempts.see('second', ticket)
  const user = kept === null ? null : parts.store.people.get(kept.user as UserId)
  if (user === null) throw tooLate('log in')
  const keys = charge(parts, [{ key: `code ${user.id}`, max: accountTriesMax }], caller)
  const secret = transaction(parts, (tx) => {
    if (!useCode(tx, user, code, caller.door)) return null
    return parts.attempts.take('second', ticket) === null ? null : logDeviceIn(tx, user, 'code', caller).secret
  })
  if (secret === null) throw failed(parts, 'code', user.name, caller, 'the code is wrong, or it was used already')
  parts.attempts.forgive(keys)
  return { secret }
}

/** Uses a code up, or a recovery code. */
function useCode(tx: Tx & Pick<Parts, 'now'>, user: User, code: string, door: string): boolean {
  const { logins } = tx.store
  const known = logins.totp(user.id)
  if (known === null) return false
  const step = stepOfCode(known.secret, code.replaceAll(' ', ''), tx.now(), known.lastStep)
  if (step !== null) return logins.useStep(user.id, step)
  if (!logins.useRecoveryCode(user.id, recoveryHash(code))) return false
  tx.note({ type: 'account.changed', body: { user: user.name, what: 'recovery code used', actor: user.name, door } })
  return true
}

/** Eighty random bits, so a plain hash is enough; however it was typed. */
export const recoveryHash = (code: string): string =>
  createHash('sha256')
    .update(code.toLowerCase().replaceAll(/[^a-z0-9]/g, ''))
    .digest('hex')

export async function askPasskey(parts: Pick<Parts, 'attempts'>, page: string | undefined, { address }: Pick<Caller, 'address'>) {
  const origin = pageOf(page)
  if (address !== null) parts.attempts.charge([{ key: `challenges ${neighbourhoodOf(address)}`, max: challengesMax }])
  const options = await ask(origin)
  return { ticket: parts.attempts.keep({ kind: 'passkey', challenge: options.challenge, origin }), options }
}

type Shown = { readonly ticket: string; readonly passkey: ShownPasskey }

/** A passkey whose device has checked who holds it is two factors already. */
export async function byPasskey(parts: Writes & Pick<Parts, 'attempts' | 'random'>, shown: Shown, caller: Caller): Promise<Step> {
  const keys = charge(parts, [], caller)
  const user = await userOfPasskey(parts, shown, caller)
  parts.attempts.forgive(keys)
  return { secret: transaction(parts, (tx) => logDeviceIn(tx, user, 'passkey', caller)).secret }
}

async function userOfPasskey(parts: Writes & Pick<Parts, 'attempts'>, { ticket, passkey }: Shown, caller: Caller): Promise<User> {
  // Taken before it is looked at: a challenge is good for one answer, right or wrong.
  const asked = parts.attempts.take('passkey', ticket)
  if (asked === null) throw tooLate('take the passkey')
  const known = parts.store.logins.passkey(passkey.id)
  const user = known === null ? null : parts.store.people.get(known.user)
  if (known === null || user === null) throw failed(parts, 'passkey', null, caller, 'this house does not know the passkey')
  try {
    const counter = await check(passkey, known, asked.challenge, asked.origin)
    if (!transaction(parts, ({ store, now }) => store.logins.usePasskey(known.id, counter, now())))
      throw new Failure('unauthenticated', 'Cannot take the passkey: its count was seen before, so there may be a copy of it')
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    noteFailed(parts, 'passkey', user.name, caller, error.message)
    throw error
  }
  return user
}

/** Who is logged in, and by which login. */
type LoggedIn = { readonly actor: Actor; readonly token: TokenId | null }

export async function proveByPassword(
  parts: Writes & Pick<Parts, 'attempts' | 'config' | 'passwords'>,
  { actor, token }: LoggedIn,
  { password, code }: { readonly password: string; readonly code?: string | undefined },
  caller: Caller,
): Promise<void> {
  const user = self(parts, actor)
  // Counted by device: strangers at the login cannot keep out who is in.
  const keys = charge(parts, [{ key: `device ${token}`, max: accountTriesMax }], null)
  if (!(await parts.passwords.isRight(password, passwordOf(parts, user.id))))
    throw failed(parts, 'password', user.name, caller, 'the password is wrong')
  if (parts.store.logins.totp(user.id) !== null) {
    if (code === undefined)
      throw new Failure('bad_request', 'Cannot take the password alone: a code of the authenticator is missing')
    if (!transaction(parts, (tx) => useCode(tx, user, code, caller.door)))
      throw failed(parts, 'code', user.name, caller, 'the code is wrong, or it was used already')
  }
  parts.attempts.forgive(keys)
  prove(parts, { actor, token }, 'password', caller)
}

export async function proveByPasskey(
  parts: Writes & Pick<Parts, 'attempts'>,
  { actor, token }: LoggedIn,
  shown: Shown,
  caller: Caller,
): Promise<void> {
  const user = self(parts, actor)
  const keys = charge(parts, [{ key: `device ${token}`, max: accountTriesMax }], null)
  const found = await userOfPasskey(parts, shown, caller)
  if (found.id !== user.id) throw failed(parts, 'passkey', user.name, caller, `the passkey is not one of "${user.name}"`)
  parts.attempts.forgive(keys)
  prove(parts, { actor, token }, 'passkey', caller)
}

function prove(parts: Writes, { actor, token }: LoggedIn, how: How, caller: Caller): void {
  if (token === null) return
  transaction(parts, (tx) => {
    tx.store.tokens.prove(token, tx.now())
    tx.note({ type: 'login.proved', body: { user: actor.name, token, ...traces(how, caller), ...by(actor) } })
  })
}

/** Who asks, as the user that they are. */
export function self(parts: Reads, actor: Actor): User {
  require(parts, actor, 'account.own')
  const user = actor.user === null ? null : parts.store.people.get(actor.user)
  if (user === null) throw new Failure('not_found', 'You are not a user here')
  return user
}

/** What a password is held against. The one from the configuration is the first owner's, until they set another. */
export const passwordOf = (parts: Reads & Pick<Parts, 'config'>, user: UserId): string | null =>
  parts.store.logins.password(user) ?? (user === firstOwner ? parts.config.passwordHash : null)

function charge(parts: Pick<Parts, 'attempts'>, charges: readonly Charge[], caller: Caller | null): string[] {
  const from = caller?.address == null ? null : neighbourhoodOf(caller.address)
  const all = [...charges, ...(from === null ? [] : [{ key: `address ${from}`, max: addressTriesMax }])]
  parts.attempts.charge(all)
  return all.map(({ key }) => key)
}

/** Whoever has one IPv6 address has the 2^64 beside it as well. */
function neighbourhoodOf(address: string): string {
  const bytes = parseAddress(address)
  return bytes === null || bytes.length === 4 ? address : formatAddress([...bytes.slice(0, 8), 0, 0, 0, 0, 0, 0, 0, 0])
}

/** Says why, in words that are the same for a wrong name and a wrong password: nobody learns which names there are. */
function failed(parts: Writes, how: How, user: string | null, caller: Caller, why: string): Failure {
  noteFailed(parts, how, user, caller, why)
  return new Failure('unauthenticated', `Cannot let you in: ${why}`)
}

function noteFailed(parts: Writes, how: How, user: string | null, caller: Caller, why: string): void {
  const body = { user, why, ...traces(how, caller), actor: 'nobody', door: caller.door }
  transaction(parts, (tx) => tx.note({ type: 'login.failed', body }))
}

const tooLate = (deed: string) =>
  new Failure('unauthenticated', `Cannot ${deed}: it took too long, or was done already`, { hint: 'Begin again' })
