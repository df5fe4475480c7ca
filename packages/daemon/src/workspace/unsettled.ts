import type { SessionId } from '@anchorhold/protocol/ids'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import type { Folders } from '../folders.ts'

type Where = Pick<Folders, 'unsettled'>

/** A session is in the log or it is not, and its folder is there or not, and no single step settles both. So a session's folder is marked
 *  before it is made and until the log has the session, and again before the log forgets it and until the folder is gone. Invariant: only a
 *  folder that is marked, and whose session the log does not have, is nobody's. One without a mark may be the work of a session that this
 *  database has never heard of, because an older one was put back. The mark is no file of the folder's own: that is the session's user's.
 *  It says as well what access was granted for the session meanwhile (`granted.ts`). */
export const markUnsettled = (folders: Where, id: SessionId): void => writeFileSync(folders.unsettled(id), '', { mode: 0o600 })

export const markSettled = (folders: Where, id: SessionId): void => rmSync(folders.unsettled(id), { force: true })

export const isUnsettled = (folders: Where, id: SessionId): boolean => existsSync(folders.unsettled(id))
