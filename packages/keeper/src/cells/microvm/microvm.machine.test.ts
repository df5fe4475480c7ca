import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { findImage } from '../../images/images.ts'
import { bwrapDriver } from '../bwrap/bwrap.ts'
import type { CellFiles } from '../cell.ts'
import { cellContract } from '../contract.ts'
import { readProc } from '../limits/processes.ts'
import { run, trialSpecs } from '../trial.ts'
import { machineFiles } from './files.ts'
import { microvmDriver, saveSnapshot } from './microvm.ts'

const clone = join(import.meta.dirname, '../../../../..')
const files: CellFiles = { node: process.execPath, inside: join(clone, 'dist/inside.mjs') }
const root = findImage(process.env.ANCHORHOLD_IMAGES ?? '', 'base')!.root
const options = { ...files, root, wall: bwrapDriver() }
const driver = microvmDriver(options)
const startMs = 120_000
const soon = () => AbortSignal.timeout(startMs)

cellContract(driver, {}, { startMs })

describe('microvmDriver()', () => {
  test('runs another kernel than the host, at the time of the host, as nobody who may do anything', async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make(), soon())
    const kernel = (await run(cell, ['uname', '-r'])).output.trim()
    expect(kernel).not.toBe('')
    expect(kernel).not.toBe(execFileSync('uname', ['-r'], { encoding: 'utf8' }).trim())
    const before = Math.floor(Date.now() / 1000)
    const seconds = Number((await run(cell, ['date', '+%s'])).output)
    // It is set to the whole second, and going into the machine takes its time.
    expect(seconds).toBeGreaterThanOrEqual(before - 30)
    expect(seconds).toBeLessThanOrEqual(Math.ceil(Date.now() / 1000) + 1)
    const status = (await run(cell, ['cat', '/proc/self/status'])).output
    expect(status).toMatch(/^CapEff:\t0{16}$/m)
    expect(status).toMatch(/^NoNewPrivs:\t1$/m)
  })

  test('two machines from one saved memory deal out different random numbers', async () => {
    await using specs = trialSpecs()
    const first = async () => {
      await using cell = await driver.start(await specs.make(), soon())
      return (await run(cell, ['od', '-An', '-N32', '-tx1', '/dev/urandom'])).output
    }
    const [one, other] = [await first(), await first()]
    expect(one).toMatch(/^( [0-9a-f]{2}){16}\n( [0-9a-f]{2}){16}\n$/)
    expect(one).not.toBe(other)
  })

  test('nothing that was written is lost when QEMU is killed', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const cell = await driver.start(spec, soon())
    await run(cell, ['sh', '-c', 'echo kept > /workspace/kept; mkdir -p ~/a/b; echo home > /home/agent/kept'])
    const [qemu] = qemuProcesses(spec.scratch)
    expect(qemu).toBeDefined()
    process.kill(qemu!, 'SIGKILL')
    expect(await cell.ended).toContain('The cell was ended')
    await cell[Symbol.asyncDispose]()
    expect(readFileSync(join(spec.workspace, 'kept'), 'utf8')).toBe('kept\n')
    expect(readFileSync(join(spec.home, 'kept'), 'utf8')).toBe('home\n')
    expect(qemuProcesses(spec.scratch)).toEqual([])
  })

  test('the wall around QEMU holds it: no root, no network, a filter, and only its own files', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    await using _ = await driver.start(spec, soon())
    const [qemu] = qemuProcesses(spec.scratch)
    const status = readProc(qemu!, 'status') ?? ''
    expect(status).toMatch(/^Seccomp:\t2$/m)
    expect(status).toMatch(/^CapBnd:\t0{16}$/m)
    expect(status).not.toMatch(/^Uid:\t0\t/m)
    expect(readProc(qemu!, 'net/dev')?.split('\n').slice(2).join('').trim()).toMatch(/^lo:/)
    expect(existsSync(`/proc/${qemu}/root/etc/shadow`)).toBe(false)
    expect(existsSync(`/proc/${qemu}/root/root/.ssh`)).toBe(false)
  })

  test('boots where no memory was saved, and refuses what is no memory', async () => {
    await using specs = trialSpecs()
    // The smallest machine that there is: nobody has saved one of this size.
    const limits = { ...(await specs.make()).limits, memoryBytes: 384 * 2 ** 20 }
    await using cell = await driver.start(await specs.make({ limits }), AbortSignal.timeout(300_000))
    expect((await run(cell, ['echo', 'booted'])).output).toBe('booted\n')
  })

  test('start() is cancelled by its signal and leaves no process', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    await expect(driver.start(spec, AbortSignal.timeout(100))).rejects.toThrow()
    expect(qemuProcesses(spec.scratch)).toEqual([])
  })

  test('missing() names the remedy where there is no image, or no kernel for it', async () => {
    expect(await microvmDriver({ ...files, wall: bwrapDriver() }).missing()).toMatchObject([{ remedy: 'anchorhold image build' }])
    await using specs = trialSpecs()
    const { workspace } = await specs.make()
    const lacks = await microvmDriver({ ...files, root: join(workspace, 'x/root'), wall: bwrapDriver() }).missing()
    expect(lacks).toMatchObject([{ remedy: 'anchorhold image build' }])
  })

  test('a broken saved memory is refused with the remedy, and nothing runs', async () => {
    await using specs = trialSpecs()
    const { snapshots } = machineFiles(root)
    const limits = { ...(await specs.make()).limits, memoryBytes: 320 * 2 ** 20 }
    const before = new Set(readdirSync(snapshots))
    await saveSnapshot(options, await specs.make({ limits }))
    const fresh = readdirSync(snapshots).find((name) => !before.has(name))
    writeFileSync(join(snapshots, fresh!), 'no memory at all')
    const spec = await specs.make({ limits })
    try {
      await expect(driver.start(spec, soon())).rejects.toMatchObject({ code: 'cell_unavailable' })
      expect(qemuProcesses(spec.scratch)).toEqual([])
    } finally {
      execFileSync('rm', [join(snapshots, fresh!)])
    }
  })
})

/** Those whose wall has this folder in it. */
function qemuProcesses(scratch: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter(
      (pid) => (readProc(pid, 'cmdline') ?? '').includes('qemu-system') && (readProc(pid, 'mountinfo') ?? '').includes(scratch),
    )
    .filter((pid) => !(readProc(pid, 'cmdline') ?? '').startsWith('/usr/bin/bwrap'))
}
