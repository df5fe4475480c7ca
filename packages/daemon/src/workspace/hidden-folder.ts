import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SessionId } from '@anchorhold/protocol/ids'
import { z } from 'zod'
import { firstSessionUid, type Folders, makeFolder } from '../folders.ts'
import { removeTrees } from './trees.ts'

type Where = {
  readonly id: SessionId
  readonly workspace: string
  /** Whom its cells run as; null for the daemon's own user. */
  readonly runAs: { readonly uid: number; readonly gid: number } | null
}

/** Whose such a folder is, written down beside it. */
const Card = z.object({ workspace: z.string(), uid: z.int().nullable() })
type Card = z.infer<typeof Card>

/** Where the keepers of a workspace write down what they have hidden there, so that the next one hides it again wherever its cell has
 *  moved it to. By user as well, since it is theirs to write; no cell sees it. Of a folder of the session's own, the session's folder. */
export function hiddenFolder(
  folders: Pick<Folders, 'hidden' | 'session' | 'workspace'>,
  { id, workspace, runAs }: Where,
): string {
  if (workspace === folders.workspace(id)) return folders.session(id)
  return hiddenFolderOf(folders, workspace, runAs)
}

/** The same for a host folder, whoever works in it. */
export function hiddenFolderOf({ hidden }: Pick<Folders, 'hidden'>, workspace: string, runAs: Where['runAs']): string {
  const card: Card = { workspace, uid: runAs?.uid ?? null }
  const folder = join(hidden, nameOf(card))
  const fresh = `${folder}.json.${process.pid}`
  writeFileSync(fresh, JSON.stringify(card), { mode: 0o600 })
  renameSync(fresh, `${folder}.json`)
  makeFolder(folder, 0o700, runAs)
  return folder
}

const nameOf = ({ workspace, uid }: Card) =>
  createHash('sha256')
    .update(JSON.stringify([workspace, uid]))
    .digest('hex')
    .slice(0, 16)

/** Removes what nobody can come back to: no session has it, and the folder that it was for is gone, or its user was that of a session
 *  alone. What was hidden in a folder that is still there stays, also when its last session is gone: the next one's cell finds what
 *  the cells before have moved about. */
export async function reapHidden(hidden: string, isUsed: (workspace: string, uid: number | null) => boolean): Promise<void> {
  const left = (existsSync(hidden) ? readdirSync(hidden) : []).flatMap((name) => {
    const id = /^([0-9a-f]{16})\.json$/.exec(name)?.[1]
    if (id === undefined) return []
    const card = readCard(join(hidden, name))
    if (card === null || nameOf(card) !== id || isUsed(card.workspace, card.uid)) return []
    return existsSync(card.workspace) && (card.uid ?? 0) < firstSessionUid ? [] : [join(hidden, id)]
  })
  try {
    await removeTrees(left)
  } finally {
    // Last: what was cut short is found again by it.
    for (const folder of left) if (!existsSync(folder)) rmSync(`${folder}.json`, { force: true })
  }
}

function readCard(path: string): Card | null {
  try {
    return Card.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch {
    return null
  }
}
