import { printableLine } from '@anchorhold/core/printable'
import { useQuery } from '@tanstack/react-query'
import { Folder, FolderOpen, FolderPlus } from 'lucide-react'
import { type ReactNode, useState } from 'react'
import { foldersQuery } from '../live/queries.ts'
import { FolderDialog } from './FolderDialog.tsx'
import { lastPart } from './order.ts'

/** As many as fit under a thumb without scrolling far. */
const recentMax = 4

/** Where a new session works: an empty folder, one of the last ones, or one that is looked for. The empty string is the empty folder. */
export function FolderChoice({ value, onChange }: { readonly value: string; readonly onChange: (folder: string) => void }) {
  const { data } = useQuery(foldersQuery(null))
  const [choosing, setChoosing] = useState(false)
  const recent = (data?.recent ?? []).slice(0, recentMax)
  const shown = value === '' || recent.includes(value) ? recent : [value, ...recent]
  return (
    <div role="group" aria-label="Folder" className="mt-3 flex flex-wrap gap-2 px-1">
      <Choice chosen={value === ''} icon={<FolderPlus size={15} />} onChoose={() => onChange('')}>
        Empty folder
      </Choice>
      {shown.map((folder) => (
        <Choice
          key={folder}
          chosen={folder === value}
          icon={<Folder size={15} />}
          title={printableLine(folder)}
          onChoose={() => onChange(folder)}
        >
          {printableLine(lastPart(folder))}
        </Choice>
      ))}
      <Choice chosen={null} icon={<FolderOpen size={15} />} onChoose={() => setChoosing(true)}>
        Choose…
      </Choice>
      {choosing && (
        <FolderDialog
          onClose={() => setChoosing(false)}
          onChoose={(folder) => {
            setChoosing(false)
            onChange(folder)
          }}
        />
      )}
    </div>
  )
}

function Choice({
  chosen,
  icon,
  title,
  onChoose,
  children,
}: {
  /** Null for what leads further. */
  readonly chosen: boolean | null
  readonly icon: ReactNode
  readonly title?: string
  readonly onChoose: () => void
  readonly children: ReactNode
}) {
  return (
    <button
      type="button"
      aria-pressed={chosen ?? undefined}
      title={title}
      onClick={onChoose}
      className={`inline-flex min-h-10 max-w-full items-center gap-2 rounded-full border px-3.5 text-sm transition-colors ${chosen === true ? 'border-accent bg-accent-wash font-medium text-accent-ink' : 'border-line bg-surface text-soft hover:border-line-strong hover:text-ink'}`}
    >
      <span aria-hidden className="shrink-0">
        {icon}
      </span>
      <span className="truncate">{children}</span>
    </button>
  )
}
