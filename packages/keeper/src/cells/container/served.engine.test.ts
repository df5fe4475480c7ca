import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import type { CellSpec } from '../cell.ts'
import { cellContract } from '../contract.ts'
import { readProc, until } from '../limits/processes.ts'
import { reapCell } from '../reap.ts'
import { run, trialSpecs } from '../trial.ts'
import { servedCells } from './served.ts'
import { ask, ownLabel, type ServedEngine, servedEngines, type ServedName } from './served-engine.ts'
import { startTestEngine } from './test-engines.ts'
import { testFiles } from './test-files.ts'

const soon = () => AbortSignal.timeout(30_000)

for (const name of ['docker', 'podman-rootful'] as const satisfies readonly ServedName[]) {
  const started = await startTestEngine(name)
  if (typeof started === 'string') {
    // Never skipped in silence.
    console.warn(`The engine "${name}" is not tested here: ${started}`)
    test.skip(`${name} is not tested here: ${started}`, () => {})
    continue
  }
  const { engine } = started
  afterAll(() => started[Symbol.asyncDispose]())
  const driver = servedCells(engine, testFiles())
  const containers = async (scratch: string) =>
    (await ask(engine, ['ps', '--all', '--quiet', '--filter', `label=${ownLabel}=${scratch}`]))
      .split('\n')
      .filter((id) => id !== '')

  describe(name, () => {
    cellContract(driver, name === 'docker' ? { 'runs nothing out of its caches': 'Docker has no option for it' } : {}, {
      startMs: 30_000,
    })

    test('memory, tasks and processors are held by groups of the engine, and told as read back', async () => {
      await using specs = trialSpecs()
      const spec = await specs.make()
      await using cell = await driver.start(spec, soon())
      for (const limit of ['memory', 'processes', 'cpu'])
        expect(cell.limits.find((each) => each.name === limit)).toMatchObject({
          enforcement: 'enforced',
          how: expect.stringContaining('read back'),
        })
      const hungry = await run(cell, ['perl', '-e', `my $x = "a" x ${2 * spec.limits.memoryBytes}; print "had"`])
      expect(hungry).toMatchObject({ output: '' })
      expect(hungry.code).not.toBe(0)
    })

    test('the cell sees no socket of the engine, and no other user', async () => {
      await using specs = trialSpecs()
      const spec = await specs.make()
      await using cell = await driver.start(spec, soon())
      const look = 'ls /var/run/docker.sock /run/docker.sock /run/podman 2>/dev/null; id -u; cat /proc/self/uid_map'
      const { output } = await run(cell, ['sh', '-c', look])
      expect(output.split('\n')[0]).toBe(String(spec.runAs?.uid ?? process.getuid?.()))
    })

    test('a container goes with its cell, and another cell’s stays', async () => {
      await using specs = trialSpecs()
      const [one, other] = [await specs.make(), await specs.make()]
      await using kept = await driver.start(other, soon())
      const cell = await driver.start(one, soon())
      expect(await containers(one.scratch)).toHaveLength(1)
      await cell[Symbol.asyncDispose]()
      expect(await containers(one.scratch)).toEqual([])
      expect(await containers(other.scratch)).toHaveLength(1)
      expect((await run(kept, ['echo', 'still here'])).output).toBe('still here\n')
    })

    test('a container goes with its keeper, also when what runs in it stops the program inside', async () => {
      await using specs = trialSpecs()
      const spec = await specs.make()
      const keeper = startKeeper(engine, spec)
      await until('the program inside is stopped', 30_000, () => stopped(keeper.pid!).length > 0 || keeper.exitCode !== null)
      expect(await containers(spec.scratch)).toHaveLength(1)
      process.kill(keeper.pid!, 'SIGKILL')
      await vi.waitUntil(async () => (await containers(spec.scratch)).length === 0, { timeout: 30_000, interval: 100 })
    })

    test('reapCell() removes what a keeper left, and no container of another cell', async () => {
      await using specs = trialSpecs()
      const [one, other] = [await specs.make(), await specs.make()]
      await using kept = await driver.start(other, soon())
      const keeper = startKeeper(engine, one)
      await until('the program inside is stopped', 30_000, () => stopped(keeper.pid!).length > 0 || keeper.exitCode !== null)
      // Its lifeline goes first, so that nobody else clears up.
      const { processes } = JSON.parse(readFileSync(join(one.scratch, 'cell.json'), 'utf8')) as { processes: { pid: number }[] }
      for (const { pid } of processes) process.kill(pid, 'SIGKILL')
      process.kill(keeper.pid!, 'SIGKILL')
      expect(await containers(one.scratch)).toHaveLength(1)
      await reapCell(one.scratch, { ...servedEngines, [name]: engine })
      expect(await containers(one.scratch)).toEqual([])
      expect((await run(kept, ['echo', 'still here'])).output).toBe('still here\n')
    })
  })
}

/** A keeper of its own, in whose cell the program inside is stopped as an agent could stop it. */
function startKeeper(engine: ServedEngine, spec: CellSpec): ChildProcess {
  const script = `
    const { servedCells } = await import(${JSON.stringify(join(import.meta.dirname, 'served.ts'))})
    const cell = await servedCells(${JSON.stringify(engine)}, ${JSON.stringify(testFiles())}).start(${JSON.stringify(spec)}, AbortSignal.timeout(30_000))
    cell.spawn(['sh', '-c', 'for each in /proc/[0-9]*; do case $(readlink $each/exe) in */inside/node) kill -STOP \${each##*/} ;; esac; done'],
      { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    setInterval(() => {}, 1000)`
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script], {
    stdio: 'inherit',
  })
}

/** Processes inside any container that are stopped. */
const stopped = (keeper: number) =>
  readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && Number(pid) !== keeper && isStopped(Number(pid)))
const isStopped = (pid: number) =>
  /^State:\tT/m.test(readProc(pid, 'status') ?? '') && (readProc(pid, 'cmdline') ?? '').includes('/opt/anchorhold/inside')
