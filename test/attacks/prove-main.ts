// Attacks this installation's own rungs, and says on lines of JSON what it does and what it found.
//   prove.mjs --version V [--state S] [--rung R]…  what `anchorhold prove` runs
//   prove.mjs --launch RUNG PROGRAM ARGS…      a keeper that an attack may kill
import { readConfig } from '@anchorhold/daemon/config'
import { Rung, rungsOf } from '@anchorhold/protocol/rungs'
import { parseArgs } from 'node:util'
import { driverOf } from './driver-of.ts'
import { attacks } from './index.ts'
import { launch } from './launcher.ts'
import { prove } from './prove.ts'

if (process.argv[2] === '--launch') await launch(process.argv.slice(3))
else {
  const { values } = parseArgs({
    options: { version: { type: 'string' }, state: { type: 'string' }, rung: { type: 'string', multiple: true } },
  })
  // By the environment, so that a keeper that is attacked takes the same.
  process.env.ANCHORHOLD_ENGINE ??= readConfig(
    values.state === undefined ? [] : ['--state', values.state],
    process.env,
  ).containerEngine
  const wanted = values.rung?.map((rung) => Rung.parse(rung)) ?? rungsOf(process.platform)
  const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`)
  const report = await prove({
    version: values.version ?? '',
    at: Date.now(),
    attacks,
    drivers: wanted.map(driverOf),
    launcher: [process.execPath, process.argv[1]!, '--launch'],
    tell: (doing) => say({ doing }),
  })
  say({ report })
}
