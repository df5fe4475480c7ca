import type { CellDriver } from '@anchorhold/keeper/cells/cell'
import type { Assault, ProofReport } from '@anchorhold/protocol/proof'
import { arch, release } from 'node:os'
import type { Attack } from './attack.ts'
import { carryOut, makeGround } from './ground.ts'

export type Proving = {
  readonly version: string
  readonly at: number
  readonly attacks: readonly Attack[]
  readonly drivers: readonly CellDriver[]
  readonly launcher: readonly [string, ...string[]]
  /** Hears what is about to be done. */
  readonly tell: (doing: string) => void
  /** How long one attack may take. */
  readonly timeoutMs?: number
}

/** Carries every attack out on every rung that claims to be a wall and is there. */
export async function prove({ version, at, attacks, drivers, launcher, tell, timeoutMs }: Proving): Promise<ProofReport> {
  const walls = drivers.filter(({ rung }) => rung !== 'none')
  const rungs: ProofReport['rungs'] = []
  const assaults: Assault[] = []
  for (const driver of walls) {
    tell(`${driver.rung}: whether it is there`)
    const missing = [...(await driver.missing())]
    rungs.push({ rung: driver.rung, available: missing.length === 0, missing })
    if (missing.length > 0) continue
    for (const [index, attack] of attacks.entries()) {
      tell(`${driver.rung}: ${attack.name} (${index + 1} of ${attacks.length})`)
      const before = performance.now()
      const findings = await carryOut(attack, makeGround(driver, { launcher }), timeoutMs ?? attackTimeoutMs(driver))
      const took_ms = Math.round(performance.now() - before)
      assaults.push({ attack: attack.name, rung: driver.rung, findings: [...findings], took_ms })
    }
  }
  return {
    version,
    at,
    kernel: { release: release(), arch: arch() },
    as: process.getuid?.() === 0 ? 'root' : 'user',
    attacks: attacks.map(({ name, promise, guard }) => ({ name, promise, guard })),
    rungs,
    not_attacked: drivers.map(({ rung }) => rung).filter((rung) => rung === 'none'),
    assaults,
  }
}

/** A machine without hardware to run on is slow; everything else that takes so long hangs. */
export const attackTimeoutMs = ({ rung }: { readonly rung: string }) => (rung === 'microvm' ? 600_000 : 150_000)
