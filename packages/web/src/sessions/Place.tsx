import { printableLine } from '@anchorhold/core/printable'
import type { Session } from '@anchorhold/protocol/sessions'
import { Folder, GitBranch } from 'lucide-react'
import { folderName } from './order.ts'

/** Where a session works: its folder, and the branch that the cell's git says is checked out there. */
export function Place({ session: { id, workspace, branch } }: { readonly session: Session }) {
  return (
    <span className="flex min-w-0 items-center gap-2.5">
      <span className="flex max-w-40 min-w-0 shrink-0 items-center gap-1" title={printableLine(workspace)}>
        <Folder size={13} aria-hidden className="shrink-0 text-faint" />
        <span className="truncate">{printableLine(folderName(workspace, id))}</span>
      </span>
      {branch !== null && (
        <span className="flex min-w-0 items-center gap-1" title={`On the branch ${printableLine(branch)}`}>
          <GitBranch size={13} aria-hidden className="shrink-0 text-faint" />
          <span className="sr-only">branch </span>
          <span className="truncate">{printableLine(branch)}</span>
        </span>
      )}
    </span>
  )
}
