// Images for containers and machines. A program of its own: it makes things for cells, which the command line otherwise does not.
import { readConfig } from '@anchorhold/daemon/config'
import { folders as foldersOf, makeFolders } from '@anchorhold/daemon/folders'
import { stageRuntime } from '@anchorhold/daemon/processes/runtime'
import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { lacksForMachines, learnAccel, machineArch, saveSnapshot } from '@anchorhold/keeper/cells/microvm/microvm'
import { prepareMachine, pruneMachines, type Saved } from '@anchorhold/keeper/cells/microvm/prepare'
import { trialLimits, trialSpecs } from '@anchorhold/keeper/cells/trial'
import { addImage } from '@anchorhold/keeper/images/add'
import { buildImage } from '@anchorhold/keeper/images/build'
import { findImage, type Image, listImages, removeImage } from '@anchorhold/keeper/images/images'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What is being done, in a few words. */
export type Say = (step: string) => void
export type Made = {
  readonly image: Image
  /** Whether it was made now, or had been before. */
  readonly fresh: boolean
  /** Why no machine can be made of it; empty when one was seen to boot. */
  readonly lacks: readonly { readonly what: string; readonly remedy: string }[]
}

export function images(stateFlag: string | undefined) {
  const config = readConfig(stateFlag === undefined ? [] : ['--state', stateFlag], process.env)
  const folders = foldersOf(config.state)
  const release = dirname(fileURLToPath(import.meta.url))

  /** What a machine of the image starts from, down to the memory of one that has booted. */
  async function machineOf(image: Image, say: Say): Promise<Made['lacks']> {
    const arch = machineArch()
    const lacks = lacksForMachines()
    if (arch === null || lacks.length > 0) return lacks
    await prepareMachine({ root: image.root, arch, say })
    makeFolders(folders, config.root)
    const { node, inside } = stageRuntime(release, folders.runtime)
    const { memory_bytes: memoryBytes, cpus } = config.limits
    const options = { node, inside, root: image.root, wall: bwrapDriver() }
    {
      say('seeing whether the hardware runs machines')
      await using specs = trialSpecs()
      await learnAccel(options, await specs.make())
    }
    // The kind that sessions get, and the kind that doctor tries.
    const saved: Saved[] = []
    const kinds = [{ ...trialLimits, memoryBytes, cpus }, trialLimits]
    for (const [index, limits] of kinds.entries()) {
      say(`booting a machine, to go on from there (${index + 1} of ${kinds.length})`)
      await using specs = trialSpecs()
      saved.push(await saveSnapshot(options, await specs.make({ limits })))
    }
    pruneMachines(image.root, saved)
    return []
  }

  return {
    list: () => listImages(folders.images),
    remove: (name: string) => removeImage(folders.images, name),
    async build(variant: string, say: Say): Promise<Made> {
      const before = findImage(folders.images, variant)
      const image = await buildImage({ images: folders.images, recipes: join(release, '../packaging/images'), variant, say })
      return { image, fresh: before?.digest !== image.digest, lacks: await machineOf(image, say) }
    },
    async add(name: string, from: string, say: Say): Promise<Made> {
      const image = await addImage({ images: folders.images, name, from, say })
      return { image, fresh: true, lacks: await machineOf(image, say) }
    },
    /** Whether machines can be made of it without further ado. */
    hasMachine: (image: Image) => existsSync(join(image.folder, 'root.erofs')),
  }
}
