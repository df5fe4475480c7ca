import { sizeWords } from '@anchorhold/core/size-words'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { Failure } from '@anchorhold/protocol/failures'
import type { LimitInForce } from '@anchorhold/protocol/rungs'
import { findTool } from '../../images/tools.ts'
import type { Cell, CellDriver, CellFiles, CellProcess, CellSpec, Lack, SpawnOptions } from '../cell.ts'
import { insideChannel } from '../inside/channel.ts'
import { inside, placeInside } from '../layout.ts'
import { hardLimit } from '../limits/rlimits.ts'
import { standing } from '../standing.ts'
import { trialSpecs } from '../trial.ts'
import { type Accel, type MachineShape, qemuName } from './argv.ts'
import { lacksOf, machineFiles, runtimeKey, snapshotKey } from './files.ts'
import { accelNote, type AccelVerdict, hopeless, recallAccel, rememberAccel, slownessBy } from './accel.ts'
import { sealLines, setupLines, underLimits } from './guest.ts'
import { type Machine, type MachineParts, startMachine } from './machine.ts'
import { runtimeDisk, type Saved } from './prepare.ts'
import type { MachineArch } from './reseed.ts'
import { onTerminal } from './terminal.ts'

export type MicrovmOptions = CellFiles & {
  /** What QEMU itself runs in: whoever breaks out of the machine is in such a cell. */
  readonly wall: CellDriver
  /** The device by which the hardware runs machines. */
  readonly kvm?: string
}
const kvmOf = ({ kvm = '/dev/kvm' }: MicrovmOptions) => kvm

/** Cells that are machines with a kernel of their own, made by QEMU. Folders are shared with the host, all else goes over one line.
 *  Does not stop: an attack on QEMU and then on the wall around it. */
export function microvmDriver(options: MicrovmOptions): CellDriver {
  const start: CellDriver['start'] = async (spec, signal) => {
    const plan = planOf(options, spec)
    signal.throwIfAborted()
    const machine = await launch(options, spec, plan, signal)
    try {
      return await enter(machine, spec, plan, signal)
    } catch (error) {
      await machine[Symbol.asyncDispose]()
      throw error
    }
  }
  return {
    rung: 'microvm',
    start,
    // A machine stands in a cell of this wall's.
    holes: async () => (await options.wall.holes?.()) ?? [],
    async relearn() {
      if (lacksHere(options).length > 0) return
      await using specs = trialSpecs()
      await learnAccel(options, await specs.make())
    },
    notes: () => (lacksHere(options).length > 0 ? [] : [accelNote(recalled(options, options.root!))]),
    async missing(cancel) {
      const lacks = lacksHere(options)
      if (lacks.length > 0) return lacks
      const behindWall = await options.wall.missing()
      if (behindWall.length > 0) return behindWall
      await using specs = trialSpecs()
      const signal = AbortSignal.any([AbortSignal.timeout(bootTimeoutMs), ...(cancel === undefined ? [] : [cancel])])
      try {
        await using _ = await start(await specs.make(), signal)
        return []
      } catch (error) {
        if (error instanceof Failure) return [{ what: error.message, remedy: error.hint ?? '' }]
        if (signal.aborted) return [{ what: 'a machine did not start in time', remedy: 'anchorhold image build' }]
        throw error
      }
    },
  }
}

/** Has the hardware run a machine, and remembers how that went: a device that is there proves nothing. It is tried as the user that a
 *  session has, behind the same wall. */
export async function learnAccel(options: MicrovmOptions, spec: CellSpec, now = Date.now): Promise<AccelVerdict> {
  const plan = planOf(options, spec, 'kvm')
  const why = hopeless(plan.shape.arch, kvmOf(options)) ?? (await whyNotBooted(options, spec, plan))
  const verdict: AccelVerdict = { accel: why === null ? 'kvm' : 'tcg', at: now(), why: why ?? 'a machine was seen to boot' }
  rememberAccel(plan.files, plan.qemu, kvmOf(options), verdict)
  return verdict
}

async function whyNotBooted(options: MicrovmOptions, spec: CellSpec, plan: Plan): Promise<string | null> {
  const signal = AbortSignal.timeout(hardwareBootMs)
  try {
    await using machine = await launch(options, spec, { ...plan, key: null }, signal)
    await abortable(insideChannel(machine.channel).ready, signal)
    return null
  } catch (error) {
    if (signal.aborted) return `it did not boot within ${hardwareBootMs / 1000} s`
    if (error instanceof Error) return error.message
    throw error
  }
}

function recalled(options: MicrovmOptions, root: string): AccelVerdict | null {
  return recallAccel(machineFiles(root), findTool(qemuName(machineArch()!))!, kvmOf(options))
}

/** Boots a machine of this shape and keeps its memory, for others to go on from there. It holds nothing of any session. */
export async function saveSnapshot(options: MicrovmOptions, spec: CellSpec): Promise<Saved> {
  const plan = planOf(options, spec)
  const { files, runtime, key } = plan
  const saved = { snapshot: key!, runtime: `${runtime}.erofs` }
  const target = join(files.snapshots, saved.snapshot)
  if (existsSync(target)) return saved
  if (!existsSync(join(files.runtimes, `${runtime}.erofs`))) await runtimeDisk(files, options, plan.shape.arch, files.runtimes)
  const signal = AbortSignal.timeout(bootTimeoutMs)
  await using machine = await launch(options, spec, plan, signal)
  await inWords(warmUp(machine, spec, signal))
  await machine.save(target, signal)
  return saved
}

/** Has the program inside do once what it will be asked for, so that what it compiled and read for that is in the memory that is
 *  kept. It may be greeted again. */
async function warmUp(machine: Machine, spec: CellSpec, signal: AbortSignal): Promise<void> {
  const channel = insideChannel(machine.channel)
  await abortable(channel.ready, signal)
  for (let i = 0; i < warmUps; i++) {
    const process = channel.spawn(underLimits(['/opt/machine/busybox', 'cat', ...reported], spec.limits), {
      env: {},
      cwd: '/',
    })
    process.stdin.end()
    await abortable(Promise.all([text(process.stdout), text(process.stderr), process.exited]), signal)
  }
  await abortable(channel.quiet(), signal)
}

/** Node compiles what it has met a few times. */
const warmUps = 5

/** With software emulation on a busy machine. */
const bootTimeoutMs = 180_000
/** With hardware it is a second or two. QEMU pauses for ever on an instruction that hardware which only looks like it does not know. */
const hardwareBootMs = 30_000
/** How long the machine may take to say why it has ended, when its line has closed already. */
const machineSaysMs = 1_000
const restoreTimeoutMs = 60_000
const memoryBytesMin = 256 * 2 ** 20

type Plan = {
  readonly files: ReturnType<typeof machineFiles>
  readonly qemu: string
  readonly shape: MachineShape
  readonly runtime: string
  /** Under which a saved machine of the kind is found; null to boot in any case. */
  readonly key: string | null
}

/** What machines are made for here; null where there are none. */
export const machineArch = (): MachineArch | null => (process.arch === 'arm64' || process.arch === 'x64' ? process.arch : null)

/** The programs that this host lacks for machines of whatever image. */
export function lacksForMachines(): Lack[] {
  const arch = machineArch()
  if (arch === null) return [{ what: `there is no machine for "${process.arch}"`, remedy: 'Use x86-64 or arm64' }]
  const wanted = [
    { tool: qemuName(arch), name: arch === 'arm64' ? 'qemu-system-arm' : 'qemu-system-x86' },
    { tool: 'mkfs.erofs', name: 'erofs-utils' },
  ]
  return wanted
    .filter(({ tool }) => findTool(tool) === null)
    .map(({ tool, name }) => ({
      what: `${tool} is not installed`,
      remedy: `sudo apt-get install -y --no-install-recommends ${name}`,
    }))
}

function lacksHere({ root }: Pick<CellFiles, 'root'>): Lack[] {
  const image =
    root === undefined
      ? [{ what: 'there is no image for machines', remedy: 'anchorhold image build' }]
      : lacksOf(machineFiles(root))
  return [...lacksForMachines(), ...image]
}

function planOf(options: MicrovmOptions, spec: CellSpec, accel?: Accel): Plan {
  const root = spec.root ?? options.root
  const lacks = lacksHere({ root })
  if (lacks.length > 0) throw unavailable(lacks)
  if (process.getuid?.() === 0 && spec.runAs === null)
    throw unavailable([{ what: 'a cell started by root is no boundary', remedy: 'Give it a user of its own (runAs)' }])
  if (spec.network !== 'none')
    throw unavailable([{ what: 'a machine has no network of the host to share', remedy: 'Leave the network of the host out' }])
  if (spec.limits.memoryBytes < memoryBytesMin)
    throw unavailable([{ what: `a machine needs ${sizeWords(memoryBytesMin)} of memory`, remedy: 'Raise limits.memory_gib' }])
  for (const folder of [spec.workspace, spec.home])
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw unavailable([{ what: `"${folder}" is not a folder`, remedy: '' }])
  const misplaced = spec.mounts.find(({ target }) => !isPlaceForMount(target))
  if (misplaced !== undefined)
    throw unavailable([{ what: `nothing may be mounted at "${misplaced.target}"`, remedy: 'Mount it under /opt' }])
  const files = machineFiles(root!)
  const qemu = findTool(qemuName(machineArch()!))!
  const shape: MachineShape = {
    arch: machineArch()!,
    accel: accel ?? recalled(options, root!)?.accel ?? 'tcg',
    memoryBytes: spec.limits.memoryBytes,
    cpus: Math.max(1, Math.ceil(spec.limits.cpus)),
  }
  const runtime = runtimeKey(files, options)
  return { files, qemu, shape, runtime, key: snapshotKey(files, runtime, qemu, shape) }
}

/** Absolute, one line, and not where the guest has its own. The wall has looked at what may be mounted at all. */
function isPlaceForMount(target: string): boolean {
  if (!/^(\/[^/\0\n]+)+$/.test(target) || target.split('/').some((part) => part === '.' || part === '..')) return false
  const own = [
    '/proc',
    '/sys',
    '/dev',
    '/run/windows',
    '/workspace',
    '/home/agent',
    '/opt/machine',
    '/tmp',
    '/var',
    '/etc',
    '/usr',
  ]
  return !own.some((path) => target === path || target.startsWith(`${path}/`) || path.startsWith(`${target}/`))
}

async function launch(options: MicrovmOptions, spec: CellSpec, plan: Plan, signal: AbortSignal): Promise<Machine> {
  const { files, key, shape, qemu } = plan
  const saved = key === null ? null : join(files.snapshots, key)
  const snapshot = saved !== null && existsSync(saved) ? saved : null
  mkdirSync(spec.scratch, { recursive: true })
  const runtime = await runtimeDisk(files, options, shape.arch, spec.scratch)
  const parts: MachineParts = { kernel: files.kernel, initramfs: files.initramfs, root: files.root, runtime, snapshot }
  const deadline = AbortSignal.timeout(snapshot === null ? bootTimeoutMs : restoreTimeoutMs)
  try {
    return await startMachine(
      { wall: options.wall, spec, qemu, shape, parts, kvm: kvmOf(options) },
      AbortSignal.any([signal, deadline]),
    )
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof Failure) throw error
    if (snapshot !== null) {
      // Of another processor, or of no use any more for whatever reason: the next one is not to wait for it again.
      forget(snapshot)
      return await launch(options, spec, { ...plan, key: null }, signal)
    }
    const why = deadline.aborted ? 'it did not answer in time' : error instanceof Error ? error.message : String(error)
    const remedy = shape.accel === 'kvm' ? 'See whether the hardware still runs machines: anchorhold doctor --fresh' : mend
    throw unavailable([{ what: why, remedy }])
  } finally {
    if (runtime.startsWith(spec.scratch)) rmSync(runtime, { force: true })
  }
}

function forget(file: string): void {
  try {
    rmSync(file, { force: true })
  } catch {
    // It is not for this user to remove: whoever builds the image does.
  }
}

const mend = 'Make its files anew: anchorhold image build'

/** Brings a machine that stands to the present and into its session, and sees how it is held. */
async function enter(machine: Machine, spec: CellSpec, { shape }: Plan, signal: AbortSignal): Promise<Cell> {
  const mounts = spec.mounts.map(({ source, target }) => ({
    target,
    kind: statSync(source).isDirectory() ? ('folder' as const) : ('file' as const),
  }))
  const setup = { nowMs: Date.now(), entropy: randomBytes(64), tmpBytes: spec.limits.tmpBytes, mounts }
  await inWords(machine.tell(setupLines(setup), signal))
  // A cell that stands ready before its session has windows nevertheless.
  const names =
    spec.windows === null ? [] : [...new Set(['model.sock', 'net.sock', ...readdirSync(spec.windows)])].filter(isSocketName)
  const channel = insideChannel(machine.channel, {
    relays: { folder: inside.windows, sockets: Object.fromEntries(names.map((name) => [name, join(spec.windows ?? '', name)])) },
  })
  await inWords(abortable(channel.ready, signal))
  await inWords(machine.tell(sealLines, signal))

  const stands = standing(async () => {
    await machine.sync()
    channel.close()
    await machine[Symbol.asyncDispose]()
  })
  void machine.ended.then((why) => stands.endBecause(why))
  // A machine that ends closes its line as well, and knows better why.
  void channel.closed.then(async (why) => {
    await Promise.race([machine.ended, delay(machineSaysMs, null, { ref: false })])
    await stands.endBecause(why)
  })

  const spawn = (argv: readonly [string, ...string[]], options: SpawnOptions): CellProcess => {
    stands.requireFor(argv[0])
    return channel.spawn(underLimits(argv, spec.limits), options)
  }
  const probe = spawn(['/opt/machine/busybox', 'cat', ...reported], { env: {}, cwd: '/' })
  probe.stdin.end()
  const [report, said, code] = await abortable(Promise.all([text(probe.stdout), text(probe.stderr), probe.exited]), signal)
  if (code !== 0) throw unavailable([{ what: `a process inside ended with ${code}: ${said.slice(0, 500)}`, remedy: '' }])
  return {
    limits: limitsSeen(report, spec, shape, machine.wall.limits),
    ended: stands.ended,
    get trouble() {
      return { ending: stands.ending, met: null }
    },
    place: (hostPath) => placeInside(spec, hostPath),
    spawn,
    onTerminal: (argv, options) => onTerminal(spawn, argv, options),
    [Symbol.asyncDispose]: stands.end,
  }
}

const isSocketName = (name: string) => /^[\w.-]+\.sock$/.test(name)

const reported = ['/proc/self/status', '/proc/self/mountinfo', '/proc/self/limits', '/proc/meminfo']

/** Lines of /proc/self/status, proc(5). */
const postureWanted = [
  /^Uid:\t1000\t1000\t1000\t1000$/m,
  /^Gid:\t1000\t1000\t1000\t1000$/m,
  /^CapPrm:\t0{16}$/m,
  /^CapEff:\t0{16}$/m,
  /^NoNewPrivs:\t1$/m,
]

/** Only what a process inside reports of itself, or what holds QEMU from outside. Throws unless it is held as it should be. */
export function limitsSeen(
  report: string,
  spec: Pick<CellSpec, 'limits'>,
  shape: MachineShape,
  wall: readonly LimitInForce[],
): LimitInForce[] {
  const wrong = postureWanted.filter((line) => !line.test(report))
  if (wrong.length > 0)
    throw unavailable([
      {
        what: `a process inside was not held as it should be (${wrong.map(String).join(', ')})`,
        remedy: 'anchorhold image build',
      },
    ])
  const { limits } = spec
  const memory = Number(/^MemTotal:\s+(\d+) kB$/m.exec(report)?.[1] ?? Infinity) * 1024
  const tmp = Math.max(
    ...['/tmp', '/var/tmp', '/dev/shm'].map((path) => {
      const mount = report.split('\n').find((line) => line.split(' ')[4] === path)
      return Number(/[ ,]size=(\d+)k/.exec(mount ?? '')?.[1] ?? Infinity) * 1024
    }),
  )
  const rlimit = (name: 'file_size' | 'open_files' | 'processes', row: 'fsize' | 'nofile' | 'nproc', wanted: number) => {
    const value = hardLimit(report, row) ?? Infinity
    return held(name, value, wanted, row === 'fsize' ? sizeWords : String, 'rlimit inside the machine')
  }
  const words = shape.accel === 'tcg' ? ', worked out in software: slow' : ''
  const slow = slownessBy[shape.accel] > 1 ? { slowness: slownessBy[shape.accel] } : {}
  const cpu = wall.find(({ name }) => name === 'cpu')
  return [
    held('memory', memory, limits.memoryBytes, () => sizeWords(limits.memoryBytes), 'size of the machine'),
    rlimit('processes', 'nproc', limits.processesMax),
    cpu?.enforcement === 'enforced'
      ? { ...cpu, how: `${cpu.how}${words}`, ...slow }
      : { name: 'cpu', value: `${shape.cpus} CPUs`, enforcement: 'enforced', how: `processors of the machine${words}`, ...slow },
    ...wall.filter(({ name }) => name === 'disk'),
    rlimit('file_size', 'fsize', limits.fileBytes),
    rlimit('open_files', 'nofile', limits.openFilesMax),
    held('tmp', tmp, limits.tmpBytes, sizeWords, 'size of the file system'),
  ]
}

function held(
  name: LimitInForce['name'],
  value: number,
  wanted: number,
  words: (value: number) => string,
  how: string,
): LimitInForce {
  return value <= wanted
    ? { name, value: words(value), enforcement: 'enforced', how }
    : { name, value: words(wanted), enforcement: 'not enforced', how: 'it was not seen to be set inside' }
}

function abortable<T>(what: Promise<T>, signal: AbortSignal): Promise<T> {
  const late = Promise.withResolvers<never>()
  const abort = () => late.reject(signal.reason)
  signal.addEventListener('abort', abort)
  if (signal.aborted) abort()
  return Promise.race([what, late.promise]).finally(() => signal.removeEventListener('abort', abort))
}

/** What the guest or QEMU does wrong is a cell that cannot be had, not a bug of ours. */
async function inWords<T>(what: Promise<T>): Promise<T> {
  try {
    return await what
  } catch (error) {
    if (error instanceof Failure || !(error instanceof Error) || error.name === 'AbortError' || error.name === 'TimeoutError')
      throw error
    throw unavailable([{ what: error.message, remedy: mend }])
  }
}

function unavailable(lacks: readonly Lack[]): Failure {
  return new Failure('cell_unavailable', `Cannot start a microVM cell: ${lacks.map(({ what }) => what).join('; ')}`, {
    hint: lacks.map(({ remedy }) => remedy).join('; '),
  })
}
