import { cacheFolders } from '@anchorhold/core/cache-folders'
import { UserId } from '@anchorhold/protocol/ids'
import { execFile } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { makeFolder } from '../folders.ts'
import { removeTree, removeTrees } from './trees.ts'

type User = { readonly uid: number; readonly gid: number }

/** Whose cache it is. Only who is the same in all of this gets the same one. */
export type CacheOwner = {
  /** The person, by id. */
  readonly owner: UserId
  /** The real path of the folder that they work in. */
  readonly workspace: string
  /** Whom its cells run as; null for the daemon's own user. */
  readonly runAs: User | null
}

/** What is written down of a cache beside it, where no cell sees it. */
const Card = z.object({
  owner: UserId,
  workspace: z.string(),
  used_at: z.int(),
})
type Card = z.infer<typeof Card>
export type Cache = Card & { readonly id: string; readonly folder: string }

const isId = (name: string) => /^[0-9a-f]{16}$/.test(name)

export const cacheId = ({ owner, workspace, runAs }: CacheOwner): string =>
  createHash('sha256')
    .update(JSON.stringify([owner, workspace, runAs?.uid ?? null]))
    .digest('hex')
    .slice(0, 16)

/** Makes the cache if there is none yet, and notes that it is used. Invariant: what is in its folders is hostile. They are made one
 *  level deep below a folder that, where the daemon is root, no cell may write to; nothing in them is opened, followed or run here. */
export function openCache(caches: string, owner: CacheOwner, now: number): string {
  const id = cacheId(owner)
  const folder = join(caches, id)
  writeFileSync(join(caches, `${id}.json.new`), JSON.stringify({ owner: owner.owner, workspace: owner.workspace, used_at: now }))
  renameSync(join(caches, `${id}.json.new`), join(caches, `${id}.json`))
  if (!existsSync(folder)) makeFolder(folder, owner.runAs === null ? 0o700 : 0o755)
  for (const name of Object.keys(cacheFolders)) {
    const path = join(folder, name)
    // What stands there instead was put there by a cell: its tools then do without.
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) continue
    if (owner.runAs === null) mkdirSync(path, { mode: 0o700 })
    else makeFolder(path, 0o700, owner.runAs)
  }
  return folder
}

/** Every cache, the one that was used last first. */
export function listCaches(caches: string): readonly Cache[] {
  return entriesOf(caches)
    .filter(isId)
    .flatMap((id) => {
      const card = readCard(join(caches, `${id}.json`))
      return card === null ? [] : [{ ...card, id, folder: join(caches, id) }]
    })
    .toSorted((a, b) => b.used_at - a.used_at)
}

/** Takes a cache away that no cell has. Whoever opens it from here on gets another, empty one. */
export async function removeCache(caches: string, id: string): Promise<void> {
  rmSync(join(caches, `${id}.json`), { force: true })
  if (!existsSync(join(caches, id))) return
  const gone = join(caches, `gone-${randomUUID()}`)
  renameSync(join(caches, id), gone)
  await removeTree(gone)
}

/** Removes what nobody owns: what a removal that was cut short left, and what has no card. Before anything new is made. */
export async function reapCaches(caches: string): Promise<void> {
  const known = new Set(listCaches(caches).flatMap(({ id }) => [id, `${id}.json`]))
  await removeTrees(
    entriesOf(caches)
      .filter((name) => !known.has(name))
      .map((name) => join(caches, name)),
  )
}

/** Removes the caches that were longest not used until the rest fits. One that is in use stays, whatever its size: the limit on what a
 *  cell may write holds for it. */
export async function pruneCaches(caches: string, sizeBytes: number, isUsed: (id: string) => boolean): Promise<void> {
  let left = sizeBytes
  for (const { id, folder } of listCaches(caches)) {
    left -= await sizeOf(folder)
    if (left < 0 && !isUsed(id)) await removeCache(caches, id)
  }
}

/** As far as du(1) gets: what it cannot read counts for nothing. */
export async function sizeOf(folder: string): Promise<number> {
  const { stdout } = await promisify(execFile)('du', ['-skx', '--', folder], {
    env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
  }).catch((error: { stdout?: string }) => ({ stdout: error.stdout ?? '' }))
  return (Number(/^\d+/.exec(stdout)?.[0] ?? 0) || 0) * 1024
}

function readCard(path: string): Card | null {
  try {
    return Card.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    return null
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
