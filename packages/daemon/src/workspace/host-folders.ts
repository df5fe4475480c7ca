import { isWithin, refusePath } from '@anchorhold/core/workspace-paths'
import { foldersMax, type HostFolder } from '@anchorhold/protocol/api/folders'
import { Failure } from '@anchorhold/protocol/failures'
import { constants } from 'node:fs'
import { lstat, open, opendir, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

export type HostFoldersOptions = {
  /** Nothing outside of these is looked at. */
  readonly roots: readonly string[]
  readonly home: string
  /** Folders of Anchorhold's own. */
  readonly reserved: readonly string[]
}

type Listed = { readonly path: string; readonly above: string | null; readonly folders: HostFolder[]; readonly more: boolean }

/** The roots themselves, as far as they are there. */
export async function rootFolders(options: HostFoldersOptions): Promise<HostFolder[]> {
  const found = await Promise.all(options.roots.map((root) => realpath(root).catch(() => null)))
  const paths = [...new Set(found.filter((path) => path !== null))]
  return Promise.all(paths.map((path) => folderAt(path, path, options)))
}

/** The folders in a folder below one of the roots. Links are not among them, nor what begins with a dot.
 *  Invariant: what is listed lies below a root by what was opened, not by what it was called: an agent may be at work there, and
 *  a folder that it swaps for a link under way must not lead anybody out. */
export async function foldersIn(asked: string, options: HostFoldersOptions): Promise<Listed> {
  const gone = () => new Failure('not_found', `There is no folder "${asked}" that sessions can be made in`)
  const path = await realpath(asked).catch(() => null)
  const roots = (await rootFolders(options)).map((root) => root.path)
  const isBelow = (one: string) => roots.some((root) => isWithin(one, root))
  // What is not below a root is not told from what is not there.
  if (path === null || !isBelow(path) || options.reserved.some((own) => isWithin(path, own))) throw gone()
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants
  await using handle = await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).catch(() => null)
  if (handle === null) throw gone()
  const opened = `/proc/self/fd/${handle.fd}`
  // Where there is no /proc the daemon is an ordinary user, who sees what they may see anyway.
  const really = await readlink(opened).catch(() => null)
  if (really !== null && !isBelow(really)) throw gone()
  const at = really === null ? path : opened
  const names: string[] = []
  let more = false
  for await (const entry of await opendir(at)) {
    if (!entry.isDirectory() || entry.name.startsWith('.')) continue
    if (options.reserved.includes(join(path, entry.name))) continue
    if (names.length === foldersMax) {
      more = true
      break
    }
    names.push(entry.name)
  }
  names.sort((a, b) => a.localeCompare(b))
  const folders = await Promise.all(names.map((name) => folderAt(join(path, name), join(at, name), options)))
  return { path, above: roots.includes(path) ? null : dirname(path), folders, more }
}

/** `at` leads to the same folder by way of what is open. */
async function folderAt(path: string, at: string, { home, reserved }: HostFoldersOptions): Promise<HostFolder> {
  const repository = await lstat(join(at, '.git')).then(
    () => true,
    () => false,
  )
  return { path, name: basename(path), repository, usable: refusePath(path, { home, own: reserved }) === null }
}
