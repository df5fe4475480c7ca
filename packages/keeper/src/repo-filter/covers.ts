import { lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Failure } from '@anchorhold/protocol/failures'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import type { Cover } from '../cells/cell.ts'
import { cleanGitConfig, isGitConfig } from './git-config.ts'
import { filterOf } from './names.ts'

/** Each cover is a mount, and a workspace with more secrets than this wants another rule. */
const coversMax = 1000
const gitConfigBytesMax = 1024 * 1024

/** Hides what a filter names in a workspace: an empty file or folder is seen in its place, and of git's settings a clean copy.
 *  `folder` is for what the cell sees instead; the cell itself must not be able to write there.
 *  Does not hide: what the history of a repository holds, and files that are made after this. */
export function coverWorkspace(workspace: string, filter: RepoFilter, folder: string): readonly Cover[] {
  rmSync(folder, { recursive: true, force: true })
  const found = findHidden(workspace, filter)
  if (found.size === 0) return []
  if (found.size > coversMax)
    throw new Failure('cell_unavailable', `The repository filter hides ${found.size} files, more than the ${coversMax} it can`, {
      hint: 'Name folders instead of files in a filter of your own, or choose "standard"',
    })
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const [file, directory] = [join(folder, 'file'), join(folder, 'folder')]
  writeFileSync(file, '', { mode: 0o444 })
  mkdirSync(directory, { mode: 0o555 })
  return [...found].map(([path, what], at) => {
    if (what === 'file' || what === 'folder') return { path, by: what === 'file' ? file : directory }
    const by = join(folder, `git-config-${at}`)
    writeFileSync(by, what.instead, { mode: 0o444 })
    return { path, by }
  })
}

/** A file or folder to hide, or a file that something else is to be seen in place of. */
type Hidden = 'file' | 'folder' | { readonly instead: string }

/** What a filter hides in a workspace, by its real path. */
export function findHidden(workspace: string, filter: RepoFilter): ReadonlyMap<string, Hidden> {
  const found = new Map<string, Hidden>()
  if (filter === 'none') return found
  const root = realpathSync(workspace)
  const { hides, entersFolder } = filterOf(filter)
  const inodes = new Set<string>()

  function hide(path: string, kind: 'file' | 'folder'): void {
    found.set(path, kind)
    const stat = kind === 'file' ? lstatSync(path, { throwIfNoEntry: false }) : undefined
    if (stat !== undefined && stat.nlink > 1) inodes.add(`${stat.dev}:${stat.ino}`)
  }

  walk(root, '', entersFolder, (path, below, entry) => {
    if (isGitConfig(below) && entry.isFile()) {
      const instead = cleaned(path)
      if (instead !== null) found.set(path, { instead })
      return false
    }
    if (!hides(below)) return true
    if (entry.isSymbolicLink()) {
      // The link itself says nothing; what it leads to is hidden, under whatever name, if the cell can see it at all.
      const target = targetOf(path)
      if (target?.path.startsWith(`${root}/`)) hide(target.path, target.kind)
      return false
    }
    if (entry.isFile() || entry.isDirectory()) hide(path, entry.isFile() ? 'file' : 'folder')
    return false
  })
  // The same file may be there under another name.
  if (inodes.size > 0)
    walk(
      root,
      '',
      () => true,
      (path, _, entry) => {
        if (!entry.isFile()) return true
        const stat = lstatSync(path, { throwIfNoEntry: false })
        if (stat !== undefined && inodes.has(`${stat.dev}:${stat.ino}`)) found.set(path, 'file')
        return true
      },
    )
  // What lies in a hidden folder is hidden with it.
  return new Map([...found].filter(([path]) => !isBelowOne(path, found)))
}

function isBelowOne(path: string, found: ReadonlyMap<string, Hidden>): boolean {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1))
    if (found.get(path.slice(0, end)) === 'folder') return true
  return false
}

type Entry = { isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }

/** Visits everything in a folder, following no link. `visit` says whether to go on into a folder. */
function walk(
  root: string,
  below: string,
  enters: (name: string) => boolean,
  visit: (path: string, below: string, entry: Entry) => boolean,
): void {
  const folders = [below]
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    for (const entry of entriesOf(at === '' ? root : `${root}/${at}`)) {
      const inner = at === '' ? entry.name : `${at}/${entry.name}`
      const goesOn = visit(`${root}/${inner}`, inner, entry)
      // Of git's own files only the settings are looked at.
      if (goesOn && entry.isDirectory() && enters(entry.name) && !/(?:^|\/)\.git\/(?!modules|worktrees)[^/]+$/i.test(inner))
        folders.push(inner)
    }
  }
}

function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true })
  } catch {
    return [] // gone in between, or not for this user, and so not for the cell either
  }
}

function targetOf(link: string): { readonly path: string; readonly kind: 'file' | 'folder' } | null {
  try {
    const path = realpathSync(link)
    const stat = statSync(path)
    return stat.isFile() || stat.isDirectory() ? { path, kind: stat.isFile() ? 'file' : 'folder' } : null
  } catch {
    return null // it leads nowhere
  }
}

function cleaned(path: string): string | null {
  try {
    return statSync(path).size > gitConfigBytesMax ? '' : cleanGitConfig(readFileSync(path, 'utf8'))
  } catch {
    return null // not for this user, and so not for the cell either
  }
}
