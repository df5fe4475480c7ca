import { printableLine } from '@anchorhold/core/printable'
import { apiRoot } from '@anchorhold/protocol/api/addresses'
import type { SessionId } from '@anchorhold/protocol/ids'
import { Image } from 'lucide-react'
import { createContext, useContext, useState } from 'react'

/** The workspace that pictures in a conversation lie in. */
export type PictureShelf = {
  readonly session: SessionId
  /** Where the host has it. */
  readonly folder: string
  /** There is a cell to ask already. Where there is none, one is started for who wants to see a picture, and not for who scrolls by. */
  readonly atOnce: boolean
}
export const PictureShelfContext = createContext<PictureShelf | null>(null)
export const usePictureShelf = (): PictureShelf | null => useContext(PictureShelfContext)

export const pictureAddress = (session: SessionId, path: string): string =>
  `${apiRoot}/sessions/${session}/picture?path=${encodeURIComponent(path)}`

/** A picture of the workspace as it is now, in a frame whose height it does not change: nothing moves when it comes. */
export function WorkspacePicture({ shelf, path, alt = '' }: { shelf: PictureShelf; path: string; alt?: string }) {
  const [wanted, setWanted] = useState(shelf.atOnce)
  const [state, setState] = useState<'small' | 'large' | 'gone'>('small')
  const name = printableLine(alt === '' ? path : alt)
  if (state === 'gone')
    return <span className="text-sm text-faint">[picture {name}: it is gone, too large to show, or no picture]</span>
  if (!wanted)
    return (
      <button
        type="button"
        onClick={() => setWanted(true)}
        className="inline-flex min-h-11 max-w-full items-center gap-2 rounded-xl border border-line px-3 text-sm text-soft hover:bg-raised hover:text-ink"
      >
        <Image size={16} aria-hidden className="shrink-0" />
        <span className="truncate">Show {name}</span>
      </button>
    )
  return (
    <button
      type="button"
      aria-expanded={state === 'large'}
      title={state === 'small' ? 'Larger' : 'Smaller'}
      onClick={() => setState(state === 'small' ? 'large' : 'small')}
      className={`picture block max-w-full overflow-hidden rounded-xl border border-line ${state === 'small' ? 'h-56' : ''}`}
    >
      <img
        src={pictureAddress(shelf.session, path)}
        alt={name}
        loading="lazy"
        decoding="async"
        onError={() => setState('gone')}
        className={state === 'small' ? 'h-full max-w-full object-contain' : 'max-w-full'}
      />
    </button>
  )
}
