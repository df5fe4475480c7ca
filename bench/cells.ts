import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { trialSpecs } from '@anchorhold/keeper/cells/trial'
import { trialFiles } from '@anchorhold/keeper/cells/trial-files'
import type { Cell, CellFiles, CellSpec } from '@anchorhold/keeper/cells/cell'
import { containerCells, gvisorCells } from '@anchorhold/keeper/cells/container/container'
import type { Engine, Plan } from '@anchorhold/keeper/cells/container/engine'
import { gvisor } from '@anchorhold/keeper/cells/container/gvisor'
import { chooseRuntime, podman, podmanOptions } from '@anchorhold/keeper/cells/container/podman'
import { ownerOf } from '@anchorhold/keeper/cells/container/program'
import { find } from '@anchorhold/keeper/cells/container/refusals'
import { own, rootOf } from '@anchorhold/keeper/cells/container/root'
import { readHostRoot } from '@anchorhold/keeper/cells/host-root'
import { readText } from '@anchorhold/keeper/cells/install'
import { seccompArch } from '@anchorhold/keeper/cells/seccomp'
import { warmCell } from '@anchorhold/keeper/warm-cell'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { interleave, median, type Ratio } from './measure.ts'

const bare = [
  '--unshare-all',
  '--unshare-user',
  '--die-with-parent',
  '--cap-drop',
  'ALL',
  '--clearenv',
  '--ro-bind',
  '/usr',
  '/usr',
]
const links = ['bin', 'sbin', 'lib', 'lib64'].flatMap((name) => ['--symlink', `usr/${name}`, `/${name}`])

/** A whole cell of an engine's, until it is ready, against what the engine takes by itself to run a process in one. */
export async function enginesBench(): Promise<Ratio[]> {
  const ratios: Ratio[] = []
  const files = trialFiles(join(import.meta.dirname, '../dist/inside.cjs'))
  for (const [name, driver, floorOf] of [
    ['container ready ÷ podman run with the same flags', containerCells(files), podmanFloor],
    ['gVisor ready ÷ runsc run with the same flags', gvisorCells(files), runscFloor],
  ] as const) {
    const lacks = await driver.missing()
    if (lacks.length > 0) {
      console.error(`not measured: ${name}: ${lacks.map(({ what }) => what).join('; ')}`)
      continue
    }
    await using specs = trialSpecs()
    const spec = await specs.make()
    await using floors = new AsyncDisposableStack()
    const floor = floorOf(await specs.make(), files, floors)
    const used: number[] = []
    // Ready is a cell whose own program has told from within how it is held: its proof.
    const ready = async () => {
      const before = performance.now()
      const cell = await driver.start(spec, AbortSignal.timeout(20_000))
      const took = performance.now() - before
      await cell.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' }).exited
      used.push(performance.now() - before)
      await cell[Symbol.asyncDispose]()
      return took
    }
    /** The same from a cell that a pool's keeper has started before anybody asked. */
    const pooled = async () => {
      const warm = warmCell(driver, spec)
      await warm.stands
      const before = performance.now()
      const cell = await warm.start(spec, AbortSignal.timeout(20_000))
      await cell.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' }).exited
      const took = performance.now() - before
      await cell[Symbol.asyncDispose]()
      return took
    }
    const { ms, ratio } = await interleave(10, { floor, ready, pooled }, { warmUp: 2 })
    const note = (took: number) => `${took.toFixed(0)} ms against ${ms.floor.toFixed(0)} ms`
    const first = `${note(ms.ready)}; ${(median(used) / ms.floor).toFixed(2)} until a first process has ended in it`
    ratios.push({ name, value: ratio('ready', 'floor'), must: 1.8, record: 1.1, better: 'below', note: first })
    const fromPool = `${name.split(' ')[0]} from the pool ÷ that`
    ratios.push({
      name: fromPool,
      value: ratio('pooled', 'floor'),
      must: 0.3,
      record: 0.2,
      better: 'below',
      note: note(ms.pooled),
    })
  }
  return ratios
}

/** What the driver hands to an engine for this cell, with a command that does nothing: the same mounts, filter, limits and covers. */
function sameFlags(spec: CellSpec, files: CellFiles): Plan {
  const at = (name: string) => join(spec.scratch, name)
  for (const name of ['channel', 'engine', 'engine/state', 'engine/store', 'engine/home', 'engine/terminals']) mkdirSync(at(name))
  const init = find('catatonit')!
  const root = rootOf({ spec, files, init, host: readHostRoot(), folder: at('root'), channel: at('channel') })
  root.make()
  const { folder, binds } = root
  const { openFilesMax: nofile, fileBytes: fsize, tmpBytes } = spec.limits
  return {
    ...{ folder: at('engine'), root: folder, binds, tmpBytes, rlimits: { nofile, fsize, core: 1, nproc: null }, users: 'single' },
    ...{ owner: ownerOf(spec), arch: seccompArch(process.arch)!, extras: spec.extras, elevated: null },
    command: [own.init, '--', '/usr/bin/true'],
  }
}

/** Files that the engine reads, and everything for the user that it runs as. */
function furnish({ scratch, runAs }: CellSpec, engine: Engine, plan: Plan): void {
  for (const [name, content] of Object.entries(engine.files(plan))) writeFileSync(join(plan.folder, name), content)
  if (runAs !== null) spawnSync('chown', ['-R', `${runAs.uid}:${runAs.gid}`, scratch])
}

const finished = (child: ChildProcess, what: string) =>
  new Promise<void>((resolve, reject) => {
    let said = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text))
    child.once('error', reject)
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`${what} ended with ${code}: ${said}`))))
  })
const path = '/usr/sbin:/usr/bin:/sbin:/bin'

/** As a person would run it, in namespaces that Podman makes itself. */
function podmanFloor(spec: CellSpec, files: CellFiles, floors: AsyncDisposableStack): () => Promise<void> {
  const runtime = chooseRuntime(readText, (program) => find(program) !== null)
  const plan = sameFlags(spec, files)
  furnish(spec, podman({ runtime }), plan)
  const at = (name: string) => join(plan.folder, name)
  const short = mkdtempSync(join(tmpdir(), 'ah-'))
  if (spec.runAs !== null) chownSync(short, spec.runAs.uid, spec.runAs.gid)
  floors.defer(() => {
    // Podman leaves a process that holds its namespaces.
    process.kill(Number(readFileSync(join(short, 'libpod/tmp/pause.pid'), 'utf8')), 'SIGKILL')
    rmSync(short, { recursive: true })
  })
  const env = {
    ...{ PATH: path, HOME: at('home'), XDG_RUNTIME_DIR: short },
    ...{ CONTAINERS_CONF: at('containers.conf'), CONTAINERS_STORAGE_CONF: at('storage.conf') },
  }
  const flags = ['--rm', '--rootfs', ...podmanOptions(plan, runtime)]
  const args = ['--root', at('store'), '--runroot', short, 'run', ...flags, plan.root, ...plan.command]
  return () => finished(spawn('podman', args, { env, cwd: '/', stdio: ['ignore', 'ignore', 'pipe'], ...spec.runAs }), 'podman')
}

function runscFloor(spec: CellSpec, files: CellFiles): () => Promise<void> {
  const plan = sameFlags(spec, files)
  furnish(spec, gvisor(), plan)
  const [runsc, ...args] = gvisor().run(plan)
  let count = 0
  return () => {
    const env = { PATH: path, HOME: plan.folder, XDG_RUNTIME_DIR: plan.folder }
    const named = [...args.slice(0, -1), `floor-${++count}`]
    return finished(spawn(runsc, named, { env, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'], ...spec.runAs }), 'runsc')
  }
}

/** A process in a cell against a process in a bubblewrap that was given nothing else to do. */
export async function cellsBench(): Promise<Ratio[]> {
  await using specs = trialSpecs()
  const spec = await specs.make()
  const driver = bwrapDriver()
  const floor = () =>
    new Promise<void>((resolve, reject) => {
      const args = [...bare, ...links, '--proc', '/proc', '--dev', '/dev', '--', 'true']
      const child = spawn('/usr/bin/bwrap', args, { env: {}, stdio: ['pipe', 'pipe', 'pipe'], ...spec.runAs })
      child.once('error', reject)
      child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`bwrap ended with ${code}`))))
    })
  const cell = await driver.start(spec, AbortSignal.timeout(10_000))
  const use = async (one: Cell) => {
    const process = one.spawn(['true'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    process.stdout.resume()
    process.stderr.resume()
    await process.exited
  }
  const inCell = () => use(cell)
  // Ready is a cell in which a process was seen to run to its end and to be held: its proof.
  const ready = async () => {
    const before = performance.now()
    const fresh = await driver.start(spec, AbortSignal.timeout(10_000))
    const took = performance.now() - before
    // A cell is used: nobody takes one down while its proof is still being cleared away.
    await use(fresh)
    await fresh[Symbol.asyncDispose]()
    return took
  }
  const four = (run: () => Promise<void>) => async () => {
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let i = 0; i < 5; i++) await run()
      }),
    )
  }
  // The first process of a cell is there before it is asked for.
  await use(cell)
  const memory = await memoryOf(cell)
  const one = await interleave(20, { floor, inCell, ready }, { warmUp: 3 })
  const rate = await interleave(10, { floor: four(floor), cells: four(inCell) }, { warmUp: 1 })
  await cell[Symbol.asyncDispose]()
  return [
    {
      name: 'bwrap cell ready, proof included ÷ bare bwrap',
      value: one.ratio('ready', 'floor'),
      must: 2.5,
      record: 1.3,
      better: 'below',
      note: `${one.ms.ready.toFixed(1)} ms against ${one.ms.floor.toFixed(1)} ms`,
    },
    {
      name: 'a process in a standing cell ÷ bare bwrap',
      value: one.ratio('inCell', 'floor'),
      must: 2,
      record: 1.3,
      better: 'below',
      note: `${one.ms.inCell.toFixed(1)} ms against ${one.ms.floor.toFixed(1)} ms`,
    },
    {
      name: 'cells per second, four at a time ÷ raw bwrap',
      value: rate.ratio('floor', 'cells'),
      must: 0.5,
      record: 0.8,
      better: 'above',
      note: `${(20_000 / rate.ms.cells).toFixed(0)} a second`,
    },
    {
      name: 'memory that a live cell adds to its process, in MiB (PSS)',
      value: memory,
      must: 2,
      record: 1,
      better: 'below',
      note: 'what the two processes of bubblewrap hold',
    },
  ]
}

/** The proportional memory of what stands between this process and a process in the cell, in MiB. */
async function memoryOf(cell: Cell): Promise<number> {
  const before = new Set(bwraps())
  const process = cell.spawn(['sleep', '1000'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
  let seen: string[] = []
  while (seen.length < 2) {
    await wait(20)
    seen = bwraps().filter((pid) => !before.has(pid))
  }
  const sum = seen.reduce((total, pid) => {
    const kib = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]
    return total + Number(kib ?? 0)
  }, 0)
  process.kill('SIGKILL')
  await process.exited
  return sum / 1024
}

function bwraps(): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/comm`, 'utf8') === 'bwrap\n'
    } catch {
      return false // it has ended
    }
  })
}
