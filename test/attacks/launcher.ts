import { Rung } from '@anchorhold/protocol/rungs'
import { driverOf } from './driver-of.ts'
import { makeGround } from './ground.ts'

/** A process of its own that starts a cell and lives with it, so that an attack can take it away: RUNG PROGRAM ARGS… */
export async function launch([rung, program = '', ...args]: readonly string[]): Promise<void> {
  await using ground = makeGround(driverOf(Rung.parse(rung)), { launcher: [process.execPath] })
  const { cell } = await ground.cell()
  const inside = cell.spawn([program, ...args], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
  inside.stdin.end()
  inside.stdout.pipe(process.stdout)
  inside.stderr.pipe(process.stderr)
  await inside.exited
}
