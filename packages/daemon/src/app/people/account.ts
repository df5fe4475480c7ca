import type { Actor } from '@anchorhold/core/actors'
import { deviceName } from '@anchorhold/core/device-name'
import type { Account, NewPasskey, Passkey } from '@anchorhold/protocol/api/login'
import { Failure } from '@anchorhold/protocol/failures'
import type { AccountChange } from '@anchorhold/protocol/house'
import { firstOwner, type TokenId } from '@anchorhold/protocol/ids'
import type { User } from '@anchorhold/protocol/people'
import { offer, pageOf, readNew } from '../../logins/passkeys.ts'
import { base32, stepOfCode, totpUri } from '../../logins/totp.ts'
import type { PasskeyRow } from '../../store/store.ts'
import { userFor } from './access.ts'
import { passwordOf, recoveryHash, self } from './login.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Parts, type Reads } from '../parts.ts'
import { requireProof } from './step-up.ts'

const passkeysMax = 20
const recoveryCodes = 10

/** One's ways in, and the devices that are logged in. */
export function account(parts: Reads & Pick<Parts, 'config' | 'now'>, actor: Actor, token: TokenId | null): Account {
  const user = self(parts, actor)
  const { logins } = parts.store
  const devices = parts.store.tokens.list().filter((row) => row.role === 'cookie' && row.user === user.id)
  return {
    user,
    password: passwordOf(parts, user.id) !== null,
    totp: logins.totp(user.id) !== null,
    recovery_codes: logins.recoveryCodes(user.id),
    passkeys: logins.passkeys(user.id).map(shown),
    devices: devices
      .filter(({ expires_at }) => expires_at === null || expires_at > parts.now())
      .map(({ id, name, address, created_at, used_at, expires_at }) => ({
        id,
        name,
        address,
        created_at,
        used_at,
        expires_at,
        this: id === token,
      }))
      .toReversed(),
  }
}

const shown = ({ id, name, site, created_at, used_at }: PasskeyRow): Passkey => ({ id, name, site, created_at, used_at })

/** One's own, or as an owner anybody's. */
export async function setPassword(
  parts: Writes & Pick<Parts, 'passwords'>,
  actor: Actor,
  name: string,
  password: string,
): Promise<void> {
  const whose = (of: Reads): User => {
    const user = userFor(of, actor, name, 'account.own')
    if (user.role !== 'agent') return user
    throw new Failure('bad_request', `Cannot set a password for "${name}": an agent is a program, and has tokens`)
  }
  whose(parts)
  requireProof(parts, actor, 'set a password')
  const hash = await parts.passwords.hash(password)
  change(parts, actor, whose, 'password set', ({ store, now }, user) => (store.logins.setPassword(user.id, hash, now()), true))
}

export function removePassword(parts: Writes & Pick<Parts, 'config'>, actor: Actor): void {
  const whose = own(actor)
  const user = whose(parts)
  requireProof(parts, actor, 'take the password away')
  if (change(parts, actor, whose, 'password removed', ({ store }) => store.logins.removePassword(user.id))) return
  const configured = user.id === firstOwner && parts.config.passwordHash !== null
  throw new Failure('not_found', 'Cannot remove the password: there is none that was set here', {
    ...(configured ? { hint: 'It comes from password_hash or PASSWORD_HASH: remove it there' } : {}),
  })
}

export async function offerPasskey(parts: Reads & Pick<Parts, 'attempts' | 'now'>, actor: Actor, page: string | undefined) {
  const user = self(parts, actor)
  const origin = pageOf(page)
  requireProof(parts, actor, 'add a passkey')
  const known = parts.store.logins.passkeys(user.id)
  if (known.length >= passkeysMax)
    throw new Failure('conflict', `Cannot add a passkey: there are ${passkeysMax} already`, { hint: 'Remove one first' })
  const options = await offer(origin, user, known)
  return { ticket: parts.attempts.keep({ kind: 'new passkey', challenge: options.challenge, origin, user: user.id }), options }
}

export async function addPasskey(
  parts: Writes & Pick<Parts, 'attempts'>,
  actor: Actor,
  { ticket, passkey, name }: { readonly ticket: string; readonly passkey: NewPasskey; readonly name?: string | undefined },
  agent: string,
): Promise<Passkey> {
  const user = self(parts, actor)
  requireProof(parts, actor, 'add a passkey')
  const asked = parts.attempts.take('new passkey', ticket)
  if (asked === null || asked.user !== user.id)
    throw new Failure('bad_request', 'Cannot add the passkey: it took too long, or was done already', { hint: 'Begin again' })
  const made = await readNew(passkey, asked.challenge, asked.origin)
  const row: PasskeyRow = { ...made, user: user.id, name: name ?? deviceName(agent), created_at: parts.now(), used_at: null }
  change(parts, actor, own(actor), 'passkey added', ({ store }) => {
    if (store.logins.passkey(row.id) !== null) throw new Failure('conflict', 'Cannot add the passkey: it is known already')
    store.logins.addPasskey(row)
    return true
  })
  return shown(row)
}

export function removePasskey(parts: Writes, actor: Actor, id: string): void {
  self(parts, actor)
  requireProof(parts, actor, 'remove a passkey')
  const remove = ({ store }: Reads, user: User) => store.logins.removePasskey(user.id, id)
  if (!change(parts, actor, own(actor), 'passkey removed', remove))
    throw new Failure('not_found', 'There is no such passkey of yours')
}

export function offerTotp(parts: Reads & Pick<Parts, 'attempts' | 'now' | 'random'>, actor: Actor, site: string) {
  const user = self(parts, actor)
  requireProof(parts, actor, 'set up an authenticator')
  const secret = parts.random(20)
  return {
    ticket: parts.attempts.keep({ kind: 'totp', secret, user: user.id }),
    secret: base32(secret),
    uri: totpUri(secret, user.name, site),
  }
}

/** It counts only once it was seen to work. */
export function confirmTotp(
  parts: Writes & Pick<Parts, 'attempts' | 'random'>,
  actor: Actor,
  { ticket, code }: { readonly ticket: string; readonly code: string },
): { recovery_codes: string[] } {
  const user = self(parts, actor)
  requireProof(parts, actor, 'set up an authenticator')
  const asked = parts.attempts.see('totp', ticket)
  if (asked === null || asked.user !== user.id)
    throw new Failure('bad_request', 'Cannot set up the authenticator: it took too long', { hint: 'Begin again' })
  const step = stepOfCode(asked.secret, code.replaceAll(' ', ''), parts.now(), 0)
  if (step === null)
    throw new Failure('bad_request', 'Cannot set up the authenticator: the code is not the one it should show now', {
      hint: 'See that the clocks of both devices are right',
    })
  const codes = Array.from({ length: recoveryCodes }, () => base32(parts.random(10)).toLowerCase().match(/.{4}/g)!.join('-'))
  change(parts, actor, own(actor), 'second factor on', ({ store }) => {
    if (parts.attempts.take('totp', ticket) === null) return false
    store.logins.setTotp(user.id, asked.secret, step, codes.map(recoveryHash))
    return true
  })
  return { recovery_codes: codes }
}

export function removeTotp(parts: Writes, actor: Actor): void {
  self(parts, actor)
  requireProof(parts, actor, 'switch the second factor off')
  if (!change(parts, actor, own(actor), 'second factor off', ({ store }, user) => store.logins.removeTotp(user.id)))
    throw new Failure('not_found', 'There is no authenticator set up')
}

const own = (actor: Actor) => (of: Reads) => self(of, actor)

/** Does it and writes it down; false when there was nothing to do. */
function change(
  parts: Writes,
  actor: Actor,
  whose: (of: Reads) => User,
  what: AccountChange,
  work: (tx: Reads & Pick<Parts, 'now'>, user: User) => boolean,
): boolean {
  return transaction(parts, (tx) => {
    // They may be nobody any more by now.
    const user = whose(tx)
    if (!work(tx, user)) return false
    tx.note({ type: 'account.changed', body: { user: user.name, what, ...by(actor) } })
    return true
  })
}
