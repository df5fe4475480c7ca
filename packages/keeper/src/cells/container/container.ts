import type { CellDriver, CellFiles } from '../cell.ts'
import { readText } from '../install.ts'
import { gvisor } from './gvisor.ts'
import { chooseRuntime, podman } from './podman.ts'
import { find } from './refusals.ts'
import { rootlessCells } from './rootless.ts'
import { servedEngines } from './served-engine.ts'
import { servedCells } from './served.ts'

/** Cells made by rootless Podman, or by the engine that was chosen instead. */
export const containerCells = (files: CellFiles): CellDriver =>
  files.engine === undefined || files.engine === 'podman' ? podmanCells(files) : servedCells(servedEngines[files.engine], files)

const podmanCells = (files: CellFiles): CellDriver =>
  rootlessCells(podman({ runtime: chooseRuntime(readText, (program) => find(program) !== null) }), files)

/** Cells made by gVisor. */
export const gvisorCells = (files: CellFiles): CellDriver => rootlessCells(gvisor(), files)
