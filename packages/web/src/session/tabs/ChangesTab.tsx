import { withoutChanges } from '@anchorhold/core/changes-words'
import { printableLine } from '@anchorhold/core/printable'
import type { Session } from '@anchorhold/protocol/sessions'
import type { ChangedFile, Changes } from '@anchorhold/protocol/workspace'
import { useQuery } from '@tanstack/react-query'
import { ChevronRight, RefreshCw } from 'lucide-react'
import { useState } from 'react'
import { wordsOf } from '../../daemon.ts'
import { changesQuery } from '../../live/queries.ts'
import { Button, CopyButton, Empty, Trouble } from '../../ui/controls.tsx'
import { Pane } from './Pane.tsx'
import { Patch } from './Patch.tsx'

/** What the workspace has that its last commit has not, or that it had not when the session began. Looked at anew after every turn, and when somebody wants to know. */
export function ChangesTab({ session }: { readonly session: Session }) {
  const [against, setAgainst] = useState<Against>('head')
  const { data, error, isFetching, refetch } = useQuery(changesQuery(session, against))
  return (
    <Pane name="Changes">
      <div className="flex items-center justify-between gap-3">
        <div role="group" aria-label="Changes since" className="flex rounded-xl bg-raised p-1">
          {(['head', 'start'] as const).map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={one === against}
              onClick={() => setAgainst(one)}
              className={`min-h-9 rounded-lg px-3 text-sm ${one === against ? 'bg-surface font-medium shadow-card' : 'text-soft hover:text-ink'}`}
            >
              {sinceWords[one]}
            </button>
          ))}
        </div>
        <Button look="ghost" disabled={isFetching} onClick={() => void refetch()} aria-label="Refresh" title="Refresh">
          <RefreshCw size={16} aria-hidden className={isFetching ? 'animate-spin' : ''} />
        </Button>
      </div>
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data === undefined && error === null && <p className="text-sm text-faint">Loading the workspace…</p>}
      {error === null && data !== undefined && <Summary changes={data} />}
      {data?.git === true && data.files.map((file) => <FileChanges key={file.path} file={file} />)}
      {data?.git === true && data.more && <p className="text-sm text-faint">Not all files are shown.</p>}
      {data?.git === true && data.files.length === 0 && <Empty title="Nothing has changed">{unchanged[against]}</Empty>}
      {data?.git === false && <Empty title={withoutChanges[data.why]}>{printableLine(data.message)}</Empty>}
    </Pane>
  )
}

type Against = 'head' | 'start'
const sinceWords = { head: 'Last commit', start: 'Start of the session' } as const satisfies Record<Against, string>
const unchanged = {
  head: 'The workspace matches its last commit. To see what the agent has committed, compare with the start of the session.',
  start: 'The workspace is as it was when the session began.',
} as const satisfies Record<Against, string>

function Summary({ changes }: { readonly changes: Changes }) {
  if (!changes.git) return null
  const sum = (of: 'added' | 'removed') => changes.files.reduce((all, file) => all + (file[of] ?? 0), 0)
  return (
    <p className="min-w-0 text-sm text-soft [overflow-wrap:anywhere]">
      {changes.files.length} {changes.files.length === 1 ? 'file' : 'files'}{' '}
      <Counts added={sum('added')} removed={sum('removed')} />{' '}
      {changes.branch !== null && <>on {printableLine(changes.branch)} </>}
      {changes.head === null
        ? 'since nothing was committed'
        : `since ${changes.head.hash} ${printableLine(changes.head.subject)}`}
    </p>
  )
}

function Counts({ added, removed }: { readonly added: number | null; readonly removed: number | null }) {
  return (
    <span className="font-mono text-[0.8125rem] whitespace-nowrap tabular-nums">
      <span className="text-good">+{added ?? '?'}</span> <span className="text-danger">−{removed ?? '?'}</span>
    </span>
  )
}

const words = {
  added: 'new',
  untracked: 'new, untracked',
  modified: 'changed',
  deleted: 'removed',
  renamed: 'renamed',
} as const satisfies Record<ChangedFile['status'], string>

function FileChanges({ file }: { readonly file: ChangedFile }) {
  const [open, setOpen] = useState(false)
  const path = printableLine(file.path)
  return (
    <section aria-label={path} className="card overflow-hidden">
      <div className="flex items-center pr-1.5">
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="flex min-h-11 min-w-0 flex-1 items-center gap-2.5 px-3.5 py-2 text-left text-sm hover:bg-raised"
        >
          <ChevronRight size={15} aria-hidden className={`shrink-0 text-faint transition-transform ${open ? 'rotate-90' : ''}`} />
          <span className="min-w-0 flex-1 font-mono text-[0.8125rem] [overflow-wrap:anywhere]">
            {file.from !== null && <span className="text-faint">{printableLine(file.from)} → </span>}
            {path}
          </span>
          <span className="shrink-0 text-xs text-faint">
            {file.binary ? `${words[file.status]}, binary` : words[file.status]}
          </span>
          {!file.binary && <Counts added={file.added} removed={file.removed} />}
        </button>
        {file.patch !== null && file.patch !== '' && <CopyButton text={file.patch} name={`Copy the changes of ${path}`} />}
      </div>
      {open &&
        (file.patch === null || file.patch === '' ? (
          <p className="border-t border-line px-4 py-3 text-sm text-faint">
            {file.binary ? 'Not text: nothing to show.' : file.truncated ? 'Too long to show.' : 'No lines were changed.'}
          </p>
        ) : (
          <>
            <Patch patch={file.patch} name={`Changes of ${path}`} />
            {file.truncated && <p className="border-t border-line px-4 py-2 text-xs text-faint">The rest is too long to show.</p>}
          </>
        ))}
    </section>
  )
}
