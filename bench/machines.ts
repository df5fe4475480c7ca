import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { qemuArgv, qemuName, seen } from '@anchorhold/keeper/cells/microvm/argv'
import { machineFiles } from '@anchorhold/keeper/cells/microvm/files'
import { machineArch, microvmDriver } from '@anchorhold/keeper/cells/microvm/microvm'
import { trialSpecs } from '@anchorhold/keeper/cells/trial'
import { findImage } from '@anchorhold/keeper/images/images'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { setup } from '../test/machine-images.ts'
import { testImages } from '../test/test-images.ts'
import { interleave, type Ratio } from './measure.ts'

/** A session's machine, from nothing to its first process, against a bare one with the same processor, memory, kernel and first
 *  program, and no device at all, from nothing to the first line of that program. That one boots; the session's goes on from
 *  saved memory, and mounts, proves itself and runs a process on top. */
export async function machinesBench(): Promise<Ratio[]> {
  await setup()
  const { root } = findImage(testImages, 'base')!
  const files = machineFiles(root)
  const arch = machineArch()!
  await using specs = trialSpecs()
  const spec = await specs.make()
  const inside = join(import.meta.dirname, '../dist/inside.cjs')
  const driver = microvmDriver({ node: process.execPath, inside, root, wall: bwrapDriver() })
  const whole = qemuArgv({ arch, accel: 'tcg', memoryBytes: spec.limits.memoryBytes, cpus: spec.limits.cpus }, 'boot')
  const bare = whole
    .slice(0, whole.indexOf('-drive'))
    .map((word) => (word === seen.kernel ? files.kernel : word === seen.initramfs ? files.initramfs : word))
  const floor = () =>
    new Promise<void>((resolve, reject) => {
      const qemu = spawn(qemuName(arch), bare, { stdio: ['ignore', 'pipe', 'ignore'], ...spec.runAs })
      let said = ''
      qemu.stdout.on('data', (text: Buffer) => {
        said += String(text)
        if (said.includes('anchorhold: up')) qemu.kill('SIGKILL')
      })
      qemu.once('error', reject)
      qemu.once('close', () => (said.includes('anchorhold: up') ? resolve() : reject(new Error(`QEMU ended: ${said}`))))
    })
  const ready = async () => {
    await using cell = await driver.start(spec, AbortSignal.timeout(120_000))
    const process = cell.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    process.stdout.resume()
    process.stderr.resume()
    await process.exited
  }
  const { ms, ratio } = await interleave(5, { floor, ready }, { warmUp: 1 })
  return [
    {
      name: 'a machine from saved memory, ready ÷ a bare machine that boots',
      value: ratio('ready', 'floor'),
      must: 1.3,
      record: 1.1,
      better: 'below',
      note: `${ms.ready.toFixed(0)} ms against ${ms.floor.toFixed(0)} ms`,
    },
  ]
}
