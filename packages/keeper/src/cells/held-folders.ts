import { Failure } from '@anchorhold/protocol/failures'
import { closeSync, constants, openSync, readlinkSync, realpathSync } from 'node:fs'
import { dirname } from 'node:path'
import type { CellSpec } from './cell.ts'

/** open(2): not in node:fs, and the same number on every architecture that Node runs on. */
const O_PATH = 0o10000000

/** The folders of a cell by open descriptors, so that what is mounted is what was looked at, whatever their names lead to by then. */
export interface HeldFolders extends Disposable {
  readonly workspace: number
  readonly home: number
}

/** Refuses a folder that is not where its path says: somebody has put a link in its place, or in the place of one above it, since the
 *  daemon judged it. */
export function holdFolders(spec: Pick<CellSpec, 'workspace' | 'home'>): HeldFolders {
  const workspace = hold(spec.workspace, spec)
  try {
    const home = hold(spec.home, spec)
    return {
      workspace,
      home,
      [Symbol.dispose]() {
        for (const fd of [workspace, home]) closeSync(fd)
      },
    }
  } catch (error) {
    closeSync(workspace)
    throw error
  }
}

/** For rungs whose engine goes by names: as near to its start as can be. */
export function requireFolders(spec: Pick<CellSpec, 'workspace' | 'home'>): void {
  holdFolders(spec)[Symbol.dispose]()
}

function hold(path: string, spec: Pick<CellSpec, 'home'>): number {
  const refused = (why: string) => new Failure('cell_unavailable', `Cannot start a cell: "${path}" ${why}`)
  let fd: number
  try {
    fd = openSync(path, (process.platform === 'linux' ? O_PATH : 0) | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  } catch {
    throw refused('is not a folder')
  }
  // Without /proc nobody can say where it is.
  if (process.platform !== 'linux' || readlinkSync(`/proc/self/fd/${fd}`) === judged(path, spec)) return fd
  closeSync(fd)
  throw refused('is not where it was: a link is in its way')
}

/** A host folder was judged by its real path. Above what is ours there may be a link of the operator's. */
function judged(path: string, { home }: Pick<CellSpec, 'home'>): string {
  const ours = dirname(dirname(home))
  return path.startsWith(`${ours}/`) ? `${realpathSync(ours)}${path.slice(ours.length)}` : path
}
