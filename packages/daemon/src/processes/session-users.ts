import { whenNeeded } from '@anchorhold/core/when-needed'
import type { SessionId } from '@anchorhold/protocol/ids'
import { lstatSync } from 'node:fs'
import { firstSessionUid, type Folders } from '../folders.ts'
import type { Store } from '../store/store.ts'
import type { User } from './spare-keepers.ts'

export type SessionUsersOptions = {
  readonly folders: Folders
  readonly store: Store
  /** Sessions that had a folder when the daemon started, whether the log knows of them or not. */
  readonly onDisk: readonly SessionId[]
}

/** As root, every session has a user of its own: one that no other has or had, as far as the log and the disk tell. The log alone may be
 *  older than what lies on the disk, where somebody has put back what they had saved. */
export function sessionUsers({ folders, store, onDisk }: SessionUsersOptions): () => User {
  const first = whenNeeded(() => Math.max(firstSessionUid, ...onDisk.map((id) => ownerOf(folders.session(id)) + 1)))
  return () => {
    const uid = store.sessions.takeUid(first())
    return { uid, gid: uid }
  }
}

/** Not of one that has gone meanwhile. */
const ownerOf = (folder: string): number => {
  const uid = lstatSync(folder, { throwIfNoEntry: false })?.uid ?? 0
  return uid <= uidMax ? uid : 0
}

/** A file system may say of what it cannot tell that nobody owns it, by a number above all of these. */
const uidMax = 2 ** 31 - 1
