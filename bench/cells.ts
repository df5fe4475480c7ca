import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { trialSpecs } from '@anchorhold/keeper/cells/trial'
import { spawn } from 'node:child_process'
import { interleave, type Ratio } from './measure.ts'

const bare = [
  '--unshare-all',
  '--unshare-user',
  '--die-with-parent',
  '--cap-drop',
  'ALL',
  '--clearenv',
  '--ro-bind',
  '/usr',
  '/usr',
]
const links = ['bin', 'sbin', 'lib', 'lib64'].flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`])

/** A process in a cell against a process in a bubblewrap that was given nothing else to do. */
export async function cellsBench(): Promise<Ratio[]> {
  await using specs = trialSpecs()
  const spec = await specs.make()
  const driver = bwrapDriver()
  const floor = () =>
    new Promise<void>((resolve, reject) => {
      const args = [...bare, ...links, '--proc', '/proc', '--dev', '/dev', '--', 'true']
      const child = spawn('/usr/bin/bwrap', args, { env: {}, stdio: ['pipe', 'pipe', 'pipe'], ...spec.runAs })
      child.once('error', reject)
      child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`bwrap ended with ${code}`))))
    })
  const cell = await driver.start(spec, AbortSignal.timeout(10_000))
  const inCell = async () => {
    const process = cell.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    process.stdout.resume()
    process.stderr.resume()
    await process.exited
  }
  const wholeCell = async () => {
    await using fresh = await driver.start(spec, AbortSignal.timeout(10_000))
    const process = fresh.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    process.stdout.resume()
    process.stderr.resume()
    await process.exited
  }
  const four = (run: () => Promise<void>) => async () => {
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let i = 0; i < 5; i++) await run()
      }),
    )
  }
  const one = await interleave(20, { floor, inCell, wholeCell }, { warmUp: 3 })
  const rate = await interleave(10, { floor: four(floor), cells: four(inCell) }, { warmUp: 1 })
  await cell[Symbol.asyncDispose]()
  return [
    {
      name: 'a process in a cell ÷ bare bwrap',
      value: one.inCell / one.floor,
      must: 2,
      record: 1.3,
      better: 'below',
      note: `${one.inCell.toFixed(1)} ms against ${one.floor.toFixed(1)} ms; with a whole new cell, proof included, ${(one.wholeCell / one.floor).toFixed(2)}`,
    },
    {
      name: 'cells per second, four at a time ÷ raw bwrap',
      value: rate.floor / rate.cells,
      must: 0.5,
      record: 0.8,
      better: 'above',
      note: `${(20_000 / rate.cells).toFixed(0)} a second`,
    },
  ]
}
