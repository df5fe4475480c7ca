// Prints what this machine can isolate, as JSON. The daemon asks it too, as a process of its own.
//   node doctor.mjs [--rung RUNG] [--fresh] [--memory FILE] [--images FOLDER] [--engine ENGINE | --state FOLDER]
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import { readConfig } from '@anchorhold/daemon/config'
import type { CellDriver } from '@anchorhold/keeper/cells/cell'
import { drivers } from '@anchorhold/keeper/cells/drivers'
import { trialUser } from '@anchorhold/keeper/cells/trial'
import { trialFiles } from '@anchorhold/keeper/cells/trial-files'
import { examine } from '@anchorhold/keeper/doctor'
import { findImage } from '@anchorhold/keeper/images/images'
import { type DoctorReport, RungReport } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import { ContainerEngine, engineRefusal, Rung, rungsOf } from '@anchorhold/protocol/rungs'
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { homeFolder } from './here.ts'

const { values } = parseArgs({
  options: {
    ...{ rung: { type: 'string' }, fresh: { type: 'boolean' }, memory: { type: 'string' }, images: { type: 'string' } },
    ...{ engine: { type: 'string' }, state: { type: 'string' } },
  },
})
const { fresh = false, memory = null } = values
const only = values.rung === undefined ? null : Rung.parse(values.rung)

/** Whoever waits for all of it waits no longer than this; who asks for one rung, or for a fresh look, waits for that. */
const patienceMs = 3000
const believedMs = 7 * 24 * 60 * 60 * 1000
const Memory = z.object({ machine: z.string(), rungs: z.array(RungReport) })

const engine = values.engine === undefined ? configured() : ContainerEngine.parse(values.engine)

// The programs of a release lie in one folder.
const files = {
  ...trialFiles(join(import.meta.dirname, 'inside.cjs')),
  root: findImage(values.images ?? '', 'base')?.root,
  engine,
}
const extrasRoot = findImage(values.images ?? '', 'dev')?.root ?? null
const before = fresh ? [] : recall()
const every = (only === null ? rungsOf(process.platform) : [only]).map((rung) => forSessions(drivers[rung](files)))
const cgroups = process.getuid?.() === 0 ? delegateCgroups(`doctor-${process.pid}`, trialUser) : []
try {
  const report = await examine({
    home: homeFolder(),
    drivers: every,
    // Who asks for one rung is about to start a cell of it, and waits.
    ...(only === null ? { extrasRoot } : {}),
    cgroups,
    before,
    starts: fresh ? 5 : 1,
    relearn: fresh,
    ...(fresh || only !== null ? {} : { withinMs: patienceMs }),
  })
  remember(report.rungs)
  console.log(JSON.stringify(report))
} finally {
  withdrawCgroups(cgroups)
}

/** What the configuration says. One that cannot be read is for the daemon to complain of. */
function configured(): ContainerEngine {
  try {
    return readConfig(values.state === undefined ? [] : ['--state', values.state], process.env).containerEngine
  } catch {
    return 'podman'
  }
}

/** This process may be root; the keepers of sessions are not, and what they cannot have is not there. */
function forSessions(driver: CellDriver): CellDriver {
  const refusal = driver.rung === 'container' ? engineRefusal(engine, { root: process.getuid?.() === 0 }) : null
  if (refusal === null) return driver
  const start = () => Promise.reject(new Failure('cell_unavailable', refusal.what, { hint: refusal.remedy }))
  return { rung: driver.rung, missing: async () => [refusal], start }
}

/** What was found before on this machine as it is now: with another kernel, engine, image or range of users it may be otherwise. */
function recall(): DoctorReport['rungs'] {
  try {
    const known = Memory.parse(JSON.parse(readFileSync(memory ?? '', 'utf8')))
    const isYoung = ({ tried_at }: DoctorReport['rungs'][number]) => tried_at !== null && Date.now() - tried_at < believedMs
    return known.machine === machine() ? known.rungs.filter(isYoung) : []
  } catch {
    return [] // nothing was found yet, or by a release that wrote it down otherwise
  }
}

function remember(rungs: DoctorReport['rungs']): void {
  if (memory === null) return
  const tried = rungs.filter(({ tried_at }) => tried_at !== null)
  const kept = recall().filter(({ rung }) => !tried.some((one) => one.rung === rung))
  try {
    writeFileSync(`${memory}.new`, JSON.stringify({ machine: machine(), rungs: [...kept, ...tried] }), { mode: 0o600 })
    renameSync(`${memory}.new`, memory)
  } catch {
    // There is no state folder yet: the next look is as long as this one.
  }
}

function machine(): string {
  const programs = ['bwrap', 'podman', 'docker', 'runc', 'crun', 'runsc', 'conmon', 'catatonit', 'newuidmap']
  const emulators = ['qemu-system-x86_64', 'qemu-system-aarch64']
  const settings = [
    'user/max_user_namespaces',
    'kernel/unprivileged_userns_clone',
    'kernel/apparmor_restrict_unprivileged_userns',
  ]
  const places = [...programs, ...emulators].flatMap((name) => [`/usr/bin/${name}`, `/usr/sbin/${name}`])
  const times = places.map((path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0)
  const said = ['/etc/subuid', '/etc/subgid', '/etc/cdi/nvidia.yaml', ...settings.map((name) => `/proc/sys/${name}`)].map(textOf)
  return createHash('sha256')
    .update(
      `${release()} ${process.version} ${import.meta.dirname} ${engine} ${files.root} ${extrasRoot} ${times.join(' ')} ${said.join('\0')}`,
    )
    .digest('hex')
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
