import type { Actor } from '@anchorhold/core/actors'
import { Failure } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import { createHash } from 'node:crypto'
import { ownerOf, type Reads, shown } from '../parts.ts'

export type KeyedCall = {
  /** The caller's own, if it gave one. The same key says something else for another provider. */
  readonly key: string | undefined
  readonly provider: string
  /** All that was asked for: the same key cannot stand for something else. */
  readonly asked: unknown
}

/** Called in the transaction that makes the session. */
export type Keep = (tx: Reads, id: SessionId) => void

/** Makes one session for a key, however often it is asked for. */
export async function onceForKey(
  parts: Reads,
  actor: Actor,
  { key: given, provider, asked }: KeyedCall,
  make: (keep: Keep) => Promise<Session>,
): Promise<Session> {
  if (given === undefined) return make(() => {})
  const [owner, key] = [ownerOf(actor), `${provider}:${given}`]
  const digest = createHash('sha256').update(JSON.stringify(asked)).digest('hex')
  const find = (): Session | null => {
    const known = parts.store.tokens.sessionByKey(owner, key)
    if (known === null) return null
    if (known.digest !== digest) throw new Failure('conflict', `The idempotency key "${given}" was used for another session`)
    return shown(parts.store.sessions.get(known.session)!)
  }
  const keep: Keep = ({ store }, id) => {
    // Two calls with one key may have come this far: the first one in makes the session.
    if (store.tokens.sessionByKey(owner, key) !== null) throw new Lost()
    store.tokens.keepSessionKey(owner, key, id, digest)
  }
  const known = find()
  if (known !== null) return known
  try {
    return await make(keep)
  } catch (error) {
    if (error instanceof Lost) return find()!
    throw error
  }
}

/** Somebody else has made the session of this key. */
class Lost extends Error {}
