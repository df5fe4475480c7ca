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

/** Of cells that were started to see what they stop, the folders in the one for temporary files. That is everybody's: another user's
 *  are left to them, and so is a link. */
export function trialsIn(temporary: string): Left[] {
  return namesIn(temporary)
    .filter((name) => /^ah-(?:trial|trial-files|attack)-/.test(name) && isOwnerGone(name))
    .map((name) => join(temporary, name))
    .filter((path) => {
      const stat = lstatSync(path, { throwIfNoEntry: false })
      return stat?.isDirectory() === true && stat.uid === process.getuid?.()
    })
    .flatMap((path): Left[] => {
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
