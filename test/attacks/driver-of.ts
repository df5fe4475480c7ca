import type { CellDriver } from '@anchorhold/keeper/cells/cell'
import { drivers } from '@anchorhold/keeper/cells/drivers'
import { trialFiles } from '@anchorhold/keeper/cells/trial-files'
import { findImage } from '@anchorhold/keeper/images/images'
import { ContainerEngine, type Rung } from '@anchorhold/protocol/rungs'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** The programs of a release lie in one folder: this one when it is the program as built, the clone's otherwise. */
const inside = ['.', '../../dist']
  .map((folder) => join(import.meta.dirname, folder, 'inside.cjs'))
  .find((path) => existsSync(path))

/** For machines, which need an image: by the environment, so that a keeper of its own finds it too. */
const root = findImage(process.env.ANCHORHOLD_IMAGES ?? '', 'base')?.root

export const driverOf = (rung: Rung): CellDriver =>
  drivers[rung]({ ...trialFiles(inside ?? ''), root, engine: ContainerEngine.optional().parse(process.env.ANCHORHOLD_ENGINE) })
