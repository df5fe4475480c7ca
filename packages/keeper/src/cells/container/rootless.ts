import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Failure } from '@anchorhold/protocol/failures'
import { allowedCopy, lacksProfile } from '../apparmor.ts'
import type { Cell, CellDriver, CellFiles, CellSpec, Lack } from '../cell.ts'
import { exitOf } from '../cell-process.ts'
import { holesIn } from '../holes.ts'
import { readHostRoot } from '../host-root.ts'
import { installCommand, readText } from '../install.ts'
import { lookAt } from '../installed.ts'
import { placeInside } from '../layout.ts'
import { type Limits, limitsOf } from '../limits/limits.ts'
import { identify, isEnding, isGone, type ProcessId, readProc, signalPid, treeOf, until } from '../limits/processes.ts'
import { isRowOf } from '../limits/rlimits.ts'
import { emptyScratch, writeLease } from '../reap.ts'
import { seccompArch } from '../seccomp.ts'
import { standing } from '../standing.ts'
import { engineDriver, type Unavailable } from './engine-driver.ts'
import { elevatedOf, writeElevated } from './elevated.ts'
import type { Engine, Plan } from './engine.ts'
import { type Enclosed, enginePlace, spawnEngine, spawnOnTerminal } from './namespaces.ts'
import { checkHeld, expectProgram, giveTo, ownerOf, programCommand, terminalProgram } from './program.ts'
import { find, refusalsRootless, usersOf } from './refusals.ts'
import { type Root, rootOf } from './root.ts'

/** Cells made by an engine, without its daemon and without a user of its own: it runs as the session's user, root in namespaces that
 *  the driver makes for this one cell. So an escape from the engine lands at a user who has nothing, nothing of it is shared
 *  between cells, and with the first process of those namespaces everything is gone: engine, container, mounts. */
export function rootlessCells(engine: Engine, files: CellFiles): CellDriver {
  return engineDriver({
    rung: engine.rung,
    lacks: () => [...lacksForNamespaces(), ...engine.lacks(readText, (program) => find(program) !== null)],
    refuses: refusalsRootless,
    probeTimeoutMs,
    startCell: (spec, unavailable, signal) => startCell({ engine, files, spec, unavailable }, signal),
    holes: async () => holesIn(await Promise.all(engine.programs.map((name) => lookAt(name, find(name))))),
    ...(engine.notes === undefined ? {} : { notes: () => engine.notes! }),
  })
}

const probeTimeoutMs = 20_000
const endTimeoutMs = 10_000
const saidCharsMax = 4_000

type Making = {
  readonly engine: Engine
  readonly files: CellFiles
  readonly spec: CellSpec
  readonly unavailable: Unavailable
}

async function startCell(making: Making, signal: AbortSignal): Promise<Cell> {
  const { engine, spec, unavailable } = making
  let outer: ProcessId | null = null
  let expected: { close(): void } | null = null
  let limits = limitsOf(spec, () => (outer === null ? [] : [outer.pid]), engine.tasks(spec.limits))

  /** Invariant: with the outermost process gone, its namespaces' first one goes as well, and all the rest with that. */
  async function endEngine(): Promise<void> {
    const all = outer === null ? [] : [outer, ...treeOf([outer.pid])]
    if (outer !== null && !isGone(outer)) signalPid(outer.pid, 'SIGKILL')
    await until('the processes of a cell have ended', endTimeoutMs, () => all.every(isGone))
    outer = null
    expected?.close()
    emptyScratch(spec.scratch)
  }
  const stands = standing(async () => {
    await endEngine()
    await limits[Symbol.asyncDispose]()
  })

  async function begin() {
    emptyScratch(spec.scratch)
    const { plan, root, init, channelFolder } = planOf(making, limits)
    const { child, said, admitted, furnished } = spawnEngine({ engine, spec, limits, plan }, { root, init })
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
      if (isEnding(outer)) return died
      throw new NotAdmitted('a process could not be put under its limits', { cause: error })
    }
    admitted()
    // While it makes its namespaces.
    furnish(making, plan, root, channelFolder)
    const program = await expectProgram(spec, channelFolder)
    expected = program
    furnished()
    const aborted = once(signal, 'abort').then(() => signal.throwIfAborted())
    aborted.catch(() => {})
    signal.throwIfAborted()
    const waited = new AbortController()
    const emptied = engine.stays
      ? died
      : whenEmptied(outer, waited.signal).then(() => Promise.reject(new NotStarted(null, saidIn(making))))
    emptied.catch(() => {})
    const channel = await Promise.race([program.came, died, emptied, aborted.then(() => died)]).finally(() => waited.abort())
    void channel.closed.then((why) => stands.endBecause(why))
    const report = await Promise.race([channel.ready, aborted.then(() => died)])
    const seen = checkHeld(`${outsideLimits(engine, outer)}\n${report}`, engine.posture(plan), spec, unavailable)
    return { plan, channel, channelFolder, seen }
  }

  try {
    const { plan, channel, channelFolder, seen } = await begin()
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
    void limits.watch(stands.over).then((why) => (why === null ? undefined : stands.endBecause(why)))
    return {
      limits: await limits.inForce(seen),
      ended: stands.ended,
      get trouble() {
        return { ending: stands.ending, met: limits.met() }
      },
      place: (hostPath) => placeInside(spec, hostPath),
      spawn(argv, options) {
        stands.requireFor(argv[0])
        return channel.spawn(argv, options)
      },
      async onTerminal(argv, options) {
        stands.requireFor(argv[0])
        const command = terminalProgram(spec, channelFolder, argv, options)
        try {
          return await onTerminal({ engine, spec, limits, plan }, outer, { ...command, term: options.env.TERM ?? 'xterm' })
        } finally {
          command.remove()
        }
      },
      [Symbol.asyncDispose]: stands.end,
    }
  } catch (error) {
    await stands.end()
    throw error
  }
}

/** The engine ended before the cell stood; what it said is in words for its operator at best. */
class NotStarted extends Error {
  readonly said: string
  constructor(code: number | null, said: string) {
    super(code === null ? 'the container ended at once' : `the engine ended with ${code}`)
    this.said = said.trim().slice(-saidCharsMax)
  }
}
class NotAdmitted extends Error {}

/** Settles when an engine that leaves has left, and the container that it made has ended: what waits in the engine's place as the first
 *  process has no other left. It would wait for ever. */
async function whenEmptied(outer: ProcessId, over: AbortSignal): Promise<void> {
  for (;;) {
    await delay(lookEveryMs, null, { signal: over })
    const inside = treeOf([outer.pid]).filter(({ pid }) => pid !== outer.pid)
    if (inside.length === 1 && readProc(inside[0]!.pid, 'comm')?.trim() === 'catatonit') return
  }
}
const lookEveryMs = 100

/** What the container of such an engine has said. */
function saidIn({ engine, spec }: Making): string {
  return engine.said === undefined ? '' : engine.said.read(readText(join(spec.scratch, 'engine', engine.said.file)) ?? '')
}

function planOf(
  { engine, files, spec }: Making,
  limits: Limits,
): { plan: Plan; root: Root; init: string; channelFolder: string } {
  const at = (name: string) => join(spec.scratch, name)
  const channelFolder = at('channel')
  const init = find('catatonit')! // refused otherwise
  const root = rootOf({
    spec,
    files,
    init,
    host: readHostRoot(),
    folder: at('root'),
    channel: channelFolder,
  })
  const plan: Plan = {
    folder: enginePlace(engine, at('engine'), root.binds),
    root: root.over === null ? root.folder : at('whole'),
    binds: root.binds,
    tmpBytes: spec.limits.tmpBytes,
    rlimits: limits.rlimits,
    users: usersOf(spec),
    owner: ownerOf(spec),
    arch: seccompArch(process.arch)!, // likewise
    extras: spec.extras,
    elevated: elevatedOf(spec.root, spec.extras),
    command: programCommand,
  }
  return { plan, root, init, channelFolder }
}

/** Everything that the engine finds in the driver's folder. */
function furnish({ engine, spec }: Making, plan: Plan, root: Root, channelFolder: string): void {
  const at = (name: string) => join(spec.scratch, name)
  for (const folder of [channelFolder, ...folders.map(at)]) mkdirSync(folder, { mode: 0o700 })
  root.make()
  if (plan.elevated !== null) writeElevated(at('elevated'), plan.elevated)
  for (const [name, content] of Object.entries(engine.files(plan))) writeFileSync(at(`engine/${name}`), content, { mode: 0o644 })
  giveTo(spec, spec.scratch)
}
const inEngine = ['home', 'state', 'store', 'terminals', 'elevated'].map((name) => `engine/${name}`)
const folders = ['engine', ...inEngine, 'elevated', 'whole']

async function onTerminal(
  enclosed: Enclosed,
  outer: ProcessId | null,
  command: Parameters<typeof spawnOnTerminal>[2],
): Promise<number> {
  const first = outer === null ? undefined : treeOf([outer.pid]).find(({ pid }) => pid !== outer.pid)
  if (first === undefined) throw new Failure('cell_unavailable', 'Cannot run a command on the terminal: the cell has ended')
  return spawnOnTerminal(enclosed, first.pid, command)
}

/** Rows of the engine's own /proc/PID/limits, to be read before those that come from inside. */
function outsideLimits({ outsideRlimits }: Engine, { pid }: ProcessId): string {
  const rows = (readProc(pid, 'limits') ?? '').split('\n')
  return rows.filter((row) => outsideRlimits.some((name) => isRowOf(row, name))).join('\n')
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
  const unprofiled = lacksProfile(said, allowedCopy(find('unshare')!), readText)
  if (unprofiled !== null) return [unprofiled]
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
