import { execFile } from 'node:child_process'
import { lchown, lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

type User = { readonly uid: number; readonly gid: number }

/** A copy that follows no link and takes no owner along. */
export async function copyTree(from: string, to: string, user: User | null): Promise<void> {
  // --reflink=auto shares the blocks where the file system can.
  await promisify(execFile)('cp', ['-a', '--no-preserve=ownership', '--reflink=auto', '--', `${from}/.`, to])
  if (user !== null) await giveTree(to, user)
}

/** Changes the owner of everything below, of links themselves and never of what they lead to. */
export async function giveTree(path: string, user: User): Promise<void> {
  await lchown(path, user.uid, user.gid)
  if (!(await lstat(path)).isDirectory()) return
  for (const name of await readdir(path)) await giveTree(join(path, name), user)
}
