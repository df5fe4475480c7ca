import type { KeeperPlace } from '@anchorhold/protocol/keeper-start'
import type { CellLimits, CellSpec } from './cells/cell.ts'
import { trustFolder, trustInside } from './trust.ts'

/** The cell of a session, as far as it follows from where the session is. */
export function cellSpec(
  place: KeeperPlace['place'],
  {
    mounts,
    covers,
    caches,
    network = 'none',
  }: Pick<CellSpec, 'mounts' | 'covers' | 'caches'> & Partial<Pick<CellSpec, 'network'>>,
): CellSpec {
  return {
    name: place.session,
    workspace: place.workspace,
    home: `${place.folder}/home`,
    windows: place.windows,
    mounts: [...mounts, { source: trustFolder(place.folder), target: trustInside }],
    network,
    covers,
    root: place.root,
    scratch: `${place.folder}/cell`,
    limits: cellLimits(place.limits),
    extras: place.extras,
    cgroups: place.cgroups,
    runAs: null,
    ...(caches === undefined ? {} : { caches }),
  }
}

/** Limits as they are written on the link. */
export const cellLimits = (limits: KeeperPlace['place']['limits']): CellLimits => ({
  memoryBytes: limits.memory_bytes,
  processesMax: limits.processes,
  cpus: limits.cpus,
  diskBytes: limits.disk_bytes,
  fileBytes: limits.file_bytes,
  openFilesMax: limits.open_files,
  tmpBytes: limits.tmp_bytes,
})
