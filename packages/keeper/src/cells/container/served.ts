import { noExtras } from '@anchorhold/protocol/sessions'
import { spawn } from 'node:child_process'
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { LimitInForce } from '@anchorhold/protocol/rungs'
import type { Cell, CellDriver, CellFiles, CellSpec, Lack } from '../cell.ts'
import { exitOf } from '../cell-process.ts'
import { holesIn } from '../holes.ts'
import { readHostRoot } from '../host-root.ts'
import { readText } from '../install.ts'
import { placeInside } from '../layout.ts'
import { limitsOf } from '../limits/limits.ts'
import { identify, isGone, type ProcessId, signalPid, until } from '../limits/processes.ts'
import { emptyScratch, writeLease } from '../reap.ts'
import { seccompArch } from '../seccomp.ts'
import { standing } from '../standing.ts'
import { engineDriver, type Unavailable } from './engine-driver.ts'
import { lacksInit } from './engine.ts'
import { groupsOf, limitsByGroup } from './group-limits.ts'
import { checkHeld, expectProgram, giveTo, ownerOf, programCommand, terminalProgram } from './program.ts'
import { find } from './refusals.ts'
import { rootOf } from './root.ts'
import { seccompProfile } from './seccomp-profile.ts'
import {
  ask,
  asking,
  clientEnv,
  imageLabel,
  lacksServed,
  programsOf,
  removeContainers,
  removing,
  type ServedEngine,
  servedRun,
  wordsFor,
} from './served-engine.ts'

/** Cells made by a daemon of root's: Docker, or Podman as root runs it. For an ordinary user who may use its socket anyway.
 *  Does not stop: who escapes from such a container is root, or near it, where one of the driver without root is nobody. */
export function servedCells(engine: ServedEngine, files: CellFiles): CellDriver {
  return engineDriver({
    rung: 'container',
    lacks: () => [...lacksServed(engine, readText), ...lacksInit(readText, () => find('catatonit') !== null)],
    refuses: refusalsServed,
    probeTimeoutMs,
    startCell: (spec, unavailable, signal) => startCell({ engine, files, spec, unavailable }, signal),
    holes: async () => holesIn(await programsOf(engine)),
    notes: () => [`made by ${wordsFor(engine)}: whoever escapes from such a container is root, or near it`],
  })
}

const probeTimeoutMs = 60_000
const endTimeoutMs = 15_000
/** The program inside and the first process. */
const ownTasks = { tasks: 24, whose: 'of the program inside' }

type Making = {
  readonly engine: ServedEngine
  readonly files: CellFiles
  readonly spec: CellSpec
  readonly unavailable: Unavailable
}

async function startCell(making: Making, signal: AbortSignal): Promise<Cell> {
  const { engine, spec, unavailable } = making
  const name = `anchorhold-${randomUUID()}`
  let first: ProcessId | null = null
  let lifeline: ProcessId | null = null
  let expected: { close(): void } | null = null
  // The engine's own groups hold it.
  const limits = limitsOf({ ...spec, cgroups: [] }, () => (first === null ? [] : [first.pid]), ownTasks)

  const stands = standing(async () => {
    expected?.close()
    // An engine that has ended took the container along, which shows in its processes.
    await removeContainers(engine, spec.scratch).catch((error: unknown) => {
      if (first === null) throw error
    })
    if (lifeline !== null && !isGone(lifeline)) signalPid(lifeline.pid, 'SIGKILL')
    await until('the processes of a cell have ended', endTimeoutMs, () => first === null || isGone(first))
    emptyScratch(spec.scratch)
    await limits[Symbol.asyncDispose]()
  })

  try {
    const { binds, image, channelFolder } = await prepare(making, signal)
    const program = await expectProgram(spec, channelFolder)
    expected = program
    lifeline = tie(engine, name)
    writeLease(spec.scratch, { rung: 'container', processes: lifeline === null ? [] : [lifeline], engine: engine.name })
    const plan = {
      name,
      image,
      binds,
      scratch: spec.scratch,
      user: ownerOf(spec),
      seccomp: join(spec.scratch, 'seccomp.json'),
      rlimits: limits.rlimits,
      memoryBytes: spec.limits.memoryBytes,
      tasksMax: spec.limits.processesMax + ownTasks.tasks,
      cpus: spec.limits.cpus,
      tmpBytes: spec.limits.tmpBytes,
      command: programCommand,
    } as const
    await ask(engine, servedRun(engine.name, plan), signal).catch((error: unknown) => {
      signal.throwIfAborted()
      const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : String(error)
      throw unavailable([{ what: `${wordsFor(engine)} does not start it: ${said.slice(-saidCharsMax)}`, remedy: mend }])
    })
    const pid = Number(await ask(engine, ['inspect', '--format', '{{.State.Pid}}', name], signal).catch(() => 0))
    first = pid > 1 ? identify(pid) : null
    const aborted = once(signal, 'abort').then(() => Promise.reject(signal.reason as Error))
    aborted.catch(() => {})
    const channel = await Promise.race([program.came, aborted, gone(making, name, stands.over)])
    void channel.closed.then((why) => stands.endBecause(why))
    const report = await Promise.race([channel.ready, aborted])
    const seen = checkHeld(report, postureOf(spec), spec, unavailable)
    void limits.watch(stands.over).then((why) => (why === null ? undefined : stands.endBecause(why)))
    const byGroup = limitsByGroup(spec.limits, ownTasks, first === null ? null : groupsOf(first.pid))
    return {
      limits: (await limits.inForce(seen)).map((limit): LimitInForce => byGroup[limit.name] ?? limit),
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
        const [file, ...args] = [...asking(engine), 'exec', '--interactive', '--tty', name, ...command.argv] as const
        const env = { ...clientEnv, TERM: options.env.TERM ?? 'xterm' }
        try {
          return await exitOf(spawn(file, args, { env, cwd: '/', stdio: 'inherit' }))
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

const saidCharsMax = 1_000
const mend = 'Mend what is named and run "anchorhold doctor" again'

/** A process that waits for this one to end, however it does, and then removes the container: the engine would keep it. What runs
 *  inside cannot hinder it. */
function tie(engine: ServedEngine, name: string): ProcessId | null {
  const waiting = 'read -r _ <&3; "$@" >/dev/null 2>&1; sleep 2; exec "$@" >/dev/null 2>&1'
  const child = spawn('/bin/sh', ['-c', waiting, 'sh', ...asking(engine), ...removing(engine, name)], {
    env: clientEnv,
    cwd: '/',
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
  child.on('error', () => {})
  child.unref()
  ;(child.stdio[3] as Socket).on('error', () => {}).unref()
  return child.pid === undefined ? null : identify(child.pid)
}

/** Rejects when the container ends before its program has come. */
async function gone({ engine, unavailable }: Making, name: string, over: AbortSignal): Promise<never> {
  const code = await ask(engine, ['wait', name], over).catch(() => '')
  const how = /^\d+$/.test(code.trim()) ? ` with ${code.trim()}` : ''
  throw unavailable([{ what: `${wordsFor(engine)} started it, and it ended at once${how}`, remedy: mend }])
}

/** Everything that the engine finds in the driver's folder, and the image, which is made when the engine has not got it. */
async function prepare({ engine, files, spec, unavailable }: Making, signal: AbortSignal) {
  emptyScratch(spec.scratch)
  const at = (name: string) => join(spec.scratch, name)
  const channelFolder = at('channel')
  mkdirSync(channelFolder, { mode: 0o700 })
  const root = rootOf({
    ...{ spec, files, init: find('catatonit')!, host: readHostRoot(), folder: at('root'), channel: channelFolder },
  })
  root.make()
  const { folder, binds } = root
  // There are no namespaces of users: the cell's is the session's own by number, and has a name.
  const { uid, gid } = ownerOf(spec)
  const named = (file: string, from: string, to: string) => {
    const path = join(folder, 'etc', file)
    writeFileSync(path, readFileSync(path, 'utf8').replace(from, to))
  }
  named('passwd', 'agent:x:1000:1000:', `agent:x:${uid}:${gid}:`)
  named('group', 'agent:x:1000:', `agent:x:${gid}:`)
  writeFileSync(at('seccomp.json'), JSON.stringify(seccompProfile(seccompArch(process.arch)!, noExtras)), {
    mode: 0o644,
  })
  openToAll(folder)
  giveTo(spec, spec.scratch)
  const label = imageLabel(files)
  const image = `anchorhold/root:${digestOf(folder, spec.root, label)}`
  try {
    await ask(engine, ['image', 'inspect', '--format', '{{.Id}}', image], signal)
  } catch {
    signal.throwIfAborted()
    await importImage(engine, { image, label }, [...(spec.root === null ? [] : [spec.root]), folder], signal).catch(
      (error: unknown) => {
        signal.throwIfAborted()
        throw unavailable([{ what: `${wordsFor(engine)} does not take its root: ${String(error)}`, remedy: mend }])
      },
    )
  }
  return { binds, image, channelFolder }
}

/** In the image it is root's, whatever the umask was that it was made with here. */
function openToAll(path: string): void {
  const stat = lstatSync(path)
  if (stat.isSymbolicLink()) return
  // What anybody may write to stays so.
  if ((stat.mode & 0o1000) === 0) chmodSync(path, stat.isDirectory() ? 0o755 : 0o644)
  if (stat.isDirectory()) for (const name of readdirSync(path)) openToAll(join(path, name))
}

/** What lies later in the list hides what lies earlier. */
async function importImage(
  engine: ServedEngine,
  { image, label }: { readonly image: string; readonly label: string },
  folders: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const [program, ...args] = [...asking(engine), 'import', '--change', `LABEL ${label}`, '-', image] as const
  const packing = ['--numeric-owner', '--owner=0', '--group=0', '--create', ...folders.flatMap((folder) => ['-C', folder, '.'])]
  const tar = spawn('tar', packing, { env: clientEnv, stdio: ['ignore', 'pipe', 'ignore'], signal })
  const client = spawn(program, args, { env: clientEnv, cwd: '/', stdio: ['pipe', 'ignore', 'pipe'], signal })
  let said = ''
  client.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-saidCharsMax)))
  const piped = pipeline(tar.stdout, client.stdin).catch(() => {})
  const [code, packed] = await Promise.all([exitOf(client), exitOf(tar), piped])
  if (code !== 0) throw new Error(said.trim() || `it ended with ${code}`)
  if (packed !== 0) {
    // The engine has taken what came for the whole, and would be believed the next time.
    await ask(engine, ['image', 'rm', '--force', image], signal).catch(() => {})
    throw new Error(`tar ended with ${packed}`)
  }
  // This installation's own of other releases and other mounts, that nothing was started from for a day.
  const old = ['--filter', `label=${label}`, '--filter', 'until=24h']
  await ask(engine, ['image', 'prune', '--all', '--force', ...old], signal).catch(() => {})
}

/** Of what the image is made from, and whose it is: the same is not made twice. */
function digestOf(folder: string, root: string | null, label: string): string {
  const hash = createHash('sha256').update(label)
  const add = (path: string, name: string) => {
    const stat = lstatSync(path)
    hash.update(`${name}\0${stat.mode}\0`)
    if (stat.isDirectory()) for (const each of readdirSync(path).sort()) add(join(path, each), `${name}/${each}`)
    else hash.update(stat.isSymbolicLink() ? readlinkSync(path) : readFileSync(path))
  }
  add(folder, '')
  if (root !== null) hash.update(`${root}\0${statSync(root).ino}\0${statSync(root).ctimeMs}`)
  return hash.digest('hex').slice(0, 32)
}

const postureOf = (spec: CellSpec) => {
  const { uid } = ownerOf(spec)
  return [
    new RegExp(`^Uid:\\t${uid}\\t${uid}\\t${uid}\\t${uid}$`, 'm'),
    ...[/^CapPrm:\t0{16}$/m, /^CapEff:\t0{16}$/m, /^CapBnd:\t0{16}$/m, /^NoNewPrivs:\t1$/m, /^Seccomp:\t2$/m],
  ]
}

/** Why a daemon of root's does not give such a cell. */
function refusalsServed(spec: CellSpec): Lack[] {
  const wanted = Object.entries(spec.extras).filter(([, value]) => value === true)
  return [
    ...(wanted.length === 0
      ? []
      : [
          {
            what: `an engine of root's gives a cell no ${wanted.map(([extra]) => extra).join(', ')}`,
            remedy: 'Write container_engine: podman',
          },
        ]),
    // Where links in the path have been followed, so that a folder is the same one for the engine.
    ...(lstatSync(spec.workspace, { throwIfNoEntry: false })?.isDirectory() === true
      ? []
      : [{ what: `"${spec.workspace}" is not a folder`, remedy: 'Choose another workspace' }]),
  ]
}
