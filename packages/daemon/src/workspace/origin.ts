import { readFound } from '@anchorhold/link/found-file'
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'

const configBytesMax = 64 * 1024

/** Where a folder's repository came from, by the words of its own config; null when it does not say so plainly. The file is read and git
 *  is not run: what is in a folder may have been put there to be run. No link is followed, and nothing that it includes is read. */
export async function originOf(folder: string): Promise<string | null> {
  try {
    if (!(await lstat(join(folder, '.git'))).isDirectory()) return null
    return originIn(await readFound(join(folder, '.git/config'), configBytesMax))
  } catch {
    return null
  }
}

/** See git-config(1). What is written in a way that needs more than a line to be understood is not understood. */
export function originIn(config: string): string | null {
  const urls = new Set<string>()
  let inOrigin = false
  for (const line of config.split('\n')) {
    const section = /^\s*\[(.*)\]\s*$/.exec(line)?.[1]
    if (section !== undefined) inOrigin = /^remote\s+"origin"$/i.test(section)
    else if (/^\s*\[/.test(line)) return null
    if (!inOrigin) continue
    const url = /^\s*url\s*=(.*)$/i.exec(line)?.[1]
    if (url !== undefined) urls.add(url.trim())
  }
  const [url, ...more] = urls
  return url === undefined || more.length > 0 || /[\\"#;\s]/.test(url) ? null : url
}
