import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { findImage } from '../../images/images.ts'
import { bwrapDriver } from '../bwrap/bwrap.ts'
import type { CellFiles, CellSpec } from '../cell.ts'
import { cellContract } from '../contract.ts'
import { readProc } from '../limits/processes.ts'
import { run, trialSpecs } from '../trial.ts'
import { findTool } from '../../images/tools.ts'
import { qemuName } from './argv.ts'
import { machineFiles, runtimeKey, snapshotKey } from './files.ts'
import { setupLines } from './guest.ts'
import { type MachineOptions, startMachine } from './machine.ts'
import { learnAccel, machineArch, microvmDriver, saveSnapshot } from './microvm.ts'

const clone = join(import.meta.dirname, '../../../../..')
const files: CellFiles = { node: process.execPath, inside: join(clone, 'dist/inside.cjs') }
const root = findImage(process.env.ANCHORHOLD_IMAGES ?? '', 'base')!.root
const options = { ...files, root, wall: bwrapDriver() }
const driver = microvmDriver(options)
const startMs = 120_000
const soon = () => AbortSignal.timeout(startMs)

const shares = 'a machine goes on with the shares that it was saved with'
cellContract(
  driver,
  {
    'finds in its caches what a cell before it left there, and another cell does not': shares,
    'runs nothing out of its caches': shares,
  },
  { startMs },
)

/** The machine that a cell of this kind goes on from, by itself. */
function partsOf(spec: CellSpec): MachineOptions {
  const made = machineFiles(root)
  const arch = machineArch()!
  const qemu = findTool(qemuName(arch))!
  const shape = { arch, accel: 'tcg', memoryBytes: spec.limits.memoryBytes, cpus: spec.limits.cpus } as const
  const runtime = runtimeKey(made, files)
  const parts = {
    ...made,
    runtime: join(made.runtimes, `${runtime}.erofs`),
    snapshot: join(made.snapshots, snapshotKey(made, runtime, qemu, shape)),
  }
  return { wall: options.wall, spec, qemu, shape, parts, kvm: '/dev/kvm' }
}

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
    // Made with the snapshot that all tests go on from.
    await using _ = await driver.start(await specs.make(), soon())
    // Each read is one step of the kernel's generator. Two machines whose generators go on from the same state would be some steps
    // apart, so one number in common among many gives them away. They are drawn at the first moment that anything of a session
    // could: some seconds later the kernel takes up new randomness by itself.
    const numbers = async () => {
      const spec = await specs.make()
      await using machine = await startMachine(partsOf(spec), soon())
      const lines = setupLines({ nowMs: Date.now(), entropy: randomBytes(64), tmpBytes: 2 ** 20, mounts: [] })
      const first = lines.findIndex((line) => line.includes('remount'))
      const draw = '$B dd if=/new/dev/urandom bs=32 count=500 of=/numbers 2>/dev/null'
      await machine.tell([...lines.slice(0, first), draw, ...lines.slice(first)], soon())
      await machine.tell(['$B cp /numbers /new/workspace/numbers && echo yes'], soon())
      return readFileSync(join(spec.workspace, 'numbers'), 'hex').match(/.{64}/g) ?? []
    }
    const [one, other] = [await numbers(), await numbers()]
    expect([one.length, new Set([...one, ...other]).size]).toEqual([500, 1000])
  })

  test('learnAccel() has the hardware run a machine before it is believed in, and says why not', async () => {
    await using specs = trialSpecs()
    // A device that is there and is none: QEMU itself has to find out.
    const decoy = { ...options, kvm: '/dev/null' }
    expect(await learnAccel(decoy, await specs.make())).toMatchObject({
      accel: 'tcg',
      why: expect.stringMatching(/QEMU ended.*kvm/i),
    })
    expect(microvmDriver(decoy).notes?.()).toMatchObject([
      expect.stringMatching(/slow: the hardware \(KVM\) was tried on \d{4}-/),
    ])
    // What was found of one device says nothing of another.
    expect(driver.notes?.()).toMatchObject([expect.stringContaining('not tried yet')])
    await driver.relearn?.()
    expect(driver.notes?.()).toMatchObject([expect.stringMatching(/was tried on|run by the hardware/)])
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

  test('what a process has mapped and changed is written out when the cell ends, though the process still runs', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    const cell = await driver.start(spec, soon())
    const script = [
      'import mmap, os, sys, time',
      'file = os.open("/workspace/mapped", os.O_RDWR | os.O_CREAT)',
      'os.ftruncate(file, 4096)',
      'page = mmap.mmap(file, 4096)',
      'page[:4] = b"kept"',
      'print("changed", flush=True)',
      'time.sleep(600)',
    ].join('\n')
    const writer = cell.spawn(['python3', '-c', script], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    const [said] = (await once(writer.stdout, 'data')) as [Buffer]
    expect(String(said)).toBe('changed\n')
    await cell[Symbol.asyncDispose]()
    expect(readFileSync(join(spec.workspace, 'mapped'), 'latin1').slice(0, 4)).toBe('kept')
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

  test('where a saved memory cannot be used a machine boots instead, and it is not tried again', async () => {
    await using specs = trialSpecs()
    const { snapshots } = machineFiles(root)
    const limits = { ...(await specs.make()).limits, memoryBytes: 320 * 2 ** 20 }
    const before = new Set(readdirSync(snapshots))
    await saveSnapshot(options, await specs.make({ limits }))
    const fresh = readdirSync(snapshots).find((name) => !before.has(name))
    writeFileSync(join(snapshots, fresh!), 'no memory at all')
    const spec = await specs.make({ limits })
    await using cell = await driver.start(spec, soon())
    expect((await run(cell, ['echo', 'stands'])).output).toBe('stands\n')
    expect(readdirSync(snapshots)).not.toContain(fresh)
    expect(qemuProcesses(spec.scratch)).toHaveLength(1)
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
