import { readFileSync } from 'node:fs'
import { arch, release } from 'node:os'
import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import type { LimitInForce, Rung } from '@anchorhold/protocol/rungs'
import type { CellDriver } from './cells/cell.ts'
import { findToolchains } from './cells/toolchains.ts'
import { trialSpecs, trialUser } from './cells/trial.ts'
import { examineExtras } from './doctor-extras.ts'

type RungReport = DoctorReport['rungs'][number]

export type Examination = {
  /** Whose toolchains are looked for. */
  readonly home: string
  readonly drivers: readonly CellDriver[]
  /** The root of the image that has what `sudo` and `nested` need, or null where there is none. Without it extras are not looked at. */
  readonly extrasRoot?: string | null
  /** Control group folders handed to `trialUser` (cells/trial.ts), where there are any. */
  readonly cgroups?: readonly string[]
  /** How many starts of each rung are measured; one is enough to know that it starts. */
  readonly starts?: number
  /** What was found before. Of rungs that take long to try, it is believed that they start; what was missing is looked for again,
   *  since a remedy may have been carried out, and told as it was where there is no time for that. */
  readonly before?: readonly RungReport[]
  /** Whether what the drivers remember of this machine is found out again. */
  readonly relearn?: boolean
  /** How long trying may take altogether. What does not fit is told as not tried. */
  readonly withinMs?: number
  readonly now?: () => number
}

/** These are tried every time: it takes no longer than to read what was found before. */
const quickRungs: readonly Rung[] = ['none', 'bwrap', 'seatbelt']

/** Measures what this machine can do by doing it. */
export async function examine({
  home,
  drivers,
  extrasRoot,
  cgroups = [],
  starts = 5,
  before = [],
  relearn = false,
  withinMs = Infinity,
  now = Date.now,
}: Examination): Promise<DoctorReport> {
  const deadline = withinMs === Infinity ? new AbortController().signal : AbortSignal.timeout(withinMs)
  const rungs: RungReport[] = []
  for (const driver of drivers) {
    if (relearn) await driver.relearn?.()
    const known = quickRungs.includes(driver.rung) ? undefined : before.find(({ rung }) => rung === driver.rung)
    const found = known?.available ? known : await examineRung(driver, cgroups, starts, deadline, now)
    const told = found.tried_at === null ? (known ?? found) : found
    const isDue = extrasRoot !== undefined && driver.rung === 'container' && told.available && told.extras === undefined
    const extras = isDue ? await examineExtras(driver, extrasRoot, deadline) : null
    const holes = (await driver.holes?.()) ?? []
    const { holes: _, ...rest } = told
    rungs.push({ ...rest, ...(extras === null ? {} : { extras }), ...(holes.length === 0 ? {} : { holes: [...holes] }) })
  }
  return {
    kernel: readKernel(),
    rungs,
    toolchains: findToolchains(home, process.getuid?.() === 0 ? { user: trialUser } : {}).map(({ name, mounts }) => ({
      name,
      folders: mounts.map(({ source }) => source),
    })),
  }
}

/** A machine under software emulation takes its time. */
const startTimeoutMs = 120_000

async function examineRung(
  driver: CellDriver,
  cgroups: readonly string[],
  starts: number,
  deadline: AbortSignal,
  now: () => number,
): Promise<RungReport> {
  const { rung } = driver
  const absent = (tried_at: number | null, missing: RungReport['missing']): RungReport => ({
    ...{ rung, available: false, tried_at, start_ms: null, limits: [], missing },
  })
  const notYet = absent(null, [{ what: 'it was not tried in the time there was', remedy: 'anchorhold doctor --fresh' }])
  if (deadline.aborted) return notYet
  await using specs = trialSpecs()
  const spec = await specs.make({ cgroups })
  const timesMs: number[] = []
  let limits: readonly LimitInForce[] = []
  try {
    while (timesMs.length < starts) {
      const before = performance.now()
      await using cell = await driver.start(spec, AbortSignal.any([deadline, AbortSignal.timeout(startTimeoutMs)]))
      const first = cell.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
      await first.exited
      timesMs.push(performance.now() - before)
      limits = cell.limits
    }
  } catch (error) {
    if (deadline.aborted) return notYet
    // It may know better why than the start does, if there is time for another.
    const missing = [...(await driver.missing(deadline))]
    if (missing.length > 0 && !deadline.aborted) return absent(now(), missing)
    if (error instanceof Failure) return absent(now(), [{ what: error.message, remedy: error.hint ?? '' }])
    throw error
  }
  const [median = 0] = timesMs.toSorted((a, b) => a - b).slice(Math.floor(timesMs.length / 2))
  return {
    ...{ rung, available: true, tried_at: now(), start_ms: Math.round(median * 10) / 10, missing: [] },
    limits: limits.map(({ name, enforcement, how }) => ({ name, enforcement, how })),
    ...(driver.notes === undefined ? {} : { notes: [...driver.notes()] }),
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
