import type { Actor } from '@anchorhold/core/actors'
import type { CacheView } from '@anchorhold/protocol/api/caches'
import { Failure } from '@anchorhold/protocol/failures'
import type { Rung } from '@anchorhold/protocol/rungs'
import type { SessionRow } from '../../store/store.ts'
import { cacheId, listCaches as cachesIn, openCache, pruneCaches, removeCache, sizeOf } from '../../workspace/caches.ts'
import { type Parts, type Reads, require } from '../parts.ts'

/** A machine goes on from memory that was saved with the shares it has, so it cannot be given one more. */
const rungs: readonly Rung[] = ['bwrap', 'container', 'gvisor']

/** The folder of downloads that a session shares with others of its person in its folder; null where it has only its home. */
export function cacheOf(
  parts: Reads & Pick<Parts, 'config' | 'folders' | 'keepers' | 'log' | 'now'>,
  session: SessionRow,
): string | null {
  if (!parts.config.caches.shared || !hasCache(parts, session)) return null
  const folder = openCache(parts.folders.caches, ownerOf(session), parts.now())
  void prune(parts)
  return folder
}

/** Only those who work in a host folder itself, as its owner. A folder of the session's own goes with it, and so do its downloads;
 *  a user that was let into a folder by an access list is nobody else's. */
const hasCache = (parts: Pick<Parts, 'folders'>, { id, rung, workspace, grants }: SessionRow) =>
  rungs.includes(rung) && workspace !== parts.folders.workspace(id) && grants.length === 0
const ownerOf = ({ ownerId, workspace, runAs }: SessionRow) => ({ owner: ownerId, workspace, runAs })

const used = (parts: Reads & Pick<Parts, 'folders' | 'keepers'>) =>
  new Set(
    parts.keepers.sessions.flatMap((id) => {
      const session = parts.store.sessions.get(id)
      return session === null || !hasCache(parts, session) ? [] : [cacheId(ownerOf(session))]
    }),
  )

/** Brings the caches below what they may take. Nobody waits for it. */
export async function prune(parts: Reads & Pick<Parts, 'config' | 'folders' | 'keepers' | 'log'>): Promise<void> {
  const { folders, config, log } = parts
  await pruneCaches(folders.caches, config.caches.sizeBytes, (id) => used(parts).has(id)).catch((error: unknown) =>
    log(`caches: ${String(error)}`),
  )
}

export async function listCaches(parts: Reads & Pick<Parts, 'folders' | 'keepers'>, actor: Actor): Promise<readonly CacheView[]> {
  require(parts, actor, 'house.run')
  const inUse = used(parts)
  return Promise.all(
    cachesIn(parts.folders.caches).map(async ({ id, owner, workspace, used_at, folder }) => ({
      ...{ id, workspace, used_at, in_use: inUse.has(id), size_bytes: await sizeOf(folder) },
      owner: parts.store.people.get(owner)?.name ?? owner,
    })),
  )
}

/** Clears one, or all that no cell has at the moment. */
export async function clearCaches(
  parts: Reads & Pick<Parts, 'folders' | 'keepers'>,
  actor: Actor,
  id: string | null,
): Promise<{ readonly cleared: number }> {
  require(parts, actor, 'house.run')
  const all = cachesIn(parts.folders.caches)
  if (id !== null && !all.some((one) => one.id === id)) throw new Failure('not_found', `There is no cache "${id}"`)
  const inUse = used(parts)
  if (id !== null && inUse.has(id))
    throw new Failure('conflict', `Cannot clear the cache "${id}": a session works with it`, {
      hint: 'Stop its sessions first: anchorhold workers shows them',
    })
  const chosen = all.filter((one) => (id === null ? !inUse.has(one.id) : one.id === id))
  for (const one of chosen) await removeCache(parts.folders.caches, one.id)
  return { cleared: chosen.length }
}
