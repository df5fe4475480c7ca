import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { accessSync, constants, existsSync, lchownSync, lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { Failure } from '@anchorhold/protocol/failures'
import type { Cell, CellDriver, CellFiles, CellSpec, Lack } from '../cell.ts'
import { exitOf } from '../cell-process.ts'
import { readHostRoot } from '../host-root.ts'
import { insideChannel } from '../inside/channel.ts'
import { installCommand, readText } from '../install.ts'
import { isPlaceForMount, isWithin, placeInside } from '../layout.ts'
import { emptyScratch, writeLease } from '../reap.ts'
import { type Limits, limitsOf, type SeenInside } from '../limits/limits.ts'
import { identify, isGone, type ProcessId, readProc, signalPid, treeOf, until } from '../limits/processes.ts'
import { isRowOf } from '../limits/rlimits.ts'
import { seccompArch } from '../seccomp.ts'
import { lacksOnTrial } from '../trial.ts'
import { type Engine, type Plan, scratchPlaces, type Users } from './engine.ts'
import { gvisor } from './gvisor.ts'
import { chooseRuntime, podman } from './podman.ts'
import { type Bind, makeRoot, own, type Root } from './root.ts'
import { servedCells } from './served.ts'
import { servedEngines } from './served-engine.ts'

/** Cells made by rootless Podman, or by the engine that was chosen instead. */
export const containerCells = (files: CellFiles): CellDriver =>
  files.engine === undefined || files.engine === 'podman' ? podmanCells(files) : servedCells(servedEngines[files.engine], files)

const podmanCells = (files: CellFiles): CellDriver =>
  containerDriver(podman({ runtime: chooseRuntime(readText, (program) => find(program) !== null) }), files)

/** Cells made by gVisor. */
export const gvisorCells = (files: CellFiles): CellDriver => containerDriver(gvisor(), files)

/** Cells made by an engine, without its daemon and without a user of its own: it runs as the session's user, root in namespaces that
 *  the driver makes for this one cell. So an escape from the engine lands at a user who has nothing, nothing of it is shared
 *  between cells, and with the first process of those namespaces everything is gone: engine, container, mounts. */
function containerDriver(engine: Engine, files: CellFiles): CellDriver {
  const { rung } = engine
  const unavailable = (lacks: readonly Lack[]) =>
    new Failure('cell_unavailable', `Cannot start a ${rung} cell: ${lacks.map(({ what }) => what).join('; ')}`, {
      hint: lacks.map(({ remedy }) => remedy).join('; '),
    })
  const lacks = (): readonly Lack[] => [...lacksForNamespaces(), ...engine.lacks(readText, (program) => find(program) !== null)]

  const start: CellDriver['start'] = async (spec, signal) => {
    const missing = [...lacks(), ...refusals(spec)]
    if (missing.length > 0) throw unavailable(missing)
    signal.throwIfAborted()
    return startCell({ engine, files, spec, unavailable }, signal)
  }

  return {
    rung,
    start,
    async missing() {
      const missing = lacks()
      if (missing.length > 0) return missing
      return lacksOnTrial(start, probeTimeoutMs)
    },
  }
}

const probeTimeoutMs = 20_000
const endTimeoutMs = 10_000
const saidCharsMax = 4_000

type Making = {
  readonly engine: Engine
  readonly files: CellFiles
  readonly spec: CellSpec
  readonly unavailable: (lacks: readonly Lack[]) => Failure
}

async function startCell(making: Making, signal: AbortSignal): Promise<Cell> {
  const { engine, spec, unavailable } = making
  const over = new AbortController()
  const ended = Promise.withResolvers<string>()
  let outer: ProcessId | null = null
  let server: Server | null = null
  let limits = limitsOf(spec, () => (outer === null ? [] : [outer.pid]), engine.tasks(spec.limits))

  /** Invariant: with the outermost process gone, its namespaces' first one goes as well, and all the rest with that. */
  async function endEngine(): Promise<void> {
    const all = outer === null ? [] : [outer, ...treeOf([outer.pid])]
    if (outer !== null && !isGone(outer)) signalPid(outer.pid, 'SIGKILL')
    await until('the processes of a cell have ended', endTimeoutMs, () => all.every(isGone))
    outer = null
    server?.close()
    emptyScratch(spec.scratch)
  }

  /** Once for all who ask: whoever is told that the cell has ended may take its folders away, and a second end would look for them. */
  let ending: Promise<void> | null = null
  async function end(): Promise<void> {
    ending ??= (async () => {
      over.abort()
      await endEngine()
      await limits[Symbol.asyncDispose]()
    })()
    await ending
  }

  async function endBecause(reason: string): Promise<void> {
    if (over.signal.aborted) return
    await end()
    ended.resolve(reason)
  }

  async function begin() {
    const { plan, root, init, channelFolder } = prepare(making, limits)
    const socketPath = join(channelFolder, 'keeper')
    server = createServer()
    server.listen(socketPath)
    await once(server, 'listening')
    giveTo(spec, socketPath)
    const { child, release, said } = spawnEngine(making, limits, plan, { root, init })
    outer = child.pid === undefined ? null : identify(child.pid)
    const died = exitOf(child).then((code) => {
      throw new NotStarted(code, said())
    })
    died.catch(() => {}) // when it stands, that is the end of the channel
    if (outer === null) return died
    writeLease(spec.scratch, { rung: engine.rung, processes: [outer] })
    try {
      limits.admit(outer.pid)
    } catch (error) {
      if (isGone(outer)) return died
      throw new NotAdmitted('a process could not be put under its limits', { cause: error })
    }
    release()
    const aborted = once(signal, 'abort').then(() => signal.throwIfAborted())
    aborted.catch(() => {})
    signal.throwIfAborted()
    const [socket] = await Promise.race([once(server, 'connection') as Promise<[Socket]>, died, aborted.then(() => died)])
    // The program inside has come, before anything of the agent's was there; nobody else shall.
    server.close()
    const channel = insideChannel(socket)
    void channel.closed.then((why) => endBecause(`The cell was ended: ${why}`))
    const report = await Promise.race([channel.ready, aborted.then(() => died)])
    return { plan, channel, seen: check(making, plan, `${outsideLimits(engine, outer)}\n${report}`) }
  }

  try {
    const { plan, channel, seen } = await begin()
      .catch(async (error: unknown) => {
        if (!(error instanceof NotAdmitted)) throw error
        await endEngine()
        limits = await limits.withoutGroups()
        return begin()
      })
      .catch((error: unknown) => {
        signal.throwIfAborted()
        throw error instanceof NotStarted ? unavailable(explain(making, error)) : error
      })
    void limits.watch(over.signal).then((reason) => (reason === null ? undefined : endBecause(`The cell was ended: ${reason}`)))
    const requireStanding = (command: string) => {
      if (over.signal.aborted) throw new Failure('cell_unavailable', `Cannot run "${command}": the cell has ended`)
    }
    return {
      limits: await limits.inForce(seen),
      ended: ended.promise,
      place: (hostPath) => placeInside(spec, hostPath),
      spawn(argv, options) {
        requireStanding(argv[0])
        return channel.spawn(argv, options)
      },
      async onTerminal(argv, options) {
        requireStanding(argv[0])
        return onTerminal(making, limits, plan, outer, { argv, ...options })
      },
      [Symbol.asyncDispose]: end,
    }
  } catch (error) {
    await end()
    throw error
  }
}

/** The engine ended before the cell stood; what it said is in words for its operator at best. */
class NotStarted extends Error {
  readonly said: string
  constructor(code: number, said: string) {
    super(`the engine ended with ${code}`)
    this.said = said.trim().slice(-saidCharsMax)
  }
}
class NotAdmitted extends Error {}

/** Everything that the engine finds in the driver's folder. */
function prepare(
  { engine, files, spec }: Making,
  limits: Limits,
): { plan: Plan; root: Root; init: string; channelFolder: string } {
  emptyScratch(spec.scratch)
  const at = (name: string) => join(spec.scratch, name)
  const channelFolder = at('channel')
  mkdirSync(channelFolder, { mode: 0o700 })
  for (const name of ['engine', 'engine/home', 'engine/state', 'engine/store', 'engine/terminals', 'whole'])
    mkdirSync(at(name), { mode: 0o700 })
  const init = find('catatonit')! // refused otherwise
  const root = makeRoot({
    spec,
    files,
    init,
    host: readHostRoot(),
    folder: at('root'),
    channel: channelFolder,
  })
  const plan: Plan = {
    folder: enginePlace(root.binds),
    root: root.over === null ? root.folder : at('whole'),
    binds: root.binds,
    tmpBytes: spec.limits.tmpBytes,
    rlimits: limits.rlimits,
    users: usersOf(spec),
    owner: spec.runAs ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    arch: seccompArch(process.arch)!, // likewise
    extras: spec.extras,
    command: [own.init, '--', own.node, ...nodeOptions, own.program, '--socket', `${own.channel}/keeper`],
  }
  for (const [name, content] of Object.entries(engine.files(plan))) writeFileSync(at(`engine/${name}`), content, { mode: 0o644 })
  giveTo(spec, spec.scratch)
  return { plan, root, init, channelFolder }
}

/** It carries bytes: a small heap and no helping threads are enough, and a start counts. */
const nodeOptions = [
  '--disable-warning=ExperimentalWarning',
  '--max-semi-space-size=1',
  '--max-old-space-size=128',
  '--v8-pool-size=0',
]

/** What the caller has made as root, with its own umask, belongs to the session's user. */
function giveTo(spec: CellSpec, path: string): void {
  if (spec.runAs === null || process.getuid?.() !== 0) return
  lchownSync(path, spec.runAs.uid, spec.runAs.gid)
  if (lstatSync(path).isDirectory()) for (const name of readdirSync(path)) giveTo(spec, join(path, name))
}

/** In a shell's words, each becoming the next: dies with this process; waits until it is under the cell's limits; is root in
 *  namespaces of its own, whose first process takes all others along when it ends. */
function spawnEngine(
  { engine, spec }: Making,
  limits: Limits,
  plan: Plan,
  { root, init }: { readonly root: Root; readonly init: string },
) {
  const laid = root.over === null ? ['', ''] : [`lowerdir=${root.folder}:${root.over}`, plan.root]
  const inNamespaces = ['sh', '-c', engine.stays ? scripts.stays : scripts.leaves, init]
  const mounted = [join(spec.scratch, 'engine'), plan.folder, ...laid]
  const argv = limits.wrap(
    [
      ...(['setpriv', '--pdeathsig', 'KILL', '--', ...holding] as const),
      ...['unshare', '--user', ...maps[plan.users], '--mount', '--pid', ...engine.namespaces],
      ...['--fork', '--kill-child=KILL', '--mount-proc', '--', ...inNamespaces, ...mounted, ...engine.run(plan)],
    ],
    engine.hostRlimits,
  )
  const [file, ...args] = argv
  const child = spawn(file, args, {
    env: { ...engine.env(plan) },
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    detached: true,
    ...spec.runAs,
  })
  let said = ''
  const stderr = child.stderr as Readable
  stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-2 * saidCharsMax)))
  const hold = child.stdio[3] as Writable
  hold.on('error', () => {}) // it has ended, which its exit tells
  return { child, said: () => said, release: () => void hold.end('go\n') }
}

/** First the engine's folder and where it sees it; then what the root is laid over, if anything, and where; then the engine.
 *  In the engine's folder, terminals of the cell's own. `$0` is what waits as first process when the engine has left. */
const mounting = [
  'set -e; mount --bind "$1" "$2"',
  'mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$2/terminals"',
  '[ -z "$3" ] || mount -t overlay overlay -o "$3" "$4"',
  'shift 4; ',
].join('; ')
const scripts = { stays: `${mounting}exec "$@"`, leaves: `${mounting}"$@"; exec "$0" -P` }

/** Podman takes no path of more than 50 characters for its sockets, and a session's folder may be deep. In the cell's own mount
 *  namespace, the engine finds its folder at a short one: a place for mounts that the kernel gives, and that nothing of the
 *  cell's lies in. */
function enginePlace(binds: readonly Bind[]): string {
  const isFree = (place: string) => existsSync(place) && !binds.some(({ source }) => isWithin(source, place))
  return ['/sys/kernel/debug', '/sys/kernel/security', '/sys/kernel/config'].find(isFree) ?? '/mnt'
}
const maps = { single: ['--map-root-user'], range: ['--map-root-user', '--map-auto'] } as const satisfies Record<
  Users,
  readonly string[]
>

/** Becomes the command once a line has come on the third descriptor. */
const holding = ['sh', '-c', 'read -r _ <&3 || exit 1; exec "$@" 3<&-', 'sh'] as const
const deaf = ['sh', '-c', 'trap "" INT QUIT; exec "$@"', 'sh'] as const

type TerminalCommand = { readonly argv: readonly string[]; readonly env: Readonly<Record<string, string>>; readonly cwd: string }

/** By way of a file, because an argument list can be read by everyone. */
async function onTerminal(
  { engine, spec }: Making,
  limits: Limits,
  plan: Plan,
  outer: ProcessId | null,
  command: TerminalCommand,
): Promise<number> {
  const first = outer === null ? undefined : treeOf([outer.pid]).find(({ pid }) => pid !== outer.pid)
  if (first === undefined) throw new Failure('cell_unavailable', 'Cannot run a command on the terminal: the cell has ended')
  const name = `command-${randomUUID()}`
  const file = join(spec.scratch, 'channel', name)
  writeFileSync(file, JSON.stringify(command), { mode: 0o600 })
  giveTo(spec, file)
  const becoming = [own.node, ...nodeOptions, own.program, '--command', `${own.channel}/${name}`]
  const { argv, content, interrupt } = engine.onTerminal(plan, becoming, name)
  const described = join(spec.scratch, 'engine', name)
  writeFileSync(described, content, { mode: 0o600 })
  giveTo(spec, described)
  const entering = ['--target', String(first.pid), '--user', '--mount', '--pid', ...engine.namespaces, '--preserve-credentials']
  // The signal is for the command: what only waits for its end must not die of it. It waits until it is under the cell's limits.
  const [program, ...args] = [...holding, ...(interrupt === 'signal' ? deaf : []), 'nsenter', ...entering, '--', ...argv] as const
  const child = spawn(program, args, {
    env: { ...engine.env(plan), TERM: command.env.TERM ?? 'xterm' },
    cwd: '/',
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
    ...spec.runAs,
  })
  try {
    if (child.pid !== undefined) limits.admit(child.pid)
    const hold = child.stdio[3] as Writable
    hold.on('error', () => {}) // it has ended, which its exit tells
    hold.end('go\n')
    return await exitOf(child)
  } finally {
    // Already gone when the cell has ended.
    for (const each of [file, described]) rmSync(each, { force: true })
  }
}

/** Throws unless the program inside is held as it should be. */
export function check(
  { engine, spec, unavailable }: Pick<Making, 'engine' | 'spec' | 'unavailable'>,
  plan: Plan,
  report: string,
): SeenInside {
  const wrong = engine.posture(plan).filter((line) => !line.test(report))
  if (wrong.length > 0) {
    throw unavailable([
      {
        what: `a process inside was not held as it should be (${wrong.map(String).join(', ')})`,
        remedy: 'Update the engine and the kernel',
      },
    ])
  }
  const sizes = scratchPlaces.map((path) => {
    const mount = report.split('\n').find((line) => line.split(' ')[4] === path)
    const [, figure, unit] = /[ ,]size=(\d+)(k?)/.exec(mount ?? '') ?? []
    return figure === undefined ? Infinity : Number(figure) * (unit === 'k' ? 1024 : 1)
  })
  const tmpBytes = Math.max(...sizes)
  if (tmpBytes > spec.limits.tmpBytes)
    throw unavailable([{ what: 'the size of /tmp could not be limited', remedy: 'Update the engine' }])
  return { limits: report, tmpBytes }
}

/** Rows of the engine's own /proc/PID/limits, to be read before those that come from inside. */
function outsideLimits({ outsideRlimits }: Engine, { pid }: ProcessId): string {
  const rows = (readProc(pid, 'limits') ?? '').split('\n')
  return rows.filter((row) => outsideRlimits.some((name) => isRowOf(row, name))).join('\n')
}

/** Whose range of users a cell's may be: newuidmap lets nobody else's be taken. */
function usersOf({ runAs }: CellSpec): Users {
  if (runAs !== null || find('newuidmap') === null || find('newgidmap') === null) return 'single'
  let names: readonly string[] = [String(process.getuid?.())]
  try {
    names = [...names, userInfo().username]
  } catch {
    // A session's user is in no database.
  }
  const hasRange = (file: string) =>
    (readText(file) ?? '').split('\n').some((line) => {
      const [owner = '', , count] = line.split(':')
      return names.includes(owner) && Number(count) >= rangeMin
    })
  return hasRange('/etc/subuid') && hasRange('/etc/subgid') ? 'range' : 'single'
}
const rangeMin = 65_535

/** Why such a cell is not to be had here, whatever the engine. */
function refusals(spec: CellSpec): Lack[] {
  const misplaced = spec.mounts.find((mount) => !isPlaceForMount(mount))
  const needsRange = (['sudo', 'nested'] as const).filter((extra) => spec.extras[extra])
  return [
    ...(seccompArch(process.arch) === null
      ? [{ what: `there is no seccomp filter for "${process.arch}"`, remedy: 'Use x86-64 or arm64' }]
      : []),
    ...(process.getuid?.() === 0 && spec.runAs === null
      ? [{ what: 'a cell started by root is no boundary', remedy: 'Give it a user of its own (runAs)' }]
      : []),
    ...(misplaced === undefined
      ? []
      : [{ what: `nothing may be mounted at "${misplaced.target}"`, remedy: 'Mount it under /opt' }]),
    ...(spec.network === 'host'
      ? [{ what: "the host's network cannot be given to this rung", remedy: 'Use --rung bwrap for it' }]
      : []),
    ...(spec.root !== null && !/^[\w./@+-]+$/.test(spec.root)
      ? [{ what: `a root folder cannot lie at "${spec.root}"`, remedy: 'Use a path of letters, digits and ./@+-_' }]
      : []),
    ...(needsRange.length > 0 && usersOf(spec) !== 'range'
      ? [
          {
            what: `${needsRange.join(' and ')} inside needs a range of users of your own in /etc/subuid and /etc/subgid`,
            remedy:
              'Run the daemon as an ordinary user, after: sudo usermod --add-subuids 200000-265535 --add-subgids 200000-265535 $USER',
          },
        ]
      : []),
    ...(spec.extras.gpu && readText('/etc/cdi/nvidia.yaml') === null && readText('/var/run/cdi/nvidia.yaml') === null
      ? [
          {
            what: 'no graphics processor is described to engines',
            remedy: 'Install the NVIDIA container toolkit and run: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml',
          },
        ]
      : []),
  ]
}

const lacksForNamespaces = (): Lack[] =>
  ['unshare', 'setpriv', 'nsenter']
    .filter((program) => find(program) === null)
    .map((program) => ({ what: `${program} is not installed`, remedy: installCommand(readText, 'util-linux') }))

function explain({ engine }: Making, { said, message }: NotStarted): Lack[] {
  if (readText('/proc/sys/user/max_user_namespaces') === '0' || readText('/proc/sys/kernel/unprivileged_userns_clone') === '0') {
    return [
      {
        what: 'user namespaces are switched off',
        remedy: "echo 'user.max_user_namespaces=15000' | sudo tee /etc/sysctl.d/60-anchorhold.conf && sudo sysctl --system",
      },
    ]
  }
  const words = said
    .split('\n')
    .filter((line) => !/level=warning/.test(line))
    .join('; ')
  return [
    {
      what: `${engine.rung === 'gvisor' ? 'runsc' : 'Podman'} does not start it: ${words || message}`,
      remedy: 'Mend what is named and run "anchorhold doctor" again',
    },
  ]
}

/** Debian has these in PATH; others keep some beside Podman. */
function find(program: string): string | null {
  const folders = ['/usr/bin', '/usr/sbin', '/bin', '/sbin', '/usr/libexec/podman', '/usr/lib/podman']
  return folders.map((folder) => join(folder, program)).find(isExecutable) ?? null
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
