import { cellUnderAttack, driverOf } from './cell-under-attack.ts'

/** A process of its own that starts a cell and lives with it, so that a test can take it away. */
const [, , rung = '', program = '', ...args] = process.argv
await using under = await cellUnderAttack(driverOf(rung))
const inside = under.cell.spawn([program, ...args], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
inside.stdout.pipe(process.stdout)
inside.stderr.pipe(process.stderr)
await inside.exited
