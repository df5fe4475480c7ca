import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Duplex } from 'node:stream'
import { slownessOf } from '@anchorhold/protocol/rungs'
import { describe, expect, test } from 'vitest'
import { trialLimits } from '../trial.ts'
import { qemuArgv, restoresFrom } from './argv.ts'
import { setupLines, underLimits } from './guest.ts'
import { initramfs } from './initramfs.ts'
import { limitsSeen } from './microvm.ts'
import { monitor } from './monitor.ts'
import { reseedProgram } from './reseed.ts'

describe('qemuArgv()', () => {
  const shape = { arch: 'arm64', accel: 'tcg', memoryBytes: 2 ** 30, cpus: 2 } as const

  test('gives a machine no network, no disk to write to, and QEMU no way to start anything', () => {
    for (const arch of ['arm64', 'x64'] as const)
      for (const accel of ['tcg', 'kvm'] as const) {
        const argv = qemuArgv({ ...shape, arch, accel }, 'boot')
        expect(argv.filter((word) => /netdev|virtio-net|-nic\b|usb|vga/.test(word))).toEqual([])
        const drives = argv.filter((_, index) => argv[index - 1] === '-drive')
        expect(drives.every((drive) => drive.includes('readonly=on'))).toBe(true)
        expect(drives).toHaveLength(2)
        expect(argv).toContain('on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny')
        for (const flag of ['-nodefaults', '-no-user-config', '-no-reboot']) expect(argv).toContain(flag)
      }
  })

  test('shares the mounts of a session read-only', () => {
    const argv = qemuArgv(shape, 'boot')
    expect(argv.find((word) => word.includes('id=mounts'))).toContain('readonly=on')
  })

  test('takes the saved memory from a descriptor, and is the same machine otherwise', () => {
    expect(qemuArgv(shape, 'descriptor')).toEqual([...qemuArgv(shape, 'boot'), '-incoming', 'fd:3'])
    expect(qemuArgv(shape, 'file')).toEqual([...qemuArgv(shape, 'boot'), '-incoming', 'file:/opt/machine/snapshot'])
    expect(
      ['7.2.22 (Debian 1:7.2)', '8.1.0', '8.2.0', '10.0.2', '11.0.0'].map((it) => restoresFrom(`QEMU emulator version ${it}`)),
    ).toEqual(['descriptor', 'descriptor', 'file', 'file', 'file'])
  })

  test('asks for the hardware only where that is meant', () => {
    expect(qemuArgv(shape, 'boot').join(' ')).not.toContain('kvm')
    expect(qemuArgv({ ...shape, accel: 'kvm' }, 'boot').join(' ')).toContain('-accel kvm')
  })
})

describe('the guest', () => {
  test('setupLines() sets clock and randomness before anything of the session is there', () => {
    const lines = setupLines({ nowMs: 1_700_000_000_500, entropy: Buffer.from('ab', 'hex'), tmpBytes: 4096, mounts: [] })
    const at = (part: string) => lines.findIndex((line) => line.includes(part))
    expect(at('@1700000000')).toBeGreaterThan(-1)
    expect(at('reseed')).toBeGreaterThan(at('/dev/urandom'))
    expect(at('/new/workspace')).toBeGreaterThan(at('reseed'))
  })

  test('setupLines() quotes a target that has a word for the shell in it', () => {
    const target = `/opt/it's; reboot $(x)`
    const lines = setupLines({
      nowMs: 0,
      entropy: Buffer.alloc(1),
      tmpBytes: 1,
      mounts: [{ target, kind: 'folder' }],
    })
    const bind = lines.find((line) => line.includes('--bind'))!
    const word = bind.slice(bind.indexOf("'"))
    expect(execFileSync('sh', ['-c', `printf %s ${word}`], { encoding: 'utf8' })).toBe(`/new${target}`)
  })

  test('underLimits() runs the program of the PATH with exactly the environment that it was given', () => {
    const limits = { processesMax: 4096, openFilesMax: 99, fileBytes: 2 ** 30 }
    const [, ...args] = underLimits(['sh', '-c', 'ulimit -Hn; env'], limits)
    // Any shell will do for this: busybox is asked for by its path in the guest.
    const output = execFileSync('bash', ['--norc', ...args.slice(1)], {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin', _file: 'x' },
    })
    expect(output.split('\n')[0]).toBe('99')
    expect(output).not.toContain('SHLVL=1')
    const missing = underLimits(['no-such-program'], limits).slice(2)
    expect(() => execFileSync('bash', ['--norc', ...missing], { env: { PATH: '/usr/bin' }, stdio: 'pipe' })).toThrow('not found')
  })
})

describe('limitsSeen()', () => {
  const shape = { arch: 'arm64', accel: 'tcg', memoryBytes: 2 ** 30, cpus: 1 } as const
  const held = [
    ...['Uid:\t1000\t1000\t1000\t1000', 'Gid:\t1000\t1000\t1000\t1000', 'NoNewPrivs:\t1'],
    ...['CapPrm:\t0000000000000000', 'CapEff:\t0000000000000000', 'MemTotal:       1000000 kB'],
    ...['Max open files            512                  512                  files'],
    ...['/tmp', '/var/tmp', '/dev/shm'].map((path) => `30 20 0:40 / ${path} rw - tmpfs tmpfs rw,size=1024k`),
  ]
  const seen = (lines: readonly string[]) => limitsSeen(lines.join('\n'), { limits: trialLimits }, shape, [])

  test('refuses a machine whose processes are not held as they should be', () => {
    expect(() => seen(held)).not.toThrow()
    for (const at of [0, 1, 2, 3, 4])
      expect(() => seen(held.toSpliced(at, 1, 'Uid:\t0\t0\t0\t0'))).toThrow('not held as it should be')
  })

  test('tells a limit as enforced only when a process inside has read it back', () => {
    const of = (name: string, lines = held) => seen(lines).find((limit) => limit.name === name)?.enforcement
    expect([of('memory'), of('open_files'), of('tmp')]).toEqual(['enforced', 'enforced', 'enforced'])
    expect([of('file_size'), of('processes')]).toEqual(['not enforced', 'not enforced'])
    expect(of('memory', held.toSpliced(5, 1, 'MemTotal: 9000000 kB'))).toBe('not enforced')
    expect(of('tmp', held.slice(0, -1))).toBe('not enforced')
  })

  test('says how slow a machine is that is worked out in software, also where its wall limits the processor', () => {
    const cpu = { name: 'cpu', value: '1 CPU', enforcement: 'enforced', how: 'a control group' } as const
    for (const wall of [[], [cpu]]) {
      const slownessOn = (accel: 'kvm' | 'tcg') =>
        slownessOf(limitsSeen(held.join('\n'), { limits: trialLimits }, { ...shape, accel }, wall))
      expect([slownessOn('kvm'), slownessOn('tcg')]).toEqual([1, 20])
    }
  })
})

test('initramfs() is an archive that cpio reads', ({ skip }) => {
  const archive = initramfs([
    { path: 'bin', content: null },
    { path: 'bin/tool', content: Buffer.from('tool') },
    { path: 'odd', content: Buffer.from('12345'), mode: 0o644 },
  ])
  expect(archive.length % 4).toBe(0)
  expect(archive.subarray(0, 6).toString()).toBe('070701')
  try {
    execFileSync('cpio', ['--version'])
  } catch {
    skip('cpio is not installed')
  }
  const listed = execFileSync('cpio', ['-tv', '--quiet'], { input: archive, encoding: 'utf8' })
  expect(
    listed.split('\n').map((line) =>
      line
        .replace(/\s+/g, ' ')
        .split(' ')
        .filter((_, index) => [0, 4, 8].includes(index))
        .join(' '),
    ),
  ).toEqual(['drwxr-xr-x 0 bin', '-rwxr-xr-x 4 bin/tool', '-rw-r--r-- 5 odd', ''])
})

describe('reseedProgram()', () => {
  test('is a program of this machine that asks the kernel, who lets root alone do it', ({ skip }) => {
    if (process.arch !== 'arm64' && process.arch !== 'x64') return skip('there is none for this machine')
    const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
    try {
      const path = join(folder, 'reseed')
      writeFileSync(path, reseedProgram(process.arch), { mode: 0o755 })
      const ended = (() => {
        try {
          execFileSync(path)
          return 0
        } catch (error) {
          return (error as { status: number }).status
        }
      })()
      // 256 - EPERM for anybody without the right to.
      expect([0, 255]).toContain(ended)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('names the file right behind its code on either architecture', () => {
    const program = reseedProgram('x64')
    const at = program.indexOf('/dev/urandom\0')
    const lea = program.indexOf(Buffer.from('488d3d', 'hex'))
    expect(lea + 7 + program.readInt32LE(lea + 3)).toBe(at)
    expect(reseedProgram('arm64').indexOf('/dev/urandom\0') % 4).toBe(0)
  })
})

describe('monitor()', () => {
  function line() {
    const [toQemu, fromQemu] = [new PassThrough(), new PassThrough()]
    const duplex = Duplex.from({ readable: fromQemu, writable: toQemu })
    const say = (message: object) => fromQemu.write(`${JSON.stringify(message)}\n`)
    toQemu.on('data', (text: Buffer) => {
      for (const each of String(text).trim().split('\n')) {
        const { execute } = JSON.parse(each) as { execute: string }
        if (execute === 'bad') say({ error: { class: 'x', desc: 'no such thing' } })
        else say({ return: execute })
      }
    })
    return { duplex, say, fromQemu }
  }

  test('greets, answers in order and tells of events', async () => {
    const { duplex, say } = line()
    say({ QMP: { version: {} } })
    const qmp = await monitor(duplex)
    const opened = qmp.event('VSERPORT_CHANGE', (data) => (data as { open: boolean }).open)
    expect(await Promise.all([qmp.execute('one'), qmp.execute('two')])).toEqual(['one', 'two'])
    await expect(qmp.execute('bad')).rejects.toThrow('no such thing')
    say({ event: 'STOP' })
    say({ event: 'VSERPORT_CHANGE', data: { open: true } })
    await opened
  })

  test.each([
    ['garbage', 'not json\n'],
    ['an endless line', 'x'.repeat(300_000)],
  ])('ends on %s', async (_, garbage) => {
    const { duplex, say, fromQemu } = line()
    say({ QMP: {} })
    const qmp = await monitor(duplex)
    fromQemu.write(garbage)
    await expect(qmp.execute('after').then(() => qmp.execute('after'))).rejects.toThrow(/QEMU/)
  })
})
