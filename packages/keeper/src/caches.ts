import { lstatSync, mkdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { cacheFolders } from '@anchorhold/core/cache-folders'
import { inside } from './cells/layout.ts'

/** Where a tool that looks at no variable keeps its archives, below the home. What else it keeps beside them, programs among it, stays
 *  the session's own. */
const links: readonly { readonly path: readonly [string, ...string[]]; readonly to: keyof typeof cacheFolders }[] = [
  { path: ['.npm', '_cacache'], to: 'npm' },
  { path: ['.cargo', 'registry', 'cache'], to: 'cargo' },
  { path: ['go', 'pkg', 'mod', 'cache', 'download'], to: 'go' },
]

/** What programs of a cell with shared caches are told. */
export const cacheEnvironment: Readonly<Record<string, string>> = {
  PIP_CACHE_DIR: `${inside.caches}/pip`,
  YARN_CACHE_FOLDER: `${inside.caches}/yarn`,
}

/** Has the tools of a home find the shared caches, or no longer look for them where there are none: the home may have come from a
 *  session that had some. Invariant: before the cell stands, and without following a link. A folder that is there already is the
 *  agent's, and nothing is put into it. */
export function linkCaches(home: string, { shared }: { readonly shared: boolean }): void {
  for (const { path, to } of links) {
    const target = `${inside.caches}/${to}`
    const whole = join(home, ...path)
    if (shared) {
      if (isNew(join(home, path[0]))) {
        mkdirSync(join(whole, '..'), { recursive: true })
        symlinkSync(target, whole)
      }
    } else if (
      path.slice(0, -1).every((_, depth) => isFolder(join(home, ...path.slice(0, depth + 1)))) &&
      leadsTo(whole, target)
    ) {
      rmSync(whole)
    }
  }
}

function isNew(folder: string): boolean {
  try {
    mkdirSync(folder)
    return true
  } catch {
    return false
  }
}

const isFolder = (path: string) => lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true

function leadsTo(path: string, target: string): boolean {
  try {
    return readlinkSync(path) === target
  } catch {
    return false
  }
}
