import { ownerMark } from '@anchorhold/link/owner'
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import type { CellDriver } from '@anchorhold/keeper/cells/cell'
import { run, trialSpecs, trialUser } from '@anchorhold/keeper/cells/trial'
import type { Finding } from '@anchorhold/protocol/proof'
import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Attack, AttackedCell, Ground, Hold, Outcome } from './attack.ts'

export type GroundOptions = {
  readonly launcher: readonly [string, ...string[]]
  /** How long starting a cell may take. */
  readonly startTimeoutMs?: number
}

/** Disposing it ends every cell that was started on it, and takes all their folders and control groups away. */
export function makeGround(driver: CellDriver, { launcher, startTimeoutMs = 60_000 }: GroundOptions): Ground & AsyncDisposable {
  const started: AttackedCell[] = []
  const launched: { readonly child: ChildProcess; readonly folder: string }[] = []
  return {
    driver,
    rung: driver.rung,
    root: driver.rung === 'microvm' ? 'image' : 'host',
    patienceMs: driver.rung === 'microvm' ? 400_000 : 40_000,
    kernel: kernelsOfTheirOwn.includes(driver.rung) ? 'own' : 'host',
    holds:
      process.getuid?.() === 0 && existsSync('/sys/fs/cgroup') ? ['control groups', 'no control group'] : ['no control group'],
    async cell(changes = {}, hold: Hold = 'no control group') {
      const one = await attackedCell(driver, changes, hold, AbortSignal.timeout(startTimeoutMs))
      started.push(one)
      return one
    },
    launch(argv, more = []) {
      // What a keeper that was killed leaves on the disk goes with this folder.
      const folder = mkdtempSync(join(tmpdir(), `ah-attack-${ownerMark()}-`))
      chmodSync(folder, 0o711)
      const [file, ...args] = launcher
      const child = spawn(file, [...args, driver.rung, ...argv], {
        stdio: ['ignore', 'pipe', 'inherit', ...more],
        env: { ...process.env, TMPDIR: folder },
      })
      launched.push({ child, folder })
      return child as ChildProcessByStdio<null, Readable, null>
    },
    async [Symbol.asyncDispose]() {
      for (const one of started) await one[Symbol.asyncDispose]()
      for (const { child, folder } of launched) {
        child.kill('SIGKILL')
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
        await rm(folder, { recursive: true, force: true })
      }
    },
  }
}

const kernelsOfTheirOwn: readonly string[] = ['gvisor', 'microvm']

async function attackedCell(
  driver: CellDriver,
  changes: Parameters<Ground['cell']>[0],
  hold: Hold,
  signal: AbortSignal,
): Promise<AttackedCell> {
  const cgroups = hold === 'control groups' ? delegateCgroups(`attack-${ownerMark()}-${randomUUID()}`, trialUser) : []
  const specs = trialSpecs()
  const clear = async () => {
    await specs[Symbol.asyncDispose]()
    withdrawCgroups(cgroups)
  }
  try {
    const spec = await specs.make({ cgroups, ...changes })
    const cell = await driver.start(spec, signal)
    const workspace = cell.place(spec.workspace)
    const outcome = async (argv: readonly [string, ...string[]]): Promise<Outcome> => {
      const { output, said, code } = await run(cell, argv, { cwd: workspace })
      return { lines: `${output}${said}`.split('\n').filter((line) => line !== ''), code }
    }
    let over: Promise<void> | null = null
    return {
      cell,
      spec,
      workspace,
      home: cell.place(spec.home),
      limit: (name) => cell.limits.find((each) => each.name === name)!,
      sh: (script) => outcome(['sh', '-c', script]),
      perl: (script, ...args) => outcome(['perl', '-e', script, ...args]),
      async [Symbol.asyncDispose]() {
        over ??= (async () => {
          await cell[Symbol.asyncDispose]()
          await clear()
        })()
        await over
      },
    }
  } catch (error) {
    await clear()
    throw error
  }
}

/** Carries an attack out. What went wrong is a finding as well, and so is an attack that found nothing or took too long: neither
 *  ever counts as blocked. */
export async function carryOut(attack: Attack, ground: Ground & AsyncDisposable, timeoutMs: number): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  const fail = (seen: string) => {
    const last = findings.at(-1)?.check
    findings.push({
      check: 'the attack is carried out',
      verdict: 'error',
      seen: last === undefined ? seen : `${seen} (after: ${last})`,
    })
  }
  const clock = new AbortController()
  const late = delay(timeoutMs, 'late' as const, { signal: clock.signal }).catch(() => 'late' as const)
  const attacking = (async () => {
    for await (const finding of attack.run(ground)) findings.push(finding)
    if (findings.length === 0) fail('it found nothing')
  })().catch((error: unknown) => fail(error instanceof Error ? error.message : String(error)))
  // Its cells end with the ground, and whatever still waits for one of them then goes on.
  if ((await Promise.race([attacking, late])) === 'late') fail(`it did not end within ${timeoutMs / 1000} s`)
  clock.abort()
  const told = findings.slice()
  try {
    await ground[Symbol.asyncDispose]()
  } catch (error) {
    const seen = error instanceof Error ? error.message : String(error)
    told.push({ check: 'the cells of the attack end', verdict: 'open', seen })
  }
  return told
}
