import type { RepoFilter } from '@anchorhold/protocol/sessions'
import type { Cover } from '../cells/cell.ts'
import { coverWorkspace, findHidden } from './covers.ts'

/** What keeps a cell from seeing some files of its workspace. */
export interface Veil {
  /** What is to be covered as the workspace is now. Called before the cell starts. */
  cover(): readonly Cover[]
  /** Files that came since and would be covered, below the workspace; each is told once. */
  uncovered(): readonly string[]
}

/** Looking through a workspace that takes longer than this is not done after every turn. */
const quickMs = 250

/** The filter over a workspace. `folder` is for what the cell sees instead. */
export function veilOver(workspace: string, filter: RepoFilter, folder: string): Veil {
  const known = new Set<string>()
  let isQuick = true
  return {
    cover() {
      const before = performance.now()
      const covers = coverWorkspace(workspace, filter, folder)
      isQuick = performance.now() - before < quickMs
      for (const { path } of covers) known.add(path)
      return covers
    },
    uncovered() {
      if (filter === 'none' || !isQuick) return []
      const fresh = [...findHidden(workspace, filter).keys()].filter((path) => !known.has(path))
      for (const path of fresh) known.add(path)
      return fresh.map((path) => path.slice(workspace.length + 1))
    },
  }
}

export const noVeil: Veil = { cover: () => [], uncovered: () => [] }
