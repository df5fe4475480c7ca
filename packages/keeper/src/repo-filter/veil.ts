import type { RepoFilter } from '@anchorhold/protocol/sessions'
import type { Cell, Cover } from '../cells/cell.ts'
import { coverWorkspace, findHidden } from './covers.ts'
import { hiddenMemory } from './memory.ts'
import { isOthersWork } from './names.ts'
import { keepTracked } from './tracked.ts'

/** What keeps a cell from seeing some files of its workspace. */
export interface Veil {
  /** What is to be covered as the workspace is now. Called before the cell starts. */
  cover(): Promise<readonly Cover[]>
  /** Sees to it that git in the cell takes what is covered for unchanged. Gives those that a repository tracks, below the workspace.
   *  @param home the host path of the cell's home */
  keepTracked(cell: Cell, covers: readonly Cover[], home: string): Promise<readonly string[]>
  /** Files that came since and would be covered, below the workspace; each is told once. An agent may be at work there meanwhile: whatever it
   *  makes of its workspace, this answers in time. */
  uncovered(): Promise<readonly string[]>
  /** Whether `uncovered` looks at all: not where that would hold up every turn, nor once it could not. */
  readonly watches: boolean
}

/** Looking through a workspace that takes longer than this is not done after every turn. */
const quickMs = 250
/** And no turn waits longer for it than this. */
const patienceMs = 10_000

export type VeilOptions = {
  readonly workspace: string
  readonly filter: RepoFilter
  /** For what the cell sees instead. */
  readonly folder: string
  /** Where it is remembered what was hidden in this workspace. */
  readonly memory: string
}

/** The filter over a workspace. */
export function veilOver({ workspace, filter, folder, memory }: VeilOptions): Veil {
  const known = new Set<string>()
  let watches = true
  // Not in folders of packages: they hold most of the files, and what comes there is hidden from the next start on all the same.
  async function comeSince(goOn?: () => void): Promise<readonly string[]> {
    const { hidden } = await findHidden(workspace, filter, [], { skips: isOthersWork, ...(goOn === undefined ? {} : { goOn }) })
    const fresh = [...hidden.keys()].filter((path) => !known.has(path))
    for (const path of fresh) known.add(path)
    return fresh
  }
  return {
    get watches() {
      return watches
    },
    async cover() {
      const covers = await coverWorkspace(workspace, filter, folder, hiddenMemory(memory, filter))
      for (const { path } of covers) known.add(path)
      const before = performance.now()
      await comeSince()
      watches = performance.now() - before < quickMs
      return covers
    },
    keepTracked: (cell, covers, home) => keepTracked(cell, { workspace, home, covers }),
    async uncovered() {
      if (filter === 'none' || !watches) return []
      const late = AbortSignal.timeout(patienceMs)
      // It may also be that the disk does not answer, and no step of the look comes to its end.
      const cut = new Promise<never>((_, reject) => late.addEventListener('abort', () => reject(late.reason as Error)))
      try {
        const fresh = await Promise.race([comeSince(() => late.throwIfAborted()), cut])
        return fresh.map((path) => path.slice(workspace.length + 1))
      } catch {
        // Whatever the agent has made of it, the turn is over and its session goes on: this look hides nothing. That there is none any more
        // is told, and the next start, which does hide, refuses and says why.
        watches = false
        return []
      }
    },
  }
}

export const noVeil: Veil = { cover: async () => [], keepTracked: async () => [], uncovered: async () => [], watches: true }
