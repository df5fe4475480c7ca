import type { Actor } from '@anchorhold/core/actors'
import type { AddUser, ChangeUser } from '@anchorhold/protocol/api/access'
import { Failure } from '@anchorhold/protocol/failures'
import { newUserId, type SessionId } from '@anchorhold/protocol/ids'
import type { Role, Share, ShareAccess, User } from '@anchorhold/protocol/people'
import { inviteMs, loginLink, noUser } from './access.ts'
import { holdToPolicy } from '../policy/hold-to-policy.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { by, type Delivers, type Holds, type Parts, type Reads, require } from '../parts.ts'
import { requirePolicy } from '../policy/policy.ts'
import { requireProof } from './step-up.ts'

export function listUsers(parts: Reads, actor: Actor): readonly User[] {
  require(parts, actor, 'people.read')
  return parts.store.people.list()
}

export function addUser(parts: Writes & Pick<Parts, 'policies' | 'random'>, actor: Actor, { name, role, policy }: AddUser): User {
  require(parts, actor, 'people.write')
  requireProof(parts, actor, `add the user "${name}"`)
  refusePolicy(role, policy)
  if (policy !== undefined) requirePolicy(parts, policy)
  const user: User = { id: newUserId(parts.random), name, role, policy: policy ?? null, created_at: parts.now() }
  return transaction(parts, (tx) => {
    // The house writes its own name into its logs.
    if (name === 'daemon' || tx.store.people.byName(name) !== null)
      throw new Failure('conflict', `Cannot add the user "${name}": the name is taken`)
    tx.store.people.insert(user)
    tx.note({ type: 'user.added', body: { user: name, role, policy: user.policy, ...by(actor) } })
    return user
  })
}

/** A link that logs this person in, once. */
export function inviteUser(
  parts: Writes & Pick<Parts, 'random'>,
  actor: Actor,
  name: string,
  url: string,
): { readonly url: string; readonly expires_at: number } {
  require(parts, actor, 'people.write')
  requireProof(parts, actor, `invite "${name}"`)
  return transaction(parts, (tx) => {
    const user = userNamed(tx, name)
    if (user.role === 'agent')
      throw new Failure('bad_request', `Cannot invite "${name}": an agent is a program, and opens no links`, {
        hint: `Make it a token: anchorhold token add NAME --user ${name}`,
      })
    return loginLink(tx, actor, user, url, inviteMs)
  })
}

/** From their next call on, they are what they are now; streams that they opened before end. */
export function changeUser(
  parts: Holds & Delivers & Pick<Parts, 'watches'>,
  actor: Actor,
  name: string,
  { role, policy }: ChangeUser,
): User {
  require(parts, actor, 'people.write')
  requireProof(parts, actor, `change "${name}"`)
  const changed = transaction(parts, (tx) => {
    const user = userNamed(tx, name)
    const next = role ?? user.role
    const held = policy === undefined ? (next === 'agent' ? user.policy : null) : policy
    refusePolicy(next, held ?? undefined)
    // One that it was held to before may be gone meanwhile, and is no reason to refuse the rest.
    if (policy !== undefined && policy !== null) requirePolicy(tx, policy)
    if (next !== 'owner') refuseLastOwner(tx, user, 'change')
    tx.store.people.setRole(user.id, next, held)
    tx.note({ type: 'user.changed', body: { user: name, role: next, policy: held, ...by(actor) } })
    return { ...user, role: next, policy: held }
  })
  parts.watches.recheck()
  holdToPolicy(parts, liveOf(parts, changed))
  return changed
}

/** Their tokens, logins and open streams end at once. Their sessions stay, and are the owners' to see. */
export function removeUser(parts: Holds & Delivers & Pick<Parts, 'watches'>, actor: Actor, name: string): void {
  require(parts, actor, 'people.write')
  requireProof(parts, actor, `remove "${name}"`)
  const removed = transaction(parts, (tx) => {
    const user = userNamed(tx, name)
    refuseLastOwner(tx, user, 'remove')
    tx.store.tokens.removeOf(user.id)
    tx.store.logins.removeOf(user.id)
    tx.store.people.remove(user.id, tx.now())
    tx.note({ type: 'user.removed', body: { user: name, ...by(actor) } })
    return user
  })
  parts.watches.recheck()
  holdToPolicy(parts, liveOf(parts, removed))
}

/** What a session may do depends on whose it is, and on what they are. */
const liveOf = ({ keepers, store }: Reads & Pick<Parts, 'keepers'>, user: Pick<User, 'id'>): readonly SessionId[] =>
  keepers.sessions.filter((id) => store.sessions.get(id)?.ownerId === user.id)

export function listShares(parts: Reads, actor: Actor, id: SessionId): readonly Share[] {
  require(parts, actor, 'session.read', id)
  return parts.store.people.shares(id)
}

export function shareSession(
  parts: Writes & Pick<Parts, 'watches'>,
  actor: Actor,
  id: SessionId,
  { user: name, access }: { readonly user: string; readonly access: ShareAccess },
): readonly Share[] {
  transaction(parts, (tx) => {
    require(tx, actor, 'session.share', id)
    const user = userNamed(tx, name)
    if (user.role === 'agent')
      throw new Failure('bad_request', `Cannot share session "${id}" with "${name}": an agent has its own sessions and no others`)
    if (user.role === 'viewer' && access === 'work')
      throw new Failure('bad_request', `Cannot share session "${id}" with "${name}": a viewer may only look`, {
        hint: `Show it instead: anchorhold share ${id} ${name} --view`,
      })
    tx.store.people.share(id, user.id, access)
    tx.record(id, { type: 'session.shared', body: { user: name, access, ...by(actor) } })
  })
  // Who could work on it may only look now.
  parts.watches.recheck()
  return parts.store.people.shares(id)
}

export function unshareSession(
  parts: Writes & Pick<Parts, 'watches'>,
  actor: Actor,
  id: SessionId,
  name: string,
): readonly Share[] {
  const user = transaction(parts, (tx) => {
    require(tx, actor, 'session.share', id)
    const found = userNamed(tx, name)
    if (!tx.store.people.unshare(id, found.id)) throw new Failure('not_found', `Session "${id}" is not shared with "${name}"`)
    tx.record(id, { type: 'session.shared', body: { user: name, access: null, ...by(actor) } })
    return found
  })
  parts.watches.recheck()
  parts.watches.seesLess(user.id)
  return parts.store.people.shares(id)
}

function userNamed(parts: Reads, name: string): User {
  const user = parts.store.people.byName(name)
  if (user === null) throw noUser(name)
  return user
}

function refusePolicy(role: Role, policy: string | undefined): void {
  if (policy !== undefined && role !== 'agent')
    throw new Failure('bad_request', `A ${role} is held to the policy of the house: only an agent has one of its own`)
}

function refuseLastOwner(parts: Reads, { id, name, role }: User, verb: string): void {
  const others = parts.store.people.list().some((one) => one.role === 'owner' && one.id !== id)
  if (role === 'owner' && !others)
    throw new Failure('conflict', `Cannot ${verb} "${name}": nobody else is an owner`, {
      hint: 'Make somebody else an owner first',
    })
}
