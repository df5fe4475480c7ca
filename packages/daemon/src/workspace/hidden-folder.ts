import { createHash } from 'node:crypto'
import { type Folders, makeFolder } from '../folders.ts'
import type { SessionId } from '@anchorhold/protocol/ids'

type Where = {
  readonly id: SessionId
  readonly workspace: string
  /** Whom its cells run as; null for the daemon's own user. */
  readonly runAs: { readonly uid: number; readonly gid: number } | null
}

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
  const key = JSON.stringify([workspace, runAs?.uid ?? null])
  const folder = `${hidden}/${createHash('sha256').update(key).digest('hex').slice(0, 16)}`
  makeFolder(folder, 0o700, runAs)
  return folder
}
