import { chmodSync, constants, copyFileSync } from 'node:fs'
import { join } from 'node:path'

/** A copy of this Node in a folder that every user can reach: the clone may lie where only its owner can go. */
export function nodeForAll(folder: string): string {
  const copy = join(folder, 'node')
  copyFileSync(process.execPath, copy, constants.COPYFILE_FICLONE)
  chmodSync(copy, 0o755)
  return copy
}
