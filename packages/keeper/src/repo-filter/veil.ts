import type { RepoFilter } from '@anchorhold/protocol/sessions'
import type { Cover } from '../cells/cell.ts'
import { coverWorkspace, findHidden } from './covers.ts'
import { hiddenMemory } from './memory.ts'
import { isOthersWork } from './names.ts'

/** What keeps a cell from seeing some files of its workspace. */
export interface Veil {
  /** What is to be covered as the workspace is now. Called before the cell starts. */
  cover(): readonly Cover[]
  /** Files that came since and would be covered, below the workspace; each is told once. */
  uncovered(): readonly string[]
  /** Whether `uncovered` looks at all: not where that would hold up every turn, nor once it could not. */
  readonly watches: boolean
}

/** Looking through a workspace that takes longer than this is not done after every turn. */
const quickMs = 250

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
  const comeSince = () => {
    const fresh = [...findHidden(workspace, filter, [], isOthersWork).hidden.keys()].filter((path) => !known.has(path))
    for (const path of fresh) known.add(path)
    return fresh
  }
  return {
    get watches() {
      return watches
    },
    cover() {
      const covers = coverWorkspace(workspace, filter, folder, hiddenMemory(memory, filter))
      for (const { path } of covers) known.add(path)
      const before = performance.now()
      comeSince()
      watches = performance.now() - before < quickMs
      return covers
    },
    uncovered() {
      if (filter === 'none' || !watches) return []
      try {
        return comeSince().map((path) => path.slice(workspace.length + 1))
      } catch {
        // Whatever the agent has made of it, the turn is over and its session goes on: this look hides nothing. That there is none any more
        // is told, and the next start, which does hide, refuses and says why.
        watches = false
        return []
      }
    },
  }
}

export const noVeil: Veil = { cover: () => [], uncovered: () => [], watches: true }
