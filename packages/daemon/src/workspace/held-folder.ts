import { Failure } from '@anchorhold/protocol/failures'
import { constants } from 'node:fs'
import { open, readlink } from 'node:fs/promises'
import { O_PATH } from './trees.ts'

/** A folder that was judged by its path and is held open since, so that what is done there is done to the folder that was judged,
 *  whatever its name, or one above it, leads to by then. */
export interface HeldFolder extends AsyncDisposable {
  /** As it was judged: every link resolved. */
  readonly path: string
  /** The same folder by another name, for this process and for the folder that a child of it begins in. The dot at its end: what
   *  follows no link may be done to it too. */
  readonly at: string
}

/** Opens the folder, and refuses one that is not where its path says: somebody has put a link in its way since it was judged. */
export async function holdFolder(path: string): Promise<HeldFolder> {
  // Without /proc there is no other name for it, and there the daemon is nobody but its user.
  if (process.platform !== 'linux') return { path, at: path, async [Symbol.asyncDispose]() {} }
  const handle = await open(path, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch(() => null)
  const at = handle === null ? null : `/proc/self/fd/${handle.fd}`
  if (handle !== null && at !== null && (await readlink(at).catch(() => null)) === path)
    return { path, at: `${at}/.`, [Symbol.asyncDispose]: () => handle.close() }
  await handle?.close()
  throw new Failure('workspace_refused', `Cannot use "${path}" as workspace: it is not there any more, or a link is in its way`, {
    hint: 'Give the folder where it really is',
  })
}
