import { listFound } from '@anchorhold/link/found-file'
import { isUtf8 } from 'node:buffer'
import { readdirSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { isGitFolder } from './git-config.ts'
import { identityOf } from './memory.ts'

export type Entry = { readonly name: string; isFile(): boolean; isDirectory(): boolean; isSymbolicLink(): boolean }

/** Something in a workspace, as a walk comes by. */
export type Seen = {
  readonly path: string
  /** The same below the workspace. */
  readonly below: string
  readonly entry: Entry
  /** It lies right in the folder that git keeps a repository in. */
  readonly inGit: boolean
}

export type Walk = {
  /** Whether to go on into a folder. */
  visit(seen: Seen): boolean | Promise<boolean>
  /** A folder that cannot be looked into: not for this user, or too deep. The cell could get at what is in it, by a change of mode or step
   *  by step. */
  closed(folder: string): void
  /** Something in a folder whose name, or that of a folder above it there, is no text, so that it cannot be named. `below` is near to what
   *  it would be. Says whether to go on: one answer is enough. */
  nameless(folder: string, below: string, path: Buffer): boolean
  /** Throws when the walk takes too long. */
  goOn?(): void
}

/** A name of this length can be mounted on, and the names below it still be read. */
const pathBytesMax = 3_000

/** What else this process has to do waits no longer than this for a walk. */
const turnMs = 20

/** Visits everything in a folder, following no link: an agent may be at work there. */
export async function walk(root: string, { visit, closed, nameless, goOn = () => {} }: Walk): Promise<void> {
  const folders = ['']
  let begun = performance.now()
  for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
    goOn()
    if (performance.now() - begun > turnMs) {
      await setImmediate()
      begun = performance.now()
    }
    const folder = at === '' ? root : `${root}/${at}`
    const entries = listFound(folder)
    if (entries === null) {
      closed(folder)
      continue
    }
    const inGit = isGitFolder(entries.map(({ name }) => name))
    let isText = true
    for (const entry of entries) {
      const below = at === '' ? entry.name : `${at}/${entry.name}`
      const path = `${root}/${below}`
      if (!leadsThere(path, entry.name)) isText = false
      else {
        const answer = visit({ path, below, entry, inGit })
        // Most answers are there at once.
        const isWanted = typeof answer === 'boolean' ? answer : await answer
        if (!isWanted || !entry.isDirectory()) continue
        if (Buffer.byteLength(path) > pathBytesMax) closed(path)
        else folders.push(below)
      }
    }
    if (!isText) walkNameless(folder, at, { closed, nameless })
  }
}

/** By bytes, through what `walk` cannot name in a folder. */
function walkNameless(top: string, at: string, { closed, nameless }: Pick<Walk, 'closed' | 'nameless'>): void {
  const folders = [{ folder: Buffer.from(top), below: at, isTop: true }]
  for (let next = folders.pop(); next !== undefined; next = folders.pop()) {
    let entries
    try {
      entries = readdirSync(next.folder, { withFileTypes: true, encoding: 'buffer' })
    } catch {
      return closed(top)
    }
    for (const entry of entries) {
      if (next.isTop && isUtf8(entry.name)) continue
      const path = Buffer.concat([next.folder, Buffer.from('/'), entry.name])
      // What has so long a name may be anything, and not be told from what is looked for.
      if (path.length > pathBytesMax) return closed(top)
      const below = `${next.below}/${entry.name.toString()}`
      if (!nameless(top, below, path)) return
      if (entry.isDirectory()) folders.push({ folder: path, below, isTop: false })
    }
  }
}

/** What stands for bytes that are no UTF-8 leads to no file, unless it is the character itself, and may be too long for a name. */
const leadsThere = (path: string, name: string) => !name.includes('\uFFFD') || identityOf(path) !== null
