import type { Actor } from '@anchorhold/core/actors'
import type { AddPushDevice, PushDevice } from '@anchorhold/protocol/api/push'
import { Failure } from '@anchorhold/protocol/failures'
import { newPushDeviceId, type PushDeviceId, type SessionId, type TokenId } from '@anchorhold/protocol/ids'
import type { PushDeviceRow } from '../../store/store.ts'
import { transaction, type Writes } from '../../transaction.ts'
import { ownerOf, type Parts, type Reads, require } from '../parts.ts'

const devicesMax = 20

export async function pushKey(parts: Reads & Pick<Parts, 'push'>, actor: Actor): Promise<{ readonly key: string }> {
  require(parts, actor, 'account.own')
  return { key: await parts.push.key() }
}

export function listPushDevices(parts: Reads, actor: Actor, token: TokenId | null): readonly PushDevice[] {
  require(parts, actor, 'account.own')
  return parts.store.push.of(ownerOf(actor)).map((row) => shown(row, token))
}

/** A device is told for as long as the login lasts that asked for it. */
export function addPushDevice(
  parts: Writes & Pick<Parts, 'push' | 'random'>,
  actor: Actor,
  token: TokenId | null,
  { endpoint, keys: { p256dh, auth }, name }: AddPushDevice,
): PushDevice {
  require(parts, actor, 'account.own')
  if (token === null) throw new Failure('bad_request', 'Only a device that is logged in can be told')
  const { href } = parts.push.check(endpoint)
  const user = ownerOf(actor)
  const row = { id: newPushDeviceId(parts.random), user, token, name, endpoint: href, p256dh, auth, created_at: parts.now() }
  return transaction(parts, ({ store }) => {
    // The same browser has one subscription: what it said before is no longer so.
    store.push.removeEndpoint(href)
    const known = store.push.of(user)
    if (known.length >= devicesMax)
      throw new Failure('too_many', `Cannot tell another device: there are ${devicesMax}`, { hint: 'Remove one first' })
    store.push.insert(row)
    return shown(row, token)
  })
}

export function removePushDevice(parts: Writes, actor: Actor, id: PushDeviceId): void {
  require(parts, actor, 'account.own')
  transaction(parts, ({ store }) => {
    const own = store.push.of(ownerOf(actor)).some((row) => row.id === id)
    if (!own) throw new Failure('not_found', `There is no device "${id}" of yours`)
    store.push.remove(id)
  })
}

export function watching(parts: Reads & Pick<Parts, 'presence'>, actor: Actor, session: SessionId): void {
  require(parts, actor, 'session.read', session)
  parts.presence.seen(ownerOf(actor), session)
}

export function notWatching(parts: Reads & Pick<Parts, 'presence'>, actor: Actor, session: SessionId): void {
  require(parts, actor, 'session.read', session)
  parts.presence.left(ownerOf(actor), session)
}

const shown = ({ id, name, endpoint, created_at, token: of }: PushDeviceRow, token: TokenId | null): PushDevice => ({
  id,
  name,
  service: new URL(endpoint).host,
  created_at,
  this_one: of === token,
})
