import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { attackedRungs } from './attacked-rungs.ts'
import { driverOf } from './driver-of.ts'
import { carryOut, makeGround } from './ground.ts'
import { attacks } from './index.ts'
import { attackTimeoutMs } from './prove.ts'

const walls = attackedRungs.map(driverOf)
const launcher = [process.execPath, join(import.meta.dirname, 'prove-main.ts'), '--launch'] as const

for (const driver of walls) {
  const missing = await driver.missing()
  // Never skipped in silence, and never where it is installed and does not start.
  if (missing.some(({ what }) => /not installed|no image/.test(what)) && driver.rung !== 'bwrap') {
    const lack = missing.map(({ what, remedy }) => `${what} (${remedy})`).join('; ')
    console.warn(`The rung "${driver.rung}" is not attacked here: ${lack}`)
    test.skip(`${driver.rung} is not there: ${lack}`, () => {})
    continue
  }
  describe(driver.rung, () => {
    test.each(attacks.map((attack) => [attack.name, attack] as const))(
      '%s',
      async (_, attack) => {
        const findings = await carryOut(attack, makeGround(driver, { launcher }), attackTimeoutMs(driver))
        expect(findings.filter(({ verdict }) => verdict === 'open' || verdict === 'error')).toEqual([])
        expect(findings.some(({ verdict }) => verdict === 'blocked')).toBe(true)
      },
      attackTimeoutMs(driver) + 60_000,
    )
  })
}
