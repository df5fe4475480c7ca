import { readFound } from '@anchorhold/link/found-file'
import { createHash } from 'node:crypto'
import { lstatSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { RepoFilter } from '@anchorhold/protocol/sessions'
import { z } from 'zod'

/** What makes a file or folder itself, whatever its name: its number, and when that number was given out. Not the device, whose number
 *  another start of the machine may change. Null when it is gone, or in a folder that cannot be looked into: gone is also what lay in a
 *  folder that has become a file or a link to itself, and what nothing can be named like. */
export function identityOf(path: string | Buffer): Identified | null {
  try {
    const stat = lstatSync(path, { throwIfNoEntry: false })
    return stat === undefined ? null : { id: `${stat.ino}:${stat.birthtimeMs}`, links: stat.nlink }
  } catch (error) {
    if (unreachable.has((error as NodeJS.ErrnoException).code)) return null
    throw error
  }
}
const unreachable: ReadonlySet<string | undefined> = new Set(['EACCES', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG'])
export type Identified = { readonly id: string; readonly links: number }

/** One file or folder that was hidden. `parent` and `name` are for one that is written anew in its place. */
const Remembered = z.strictObject({
  id: z.string(),
  parent: z.string(),
  name: z.string(),
  kind: z.enum(['file', 'folder', 'git']),
  /** Where it was, below the workspace: it is looked for there first. */
  below: z.string(),
  /** How often it was not there any more. */
  missed: z.int(),
})
export type Remembered = z.infer<typeof Remembered>
const Memory = z.strictObject({ hidden: z.array(Remembered) })

/** What was hidden in a workspace at earlier starts, so that it is hidden again wherever a cell has moved it to in between.
 *  Invariant: no cell can write it. */
export interface HiddenMemory {
  read(): Promise<readonly Remembered[]>
  write(hidden: readonly Remembered[]): void
}

/** Moving folders about while they are walked through may make one be missed; one that was missed so often is gone. */
export const missedMax = 5
const rememberedMax = 5_000
/** Each has a path, and that a few thousand bytes at most. */
const memoryBytesMax = 32 * 1024 * 1024

/** By the filter as well: what another one would hide is none of this one's business. */
export function hiddenMemory(folder: string, filter: RepoFilter): HiddenMemory {
  const name = createHash('sha256').update(JSON.stringify(filter)).digest('hex').slice(0, 16)
  const path = `${folder}/hidden-${name}.json`
  return {
    async read() {
      try {
        return Memory.parse(JSON.parse(await readFound(path, memoryBytesMax))).hidden
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
        throw error
      }
    },
    write(hidden) {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      const fresh = `${path}.${process.pid}`
      writeFileSync(fresh, JSON.stringify({ hidden: hidden.slice(0, rememberedMax) }), { mode: 0o600 })
      renameSync(fresh, path)
    },
  }
}
