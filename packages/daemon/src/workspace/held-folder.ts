import { O_PATH } from '@anchorhold/link/found-file'
import { Failure } from '@anchorhold/protocol/failures'
import { constants } from 'node:fs'
import { lstat, open, readlink } from 'node:fs/promises'
import { dirname } from 'node:path'

/** A folder that was judged by its path and is held open since, so that what is done there is done to the folder that was judged,
 *  whatever its name, or one above it, leads to by then. */
export interface HeldFolder extends AsyncDisposable {
  /** As it was judged: every link resolved. */
  readonly path: string
  /** The same folder by another name, for this process and for the folder that a child of it begins in. The dot at its end: what
   *  follows no link may be done to it too. */
  readonly at: string
}

/** Opens a folder by the name that it has in the folder above. Null where no folder has that name; a link is none.
 *  For a name that others may write, in a folder whose own path only this user can change. */
export async function holdEntry(path: string): Promise<HeldFolder | null> {
  // Without /proc there is no other name for it, and there the daemon is nobody but its user.
  if (process.platform !== 'linux')
    return (await lstat(path).catch(() => null))?.isDirectory() === true
      ? { path, at: path, async [Symbol.asyncDispose]() {} }
      : null
  const handle = await open(path, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(() => null)
  return handle === null ? null : { path, at: `/proc/self/fd/${handle.fd}/.`, [Symbol.asyncDispose]: () => handle.close() }
}

/** Opens the folder, and refuses one that is not where its path says: somebody has put a link in its way since it was judged. */
export async function holdFolder(path: string): Promise<HeldFolder> {
  const held = await holdEntry(path)
  // Without /proc nobody can say where it is.
  if (held !== null && (process.platform !== 'linux' || (await readlink(dirname(held.at)).catch(() => null)) === path))
    return held
  await held?.[Symbol.asyncDispose]()
  throw new Failure('workspace_refused', `Cannot use "${path}" as workspace: it is not there any more, or a link is in its way`, {
    hint: 'Give the folder where it really is',
  })
}
