import { execFile } from 'node:child_process'
import { chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { ownerMark } from '@anchorhold/link/owner'
import { Failure } from '@anchorhold/protocol/failures'
import type { Cell, CellDriver, CellSpec, Lack } from './cell.ts'
import { noExtras } from '@anchorhold/protocol/sessions'
import { emptyScratch } from './reap.ts'

/** Specs of cells that hold nothing of anybody's: to see whether a rung starts, what its contract is worth, what it stops. */
export interface TrialSpecs extends AsyncDisposable {
  make(changes?: Partial<CellSpec>): Promise<CellSpec>
}

/** Makes folders of the trial's user's, and takes them away again at the end. */
export function trialSpecs(): TrialSpecs {
  const made: string[] = []
  const runAs = process.getuid?.() === 0 ? trialUser : null
  return {
    async make(changes = {}) {
      const folder = await mkdtemp(join(tmpdir(), `ah-trial-${ownerMark()}-`))
      made.push(folder)
      await chmod(folder, 0o711)
      const within = { workspace: '', home: '', windows: '', scratch: '' }
      for (const name of Object.keys(within) as (keyof typeof within)[]) {
        within[name] = join(folder, name)
        await mkdir(within[name])
        if (runAs !== null) await chown(within[name], runAs.uid, runAs.gid)
      }
      return { name: 'trial', ...within, runAs, ...trialCell, ...changes }
    },
    async [Symbol.asyncDispose]() {
      for (const folder of made) {
        // What a trial has made unreadable could not be removed, nor what root inside a cell has made.
        await promisify(execFile)('chmod', ['-R', 'u+rwX', folder]).catch(() => emptyScratch(folder))
        await rm(folder, { recursive: true, force: true })
      }
    },
  }
}

/** What keeps a driver from starting a cell, by starting one. */
export async function lacksOnTrial(start: CellDriver['start'], withinMs: number, cancel?: AbortSignal): Promise<readonly Lack[]> {
  const signal = AbortSignal.any([AbortSignal.timeout(withinMs), ...(cancel === undefined ? [] : [cancel])])
  try {
    await using specs = trialSpecs()
    await using _ = await start(await specs.make(), signal)
    return []
  } catch (error) {
    if (error instanceof Failure) return [{ what: error.message, remedy: error.hint ?? '' }]
    if (signal.aborted)
      return [{ what: `a cell did not start within ${withinMs} ms`, remedy: 'Try again when the machine is less busy' }]
    throw error
  }
}

/** Root tries cells as a user whom nobody else is: not a session, and not another trial, since the kernel counts the processes of a
 *  user over the whole machine. Whoever hands control groups to a trial hands them to this user. */
const trialUid = 1_800_000_000 + process.pid
export const trialUser = { uid: trialUid, gid: trialUid }

export const trialLimits = {
  memoryBytes: 1024 * 2 ** 20,
  processesMax: 64,
  cpus: 1,
  diskBytes: 256 * 2 ** 20,
  fileBytes: 128 * 2 ** 20,
  openFilesMax: 512,
  tmpBytes: 16 * 2 ** 20,
}

/** What a cell has that holds nothing of anybody's. */
export const trialCell = {
  ...{ limits: trialLimits, mounts: [], network: 'none', covers: [], root: null, extras: noExtras, cgroups: [] },
} as const satisfies Partial<CellSpec>

/** Runs a command to its end. */
export async function run(
  cell: Cell,
  argv: readonly [string, ...string[]],
  options: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<{ output: string; said: string; code: number }> {
  const process = cell.spawn(argv, { env: options.env ?? { PATH: '/usr/bin:/bin' }, cwd: options.cwd ?? '/' })
  process.stdin.end()
  const [output, said, code] = await Promise.all([text(process.stdout), text(process.stderr), process.exited])
  return { output, said, code }
}
