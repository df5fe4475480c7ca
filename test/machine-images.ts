import { saveSnapshot, lacksForMachines, machineArch } from '@anchorhold/keeper/cells/microvm/microvm'
import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { prepareMachine } from '@anchorhold/keeper/cells/microvm/prepare'
import { trialSpecs } from '@anchorhold/keeper/cells/trial'
import { buildImage } from '@anchorhold/keeper/images/build'
import { join } from 'node:path'
import { testImages } from './test-images.ts'

const clone = join(import.meta.dirname, '..')

/** Before any test: the image, and a machine of it that has booted. */
export async function setup(): Promise<void> {
  const lacks = lacksForMachines()
  if (lacks.length > 0) throw new Error(lacks.map(({ what, remedy }) => `${what}: ${remedy}`).join('; '))
  const say = (step: string) => console.log(`machines: ${step}`)
  const { root } = await buildImage({ images: testImages, recipes: join(clone, 'packaging/images'), variant: 'base', say })
  await prepareMachine({ root, arch: machineArch()!, say })
  await using specs = trialSpecs()
  const files = { node: process.execPath, inside: join(clone, 'dist/inside.cjs'), root }
  say('booting')
  await saveSnapshot({ ...files, wall: bwrapDriver() }, await specs.make())
}
