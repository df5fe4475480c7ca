import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { noExtras } from '@anchorhold/protocol/sessions'
import { Failure } from '@anchorhold/protocol/failures'
import type { CellSpec, Lack } from '../cell.ts'
import { checkHeld } from './program.ts'
import { gvisor, gvisorConfig, isSystrap } from './gvisor.ts'
import type { Plan } from './engine.ts'
import { chooseRuntime, podman, podmanOptions } from './podman.ts'
import { foreignLibraries, resolveIn } from './root.ts'

const plan: Plan = {
  folder: '/e',
  root: '/r',
  binds: [
    { source: '/home/a, "b"/w', target: '/workspace', writable: true },
    { source: '/v', target: '/run/windows', writable: false },
    { source: '/c', target: '/run/caches', writable: true, noexec: true },
  ],
  tmpBytes: 1 << 20,
  rlimits: { nofile: 512, fsize: 1 << 24, core: 1, nproc: 100 },
  users: 'single',
  owner: { uid: 1_900_000_001, gid: 1_900_000_001 },
  arch: 'arm64',
  extras: noExtras,
  elevated: null,
  command: ['/opt/anchorhold/inside/node'],
}
const after = (argv: readonly string[], option: string) =>
  argv.flatMap((word, at) => (word === option ? [argv[at + 1] ?? ''] : []))

describe('podmanOptions()', () => {
  const argv = podmanOptions(plan, 'runc')

  test.each([
    ['--network', 'none'],
    ['--pull', 'never'],
    ['--cap-drop', 'all'],
    ['--security-opt', 'no-new-privileges'],
    ['--security-opt', 'seccomp=/e/seccomp.json'],
    ['--log-opt', 'path=/e/said.log'],
    ['--log-opt', 'max-size=16kb'],
    ['--user', '0:0'],
    ['--ulimit', 'nofile=512:512'],
    ['--ulimit', 'nproc=100:100'],
    ['--tmpfs', '/tmp:rw,nosuid,nodev,exec,size=1048576,mode=1777'],
  ])('has %s %s', (option, value) => {
    expect(after(argv, option)).toContain(value)
  })

  test('keeps the root and what it mounts read-only, but for workspace and home', () => {
    expect(argv).toEqual(
      expect.arrayContaining(['--read-only', '--read-only-tmpfs=false', '--unsetenv-all', '--http-proxy=false']),
    )
    const mounts = after(argv, '--mount').filter((mount) => !mount.includes('/dev/pts'))
    expect(mounts).toEqual([
      'type=bind,"source=/home/a, ""b""/w",destination=/workspace,nosuid,nodev',
      'type=bind,source=/v,destination=/run/windows,nosuid,nodev,ro=true',
      'type=bind,source=/c,destination=/run/caches,nosuid,nodev,noexec',
    ])
  })

  test('with a range of users makes the session’s own 1000 inside, and root inside nobody', () => {
    const ranged = podmanOptions({ ...plan, users: 'range' }, 'runc')
    expect(after(ranged, '--user')).toEqual(['1000:1000'])
    expect(after(ranged, '--uidmap')).toEqual(['0:1:1000', '1000:0:1', '1001:1001:64535'])
  })

  test('gives graphics processors, sudo and nested containers only when they are asked for', () => {
    const capabilities = (extras: Partial<Plan['extras']>) =>
      podman({ runtime: 'runc' }).files({ ...plan, extras: { ...noExtras, ...extras } })['containers.conf']
    expect(argv.join(' ')).not.toMatch(/cap-add|nvidia|fuse|unmask/)
    expect(capabilities({})).toContain('default_capabilities = []')
    expect(after(podmanOptions({ ...plan, extras: { ...noExtras, gpu: true } }, 'runc'), '--device')).toEqual([
      'nvidia.com/gpu=all',
    ])
    const sudo = podmanOptions({ ...plan, users: 'range', extras: { ...noExtras, sudo: true } }, 'runc')
    // What is added by an argument, the cell's user would have at once.
    expect(sudo).not.toContain('--cap-add')
    expect(capabilities({ sudo: true })).toContain('"CAP_SETUID"')
    expect(capabilities({ sudo: true })).not.toContain('CAP_SYS_ADMIN')
    expect(after(sudo, '--security-opt')).not.toContain('no-new-privileges')
    const nested = podmanOptions({ ...plan, users: 'range', extras: { ...noExtras, nested: true } }, 'runc')
    expect(after(nested, '--device')).toEqual(['/dev/fuse'])
    expect(capabilities({ nested: true })).toContain('"CAP_SYS_ADMIN"')
  })

  test('leaves control groups alone where the runtime can', () => {
    expect(after(podmanOptions(plan, 'crun'), '--cgroups')).toEqual(['disabled'])
    expect(after(argv, '--cgroups')).toEqual([])
  })
})

test('podman() keeps everything in the folder that it is given, and reads no settings of the machine', () => {
  const engine = podman({ runtime: 'runc' })
  expect(engine.run(plan).slice(0, 5)).toEqual(['podman', '--root', '/e/store', '--runroot', '/e/state'])
  expect(Object.keys(engine.env(plan)).sort()).toEqual(
    expect.arrayContaining(['CONTAINERS_CONF', 'CONTAINERS_STORAGE_CONF', 'HOME', 'PATH', 'XDG_RUNTIME_DIR']),
  )
  expect(engine.files(plan)['containers.conf']).toContain('runtime = "runc"')
})

test.each([
  ['control groups of both versions', { '/sys/fs/cgroup/unified/cgroup.controllers': 'hugetlb' }, ['crun', 'runc'], 'runc'],
  ['the second version', { '/sys/fs/cgroup/cgroup.controllers': 'memory' }, ['crun', 'runc'], 'crun'],
  ['no crun', { '/sys/fs/cgroup/cgroup.controllers': 'memory' }, ['runc'], 'runc'],
])('chooseRuntime() on a machine with %s', (_, files, programs, expected) => {
  const read = (path: string) => (files as Record<string, string>)[path] ?? null
  expect(chooseRuntime(read, (program) => programs.includes(program))).toBe(expected)
})

/** How a process reports that it is held, and what it would say if it were not, line by line. */
const held = [
  ['Uid:\t0\t0\t0\t0', 'Uid:\t1\t1\t1\t1'],
  ['CapPrm:\t0000000000000000', 'CapPrm:\t0000000000000001'],
  ['CapEff:\t0000000000000000', 'CapEff:\t0000000000000400'],
  ['CapBnd:\t0000000000000000', 'CapBnd:\t000001ffffffffff'],
  ['NoNewPrivs:\t1', 'NoNewPrivs:\t0'],
  ['Seccomp:\t2', 'Seccomp:\t0'],
  ['Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016', 'Linux version 6.18.0 #1 SMP'],
  ['30 20 0:40 / /tmp rw - tmpfs tmpfs rw,size=1024k', '30 20 0:40 / /tmp rw - tmpfs tmpfs rw,size=2048k'],
  ['31 20 0:41 / /var/tmp rw - tmpfs tmpfs rw,size=1024k', '31 20 8:1 / /var/tmp rw - ext4 /dev/vda rw'],
  ['32 20 0:42 / /dev/shm rw - tmpfs tmpfs rw,size=1024k', '32 20 0:42 / /dev/shm rw - tmpfs tmpfs rw,size=1025k'],
] as const

describe.each([
  ['podman', podman({ runtime: 'runc' }), ['Linux']],
  ['gvisor', gvisor(), ['Uid', 'NoNewPrivs']],
] as const)('checkHeld() of a container by %s', (_, engine, others: readonly string[]) => {
  const spec = { limits: { tmpBytes: plan.tmpBytes } } as CellSpec
  const unavailable = (lacks: readonly Lack[]) => new Failure('cell_unavailable', lacks.map(({ what }) => what).join())
  const check = (report: string) => checkHeld(report, engine.posture(plan), spec, unavailable)
  const report = (changed?: readonly [string, string]) => held.map((line) => (line === changed ? line[1] : line[0])).join('\n')

  test('takes one that is held as it should be, of every release', () => {
    expect(check(report())).toMatchObject({ tmpBytes: plan.tmpBytes })
    expect(check(report().replace('4.4.0', '4.19.0-gvisor'))).toMatchObject({ tmpBytes: plan.tmpBytes })
  })

  test.each(held.filter(([line]) => !others.some((other) => line.startsWith(other))))('refuses %j as %j', (...line) => {
    const changed = held.find(([good]) => good === line[0])!
    expect(() => check(report(changed))).toThrow(/not held as it should be|could not be limited/)
  })
})

test.each([
  ['runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n', false],
  ['runsc version release-20240729.0\nspec: 1.2.0\n', true],
  ['runsc version VERSION_MISSING\n', true],
])('isSystrap() of %j is %j', (said, expected) => {
  expect(isSystrap(said)).toBe(expected)
})

test('gvisorConfig() gives no capability, a filter, and nothing writable but workspace, home and caches', () => {
  const config = gvisorConfig(plan)
  expect(config.process).toMatchObject({ noNewPrivileges: true, capabilities: { bounding: [], effective: [] } })
  expect(config.root).toEqual({ path: '/r', readonly: true })
  expect(config.linux.seccomp.syscalls.length).toBeGreaterThan(5)
  const writable = config.mounts.filter(({ type, options }) => type === 'bind' && options.includes('rw'))
  expect(writable.map(({ destination }) => destination)).toEqual(['/workspace', '/run/caches'])
  expect(writable.at(-1)?.options).toContain('noexec')
})

describe('a root folder of the session’s', () => {
  const root = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
  mkdirSync(join(root, 'usr/lib'), { recursive: true })
  symlinkSync('usr/lib', join(root, 'lib'))
  symlinkSync('/run', join(root, 'var'))
  symlinkSync('../../../../etc', join(root, 'up'))
  symlinkSync('circle', join(root, 'circle'))

  test.each([
    ['/lib/x', '/usr/lib/x'],
    ['/var/tmp', '/run/tmp'],
    ['/up/passwd', '/etc/passwd'],
    ['/new/../a', '/a'],
  ])('resolveIn() of %s is %s, and never outside', (path, expected) => {
    expect(resolveIn(root, path)).toBe(expected)
  })

  test('resolveIn() refuses a circle', () => {
    expect(() => resolveIn(root, '/circle/a')).toThrow('leads in a circle')
  })

  test('foreignLibraries() brings the loader of the host to a root made with musl, and to no other', () => {
    const host = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
    for (const file of ['lib/ld-linux-aarch64.so.1', 'lib/aarch64-linux-gnu/libc.so.6']) {
      mkdirSync(join(host, file, '..'), { recursive: true })
      writeFileSync(join(host, file), '')
    }
    expect(foreignLibraries(root, host)).toEqual([])
    writeFileSync(join(root, 'usr/lib/ld-musl-aarch64.so.1'), '')
    expect(foreignLibraries(root, host).map(({ target }) => target)).toEqual([
      '/lib/ld-linux-aarch64.so.1',
      '/lib/aarch64-linux-gnu',
    ])
    writeFileSync(join(root, 'usr/lib/ld-linux-aarch64.so.1'), '')
    expect(foreignLibraries(root, host)).toEqual([])
    rmSync(host, { recursive: true })
    rmSync(root, { recursive: true })
  })
})
