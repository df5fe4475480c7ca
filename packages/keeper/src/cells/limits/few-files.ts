import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

export type Size = { readonly bytes: number; readonly files: number }

/** So many are looked at sooner than a process is started that would do it. */
const filesMax = 500
const depthMax = 32

/** What du(1) tells of these folders, where they hold only a few files; null where there are more, something cannot be read, or another
 *  file system or subvolume begins in them. Only
 *  as long as nobody works in them: a folder that is swapped for a link under way would be counted elsewhere. */
export function sizeOfFew(folders: readonly string[]): Size | null {
  const seen = new Set<string>()
  let bytes = 0
  const add = (path: string, device: number | null, depth: number): boolean => {
    const stat = lstatSync(path)
    const id = `${stat.dev}:${stat.ino}`
    if (device !== null && stat.dev !== device) return false
    if (seen.has(id)) return true
    seen.add(id)
    bytes += stat.blocks * 512
    if (seen.size > filesMax || depth > depthMax) return false
    return !stat.isDirectory() || readdirSync(path).every((name) => add(join(path, name), stat.dev, depth + 1))
  }
  try {
    return folders.every((folder) => add(folder, null, 0)) ? { bytes, files: seen.size } : null
  } catch {
    return null
  }
}
