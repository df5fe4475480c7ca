// Prints each comparison as a ratio: the product over a floor, the median of interleaved rounds in one run.
//   npm run bench [NAME…]
import { cellsBench, enginesBench } from './cells.ts'
import { machinesBench } from './machines.ts'
import { processorTime, type Ratio, verdict } from './measure.ts'
import { modelWindowBench } from './model-window.ts'
import { netWindowBench } from './net-window.ts'
import { policyBench } from './policy.ts'
import { sessionsBench } from './sessions.ts'
import { storeBench } from './store.ts'

const benches: Readonly<Record<string, () => Promise<Ratio[]>>> = {
  window: modelWindowBench,
  net: netWindowBench,
  cells: cellsBench,
  engines: enginesBench,
  store: storeBench,
  policy: policyBench,
  sessions: sessionsBench,
  machines: machinesBench,
}
/** Builds an image first, and takes minutes under emulation: only for who names it. */
const onlyByName = ['machines']
const wanted = process.argv.slice(2)
let missed = 0
const before = processorTime()
for (const [name, bench] of Object.entries(benches)) {
  if (wanted.length > 0 ? !wanted.includes(name) : onlyByName.includes(name)) continue
  console.error(`measuring ${name} …`)
  for (const ratio of await bench()) {
    const result = verdict(ratio)
    if (result === 'missed') missed++
    const bars = `${ratio.better === 'below' ? '≤' : '≥'} ${ratio.must} must, ${ratio.record} record`
    console.log(
      `${ratio.value.toFixed(2).padStart(8)}  ${result.padEnd(7)} ${ratio.name} (${bars})\n${' '.repeat(18)}${ratio.note}`,
    )
  }
}
const after = processorTime()
if (before !== null && after !== null) {
  const percent = Math.round((100 * (after.stolen - before.stolen)) / (after.all - before.all))
  if (percent >= 2)
    console.log(
      `This machine's host gave ${percent} % of its processors' time to others meanwhile: what takes a fraction of a millisecond says little then.`,
    )
}
if (missed > 0) console.log(`${missed} missed what they must reach.`)
process.exit(missed === 0 ? 0 : 1)
