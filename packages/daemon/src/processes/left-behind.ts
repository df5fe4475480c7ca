import { isOwnerGone } from '@anchorhold/link/owner'
import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Folders } from '../folders.ts'

/** Something whose maker was killed over it, and the folders in which cells may have stood. */
export type Left = { readonly path: string; readonly cells: readonly string[] }

/** Of images and programs, what was never finished. It is named after the process that made it, and only goes with that. */
export function unfinishedIn({ images, runtime }: Folders): Left[] {
  const machine = join(images, 'machine')
  const own = namesIn(images).filter((name) => /^[a-z][a-z0-9-]*-[0-9a-f]{12}$/.test(name))
  const within = [images, runtime, machine, join(machine, 'runtimes')]
  const perImage = own.flatMap((name) => [join(images, name), join(images, name, 'snapshots')])
  return [...within, ...perImage].flatMap((folder) =>
    namesIn(folder)
      .filter((name) => (name.startsWith('new-') || name.endsWith('.part')) && isOwnerGone(name))
      .map((name) => ({ path: join(folder, name), cells: [] })),
  )
}

/** Folders of launchers that were killed. */
export const launchedLeftIn = ({ launched }: Folders): Left[] =>
  namesIn(launched)
    .filter(isOwnerGone)
    .map((name) => ({ path: join(launched, name), cells: [join(launched, name, 'cell')] }))

/** In the folder for temporary files: folders of cells that were started to see what they stop, and files that are handed to a cell and
 *  have a name for a moment only. That folder is everybody's: another user's are left to them, but for files of keepers, which root has
 *  run as other users; and so is a link. */
export function trialsIn(temporary: string): Left[] {
  return namesIn(temporary)
    .filter((name) => /^ah-(?:trial|trial-files|attack|file)-/.test(name) && isOwnerGone(name))
    .map((name) => join(temporary, name))
    .filter((path) => {
      const stat = lstatSync(path, { throwIfNoEntry: false })
      if (stat?.isFile()) return path.startsWith(join(temporary, 'ah-file-')) && [stat.uid, 0].includes(process.getuid?.() ?? -1)
      return stat?.isDirectory() === true && stat.uid === process.getuid?.()
    })
    .flatMap((path): Left[] => {
      if (path.startsWith(join(temporary, 'ah-file-'))) return [{ path, cells: [] }]
      // An attack has others start cells in its own; whoever of them lives still may.
      const inner = namesIn(path).filter((name) => name.startsWith('ah-trial-'))
      if (!inner.every(isOwnerGone)) return []
      return [{ path, cells: ['.', ...inner].map((name) => join(path, name, 'scratch')) }]
    })
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
