import { type CheckedOut, nothingCheckedOut } from '@anchorhold/protocol/workspace'
import { lstat } from 'node:fs/promises'
import type { Cell } from '../cells/cell.ts'
import { askWorkspace, type WorkspacePlace } from './ask-workspace.ts'

/** Tells what a workspace's repository has checked out whenever that is another branch or commit than was last told. */
export function repositoryWatch(
  known: CheckedOut,
  checkedOut: (cell: Cell) => Promise<CheckedOut | null>,
  tell: (found: CheckedOut) => void,
): { look(cell: Cell): Promise<void> } {
  let last = known
  return {
    /** Never rejects: a cell that gives no answer has told nothing new. */
    async look(cell) {
      const found = await checkedOut(cell).catch(() => null)
      if (found === null || (found.branch === last.branch && found.commit === last.commit)) return
      last = found
      tell(found)
    },
  }
}

/** Asks the cell's own git. Where the folder has no repository there is nothing to ask, and no process is started for it. */
export async function checkedOutIn(cell: Cell, place: WorkspacePlace): Promise<CheckedOut | null> {
  const bare = await lstat(`${place.workspace}/.git`).then(
    () => false,
    () => true,
  )
  return bare ? nothingCheckedOut : ((await askWorkspace(cell, place, { ask: 'checked_out' })) as CheckedOut)
}
