import { isPicturePath } from '@anchorhold/core/picture'
import { printable, printableLine } from '@anchorhold/core/printable'
import { sizeWords } from '@anchorhold/core/size-words'
import { apiRoot } from '@anchorhold/protocol/api/addresses'
import type { SessionId } from '@anchorhold/protocol/ids'
import type { Session } from '@anchorhold/protocol/sessions'
import type { FileEntry } from '@anchorhold/protocol/workspace'
import { useQuery } from '@tanstack/react-query'
import { Download, File, FileSymlink, Folder, FolderUp } from 'lucide-react'
import { useState } from 'react'
import { wordsOf } from '../../daemon.ts'
import { fileQuery, filesQuery } from '../../live/queries.ts'
import { Code } from '../../ui/Code.tsx'
import { Empty, Trouble } from '../../ui/controls.tsx'
import { pictureAddress } from '../../ui/WorkspacePicture.tsx'
import { Pane } from './Pane.tsx'

type Place = { readonly folder: string; readonly file: string | null }

/** The workspace as its cell sees it: folder by folder, and one file at a time. */
export function FilesTab({ session }: { readonly session: Session }) {
  const [{ folder, file }, go] = useState<Place>({ folder: '', file: null })
  const { data, error } = useQuery(filesQuery(session, folder))
  const at = (name: string) => (folder === '' ? name : `${folder}/${name}`)
  return (
    <Pane name="Files">
      <p className="font-mono text-[0.8125rem] text-soft [overflow-wrap:anywhere]">
        workspace{folder !== '' && `/${printableLine(folder)}`}
      </p>
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data === undefined && error === null && <p className="text-sm text-faint">Loading the workspace…</p>}
      <ul className="card grid grid-cols-1 divide-y divide-line overflow-hidden empty:hidden">
        {folder !== '' && (
          <li>
            <Row
              icon={<FolderUp size={17} />}
              name="Up"
              onOpen={() => go({ folder: folder.split('/').slice(0, -1).join('/'), file: null })}
            />
          </li>
        )}
        {data?.entries.map((entry) => (
          <li key={entry.name}>
            <Row
              icon={icons[entry.kind]}
              name={printableLine(entry.name)}
              about={entry.kind === 'file' ? sizeWords(entry.size) : entry.kind === 'folder' ? '' : entry.kind}
              onOpen={
                entry.kind === 'other'
                  ? null
                  : () => go(entry.kind === 'folder' ? { folder: at(entry.name), file: null } : { folder, file: at(entry.name) })
              }
              open={file === at(entry.name)}
            />
            {file === at(entry.name) && <FileView session={session} path={file} />}
          </li>
        ))}
      </ul>
      {data?.more && <p className="text-sm text-faint">Not everything in this folder is shown.</p>}
      {data?.entries.length === 0 && folder === '' && <Empty title="The workspace is empty" />}
    </Pane>
  )
}

const icons = {
  folder: <Folder size={17} />,
  file: <File size={17} />,
  link: <FileSymlink size={17} />,
  other: <File size={17} />,
} as const satisfies Record<FileEntry['kind'], unknown>

function Row({
  icon,
  name,
  about = '',
  open,
  onOpen,
}: {
  readonly icon: React.ReactNode
  readonly name: string
  readonly about?: string
  readonly open?: boolean
  readonly onOpen: (() => void) | null
}) {
  return (
    <button
      type="button"
      disabled={onOpen === null}
      aria-expanded={open}
      onClick={() => onOpen?.()}
      className="flex min-h-11 w-full items-center gap-3 px-3.5 text-left text-sm hover:bg-raised disabled:hover:bg-transparent"
    >
      <span aria-hidden className="text-faint">
        {icon}
      </span>
      <span className="min-w-0 flex-1 [overflow-wrap:anywhere]">{name}</span>
      <span className="shrink-0 text-xs text-faint tabular-nums">{about}</span>
    </button>
  )
}

function FileView({ session, path }: { readonly session: Session; readonly path: string }) {
  const { data, error } = useQuery(fileQuery(session, path))
  return (
    <div className="border-t border-line">
      {error !== null && <Trouble>{wordsOf(error)}</Trouble>}
      {data !== undefined &&
        (data.text === null ? (
          <NoText session={session.id} path={path} size={data.size} />
        ) : (
          <Code bare text={printable(data.text)} language={/\.(\w+)$/.exec(path)?.[1] ?? null} />
        ))}
      {data?.truncated && data.text !== null && <p className="px-4 pb-2 text-xs text-faint">Only its beginning is shown.</p>}
      {data !== undefined && (
        <a
          href={downloadOf(session.id, path)}
          download
          className="m-2 inline-flex min-h-11 items-center gap-2 rounded-xl px-3 text-sm text-soft hover:bg-raised hover:text-ink"
        >
          <Download size={16} aria-hidden />
          Download
        </a>
      )}
    </div>
  )
}

/** A picture is shown; of anything else that is no text, how large it is. */
function NoText({ session, path, size }: { readonly session: SessionId; readonly path: string; readonly size: number }) {
  const [failed, setFailed] = useState(false)
  if (failed || !isPicturePath(path)) return <p className="px-4 py-3 text-sm text-faint">No text: {sizeWords(size)}.</p>
  return (
    <img
      src={pictureAddress(session, path)}
      alt={printableLine(path)}
      onError={() => setFailed(true)}
      className="picture mx-auto block max-h-[70dvh] max-w-full object-contain"
    />
  )
}

const downloadOf = (id: SessionId, path: string) => `${apiRoot}/sessions/${id}/download?path=${encodeURIComponent(path)}`
