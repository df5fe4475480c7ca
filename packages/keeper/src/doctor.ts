import { readFileSync } from 'node:fs'
import { arch, release } from 'node:os'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import type { LimitInForce } from '@anchorhold/protocol/rungs'
import type { CellDriver } from './cells/cell.ts'
import { findToolchains } from './cells/toolchains.ts'
import { trialSpecs, trialUser } from './cells/trial.ts'

export type Examination = {
  /** Whose toolchains are looked for. */
  readonly home: string
  readonly drivers: readonly CellDriver[]
  /** Control group folders handed to `trialUser` (cells/trial.ts), where there are any. */
  readonly cgroups?: readonly string[]
  /** How many starts of each rung are measured; one is enough to know that it starts. */
  readonly starts?: number
}

/** Measures what this machine can do by doing it. */
export async function examine({ home, drivers, cgroups = [], starts = 5 }: Examination): Promise<DoctorReport> {
  const rungs: DoctorReport['rungs'] = []
  for (const driver of drivers) rungs.push(await examineRung(driver, cgroups, starts))
  return {
    kernel: readKernel(),
    rungs,
    toolchains: findToolchains(home, process.getuid?.() === 0 ? { user: trialUser } : {}).map(({ name, mounts }) => ({
      name,
      folders: mounts.map(({ source }) => source),
    })),
  }
}

const startTimeoutMs = 10_000

async function examineRung(
  driver: CellDriver,
  cgroups: readonly string[],
  starts: number,
): Promise<DoctorReport['rungs'][number]> {
  const missing = [...(await driver.missing())]
  if (missing.length > 0) return { rung: driver.rung, available: false, start_ms: null, missing, limits: [] }
  await using specs = trialSpecs()
  const spec = await specs.make({ cgroups })
  const timesMs: number[] = []
  let limits: readonly LimitInForce[] = []
  while (timesMs.length < starts) {
    const before = performance.now()
    await using cell = await driver.start(spec, AbortSignal.timeout(startTimeoutMs))
    const first = cell.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    await first.exited
    timesMs.push(performance.now() - before)
    limits = cell.limits
  }
  const [median = 0] = timesMs.toSorted((a, b) => a - b).slice(Math.floor(timesMs.length / 2))
  return {
    rung: driver.rung,
    available: true,
    start_ms: Math.round(median * 10) / 10,
    missing: [],
    limits: limits.map(({ name, enforcement, how }) => ({ name, enforcement, how })),
  }
}

function readKernel(): DoctorReport['kernel'] {
  const mounts = readOrEmpty('/proc/self/mountinfo')
  const [v1, v2] = [/ - cgroup /.test(mounts), / - cgroup2 /.test(mounts)]
  return {
    release: release(),
    arch: arch(),
    user_namespaces:
      !['', '0'].includes(readOrEmpty('/proc/sys/user/max_user_namespaces').trim()) &&
      readOrEmpty('/proc/sys/kernel/unprivileged_userns_clone').trim() !== '0',
    seccomp: readOrEmpty('/proc/sys/kernel/seccomp/actions_avail').includes('errno'),
    cgroups: v1 && v2 ? 'hybrid' : v1 ? 'v1' : v2 ? 'v2' : 'none',
  }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
