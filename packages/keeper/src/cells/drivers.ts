import type { Rung } from '@anchorhold/protocol/rungs'
import { bwrapDriver } from './bwrap/bwrap.ts'
import type { CellDriver, CellFiles } from './cell.ts'
import { containerCells, gvisorCells } from './container/container.ts'
import { microvmDriver } from './microvm/microvm.ts'
import { noneDriver } from './none/none.ts'
import { seatbeltDriver } from './seatbelt/seatbelt.ts'

/** How a cell of each rung is made. */
export const drivers: Readonly<Record<Rung, (files: CellFiles) => CellDriver>> = {
  none: () => noneDriver(),
  bwrap: () => bwrapDriver(),
  seatbelt: () => seatbeltDriver(),
  container: containerCells,
  gvisor: gvisorCells,
  microvm: (files) => microvmDriver({ ...files, wall: bwrapDriver() }),
}
