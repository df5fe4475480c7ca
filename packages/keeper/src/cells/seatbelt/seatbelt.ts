import { spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, lchownSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Failure } from '@anchorhold/protocol/failures'
import type { Cell, CellDriver, CellSpec, Lack, SpawnOptions } from '../cell.ts'
import { cellProcess, exitOf, type StdioChild } from '../cell-process.ts'
import { isExecutable } from '../install.ts'
import { signalPid, until } from '../limits/processes.ts'
import { standing } from '../standing.ts'
import { endingOutput } from '../until-exit.ts'
import { lacksOnTrial } from '../trial.ts'
import { lineage } from './lineage.ts'
import { limitsSeen, underLimits } from './limits.ts'
import { seatbeltProfile } from './profile.ts'

export type SeatbeltOptions = {
  readonly platform?: NodeJS.Platform
  readonly sandboxExec?: string
}

/** Cells made by macOS itself. Untested on real hardware: everything here but the profile's taking effect was seen to work with a
 *  stand-in, and a cell whose profile takes no effect is refused.
 *  Does not stop: see `seatbeltProfile`, and a process that hides from `lineage` may outlive its cell, still held by its profile. */
export function seatbeltDriver({
  platform = process.platform,
  sandboxExec = '/usr/bin/sandbox-exec',
}: SeatbeltOptions = {}): CellDriver {
  const lacks = (): Lack[] => {
    if (platform !== 'darwin')
      return [{ what: 'seatbelt is a part of macOS, and this is not macOS', remedy: 'Use bwrap, which is the same rung here' }]
    return isExecutable(sandboxExec)
      ? []
      : [{ what: `"${sandboxExec}" is not there, which is a part of macOS`, remedy: 'Use a macOS that has it' }]
  }
  const start: CellDriver['start'] = async (spec, signal) => {
    const missing = [...lacks(), ...refusals(spec)]
    if (missing.length > 0) throw unavailable(missing)
    signal.throwIfAborted()
    return startCell(sandboxExec, spec, signal)
  }
  return {
    rung: 'seatbelt',
    start,
    async missing() {
      const missing = lacks()
      return missing.length > 0 ? missing : lacksOnTrial(start, probeTimeoutMs)
    },
  }
}

const probeTimeoutMs = 20_000
const endTimeoutMs = 10_000
const lookEveryMs = 1_000

async function startCell(sandboxExec: string, spec: CellSpec, signal: AbortSignal): Promise<Cell> {
  const { profile, tmp, outside } = prepare(spec)
  const kin = lineage()
  const limits = underLimits(spec)

  const started = (argv: readonly [string, ...string[]], { env, cwd }: SpawnOptions) => ({
    argv: [...limits.argv, sandboxExec, '-f', profile, '--', ...argv] as const,
    // There is no /tmp of the cell's own: it has a folder for that, and is told which.
    options: { env: { ...env, TMPDIR: tmp }, cwd, ...spec.runAs },
  })

  function follow(child: ChildProcess): void {
    const { pid } = child
    if (pid === undefined) return
    kin.add(pid)
    child.once('exit', () => kin.leave(pid))
  }

  function launch(argv: readonly [string, ...string[]], options: SpawnOptions) {
    const { argv: whole, options: how } = started(argv, options)
    const [file, ...args] = whole
    const child: StdioChild = spawn(file, args, { ...how, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    follow(child)
    return cellProcess(child, (name) => child.pid !== undefined && signalPid(child.pid, name), endingOutput(child))
  }

  const stands = standing(() =>
    until('the processes of a cell have ended', endTimeoutMs, () => {
      const left = kin.look()
      for (const { pid } of left) signalPid(pid, 'SIGKILL')
      return left.length === 0
    }),
  )

  /** Runs one command of the host's own, before anything of the agent's, that tries what it must not do. */
  async function prove(): Promise<string> {
    const probe = launch(['/bin/bash', '-p', '-c', probing, 'bash', outside, tmp], { env: { PATH: '/usr/bin:/bin' }, cwd: tmp })
    probe.stdin.end()
    const abort = () => void probe.kill('SIGKILL')
    signal.addEventListener('abort', abort)
    const [report, said, code] = await Promise.all([text(probe.stdout), text(probe.stderr), probe.exited])
    signal.removeEventListener('abort', abort)
    signal.throwIfAborted()
    if (code !== 0)
      throw unavailable([
        {
          what: `sandbox-exec does not start it: ${said.trim().slice(0, saidCharsMax) || `it ended with ${code}`}`,
          remedy: mend,
        },
      ])
    const wrong = ['reading outside: refused', 'writing outside: refused'].filter((line) => !report.split('\n').includes(line))
    if (wrong.length > 0 || readFileSync(join(outside, 'secret'), 'utf8') !== canary)
      throw unavailable([{ what: `a process inside was not held as it should be (${wrong.join(', ')})`, remedy: mend }])
    return report
  }

  try {
    const report = await prove()
    const looking = setInterval(() => {
      const held = kin.look().reduce((sum, each) => sum + each.residentBytes, 0)
      if (held > spec.limits.memoryBytes) void stands.endBecause('its processes hold more memory than they may')
    }, lookEveryMs)
    stands.over.addEventListener('abort', () => clearInterval(looking))
    looking.unref()
    return {
      limits: limitsSeen(report, spec, limits),
      ended: stands.ended,
      get trouble() {
        return { ending: stands.ending, met: null }
      },
      // Nothing is seen elsewhere than it is.
      place: (hostPath) => hostPath,
      spawn(argv, options) {
        stands.requireFor(argv[0])
        return launch(argv, options)
      },
      async onTerminal(argv, options) {
        stands.requireFor(argv[0])
        // On a terminal of its own, joined to this one: what a program types into its terminal is not typed into the person's.
        const { argv: whole, options: how } = started(argv, options)
        const child = spawn('/usr/bin/script', ['-q', '/dev/null', ...whole], { ...how, stdio: 'inherit' })
        follow(child)
        return exitOf(child)
      },
      [Symbol.asyncDispose]: stands.end,
    }
  } catch (error) {
    await stands.end()
    throw error
  }
}

const saidCharsMax = 500
const mend = 'Report it with the version of macOS: this rung was never tried on a real machine'
const canary = 'nobody in a cell may read this\n'

/** `$1` is a folder that the cell must not see, `$2` one that is its own. The last line tells in what the shell counts `ulimit -f`. */
const probing = [
  'if cat "$1/secret" >/dev/null 2>&1; then echo "reading outside: done"; else echo "reading outside: refused"; fi',
  'if (echo x > "$1/secret") 2>/dev/null; then echo "writing outside: done"; else echo "writing outside: refused"; fi',
  'echo "nofile $(ulimit -Hn)"; echo "fsize $(ulimit -Hf)"; echo "nproc $(ulimit -Hu 2>/dev/null)"',
  '(ulimit -f 1; trap "" XFSZ; dd if=/dev/zero of="$2/block" bs=4096 count=1) >/dev/null 2>&1',
  'echo "block $(wc -c < "$2/block")"; rm -f "$2/block"',
].join('\n')

/** What lies in the driver's folder: the profile, scratch space of the cell's, and something that the cell must not see. */
function prepare(spec: CellSpec): { profile: string; tmp: string; outside: string } {
  for (const folder of [spec.workspace, spec.home])
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw unavailable([{ what: `"${folder}" is not a folder`, remedy: 'Choose another workspace' }])
  const scratch = realpathSync.native(spec.scratch)
  const [profile, tmp, outside] = [join(scratch, 'profile.sb'), join(scratch, 'tmp'), join(scratch, 'outside')] as const
  for (const old of [profile, tmp, outside]) rmSync(old, { recursive: true, force: true })
  for (const folder of [tmp, outside]) mkdirSync(folder, { mode: 0o700 })
  writeFileSync(join(outside, 'secret'), canary, { mode: 0o600 })
  const real = (path: string) => realpathSync.native(path)
  const content = seatbeltProfile({
    reads: [...homebrew.filter(isThere), ...spec.mounts.map(({ source }) => source)].map(real),
    writes: [spec.workspace, spec.home, tmp].map(real),
    windows: spec.windows === null ? null : real(spec.windows),
    // Something else cannot be shown in its place; what would be the same need not be hidden.
    covers: spec.covers.map(({ path, by }) => ({ path: real(path), hidden: !isSame(path, by) })),
  })
  writeFileSync(profile, content, { mode: 0o600 })
  for (const made of [profile, tmp, outside, join(outside, 'secret')]) {
    if (spec.runAs !== null && process.getuid?.() === 0) lchownSync(made, spec.runAs.uid, spec.runAs.gid)
  }
  chmodSync(profile, 0o400)
  return { profile, tmp, outside }
}

/** Programs that people install; not its settings, nor what its services keep. */
const homebrew = ['/opt/homebrew', '/usr/local'].flatMap((folder) =>
  ['bin', 'sbin', 'lib', 'libexec', 'include', 'share', 'opt', 'Cellar', 'Caskroom', 'Frameworks'].map((name) =>
    join(folder, name),
  ),
)

function isSame(path: string, by: string): boolean {
  try {
    return statSync(by).isFile() && readFileSync(path).equals(readFileSync(by))
  } catch {
    return false
  }
}

function refusals(spec: CellSpec): Lack[] {
  const wanted = Object.entries(spec.extras).filter(([, value]) => value === true)
  return [
    ...(process.getuid?.() === 0 && spec.runAs === null
      ? [{ what: 'a cell started by root is no boundary', remedy: 'Give it a user of its own (runAs)' }]
      : []),
    ...(spec.network === 'host'
      ? [{ what: "the host's network cannot be given to this rung", remedy: 'Leave the network of the host out' }]
      : []),
    ...(spec.root === null
      ? []
      : [{ what: 'this rung has the programs of the host, and no image', remedy: 'Leave --image out' }]),
    ...(wanted.length === 0
      ? []
      : [{ what: `this rung has no ${wanted.map(([name]) => name).join(', ')}`, remedy: 'Leave it out' }]),
  ]
}

const isThere = (path: string) => statSync(path, { throwIfNoEntry: false }) !== undefined

function unavailable(lacks: readonly Lack[]): Failure {
  return new Failure('cell_unavailable', `Cannot start a seatbelt cell: ${lacks.map(({ what }) => what).join('; ')}`, {
    hint: lacks.map(({ remedy }) => remedy).join('; '),
  })
}
