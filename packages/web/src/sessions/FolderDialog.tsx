import { printableLine } from '@anchorhold/core/printable'
import type { HostFolder } from '@anchorhold/protocol/api/folders'
import { useQuery } from '@tanstack/react-query'
import { ArrowUp, ChevronRight, Folder, FolderGit2 } from 'lucide-react'
import { useState } from 'react'
import { wordsOf } from '../daemon.ts'
import { foldersQuery } from '../live/queries.ts'
import { Button, Dialog, Trouble } from '../ui/controls.tsx'
import { lastPart } from './order.ts'

type Props = { readonly onClose: () => void; readonly onChoose: (folder: string) => void }

/** Through the folders of the machine, from those that the owner has named downwards. */
export function FolderDialog({ onClose, onChoose }: Props) {
  const [at, setAt] = useState<HostFolder | null>(null)
  const [typed, setTyped] = useState('')
  const { data, error } = useQuery(foldersQuery(at?.path ?? null))
  const chosen = typed.trim() !== '' ? typed.trim() : at?.usable === true ? at.path : null
  const above = (path: string): HostFolder => ({ path, name: lastPart(path), repository: false, usable: false })
  return (
    <Dialog open title="Which folder?" onClose={onClose}>
      <p
        className="mt-1 min-h-5 truncate font-mono text-xs text-soft"
        title={at === null ? undefined : printableLine(at.path)}
        dir="ltr"
      >
        {at === null ? 'Folders of this machine' : printableLine(at.path)}
      </p>
      <ul className="scroll mt-3 -mx-2 grid h-[min(22rem,45dvh)] content-start gap-0.5">
        {at !== null && (
          <li>
            <button
              type="button"
              className="flex min-h-11 w-full items-center gap-3 rounded-xl px-3 text-left text-[0.9375rem] text-soft hover:bg-raised"
              onClick={() => setAt(data?.above == null ? null : above(data.above))}
            >
              <ArrowUp size={17} aria-hidden className="text-faint" />
              {data?.above == null ? 'All roots' : `Up to ${printableLine(lastPart(data.above))}`}
            </button>
          </li>
        )}
        {data?.folders.map((folder) => (
          <li key={folder.path}>
            <button
              type="button"
              className="flex min-h-11 w-full items-center gap-3 rounded-xl px-3 text-left text-[0.9375rem] hover:bg-raised"
              onClick={() => setAt(folder)}
            >
              {folder.repository ? (
                <FolderGit2 size={17} aria-label="Git repository" className="shrink-0 text-accent-ink" />
              ) : (
                <Folder size={17} aria-hidden className="shrink-0 text-faint" />
              )}
              <span className="min-w-0 flex-1 truncate">{printableLine(at === null ? folder.path : folder.name)}</span>
              <ChevronRight size={16} aria-hidden className="text-faint" />
            </button>
          </li>
        ))}
        {data?.more === true && <li className="px-3 py-2 text-sm text-faint">Not all are shown: type the path below.</li>}
        {data !== undefined && data.folders.length === 0 && (
          <li className="px-3 py-6 text-center text-sm text-faint">
            {at === null
              ? 'No folders are shared: an owner lists them in config.yaml (shared_folders).'
              : 'No folders in here. You can use this one.'}
          </li>
        )}
        {error !== null && (
          <li>
            <Trouble>{wordsOf(error)}</Trouble>
          </li>
        )}
      </ul>
      {/* No form: it stands in one. */}
      <div className="mt-4 grid gap-3 border-t border-line pt-4">
        <label className="grid gap-1.5 text-sm font-medium">
          Or its full path
          <input
            className="field font-mono text-sm font-normal"
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter') return
              event.preventDefault()
              if (chosen !== null) onChoose(chosen)
            }}
            placeholder="/home/you/src/app"
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
          />
        </label>
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button
            look="primary"
            disabled={chosen === null}
            className="min-w-0"
            onClick={() => chosen !== null && onChoose(chosen)}
          >
            <span className="truncate">{chosen === null ? 'Use this folder' : `Use ${printableLine(lastPart(chosen))}`}</span>
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
