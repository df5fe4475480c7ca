import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { run, specMaker, testLimits } from '../contract.ts'
import { bwrapDriver } from '../bwrap/bwrap.ts'
import { groupSettings, makeGroups } from './cgroups.ts'
import { cgroupMounts, delegateCgroups, withdrawCgroups } from './delegate.ts'
import { affordable, hardLimit, prlimitArgv } from './rlimits.ts'
import { inBytes } from './words.ts'

test.each([
  [512, '512 bytes'],
  [1536, '1.5 KiB'],
  [2 * 2 ** 30, '2 GiB'],
])('inBytes() of %i is %s', (bytes, words) => {
  expect(inBytes(bytes)).toBe(words)
})

describe('rlimits', () => {
  const own = [
    'Limit                     Soft Limit           Hard Limit           Units     ',
    'Max file size             unlimited            unlimited            bytes     ',
    'Max core file size        0                    0                    bytes     ',
    'Max processes             96373                96373                processes ',
    'Max open files            1024                 20000                files     ',
  ].join('\n')

  test('hardLimit() reads the second figure', () => {
    expect(hardLimit(own, 'nofile')).toBe(20_000)
    expect(hardLimit(own, 'fsize')).toBe(Infinity)
    expect(hardLimit('', 'fsize')).toBeNull()
  })

  test('affordable() never asks for more than the own hard limit', () => {
    expect(affordable({ nofile: 65_536, fsize: 100, core: 1, nproc: null }, own)).toEqual({
      nofile: 20_000,
      fsize: 100,
      core: 0,
      nproc: null,
    })
  })

  test('prlimitArgv() sets soft and hard alike and leaves out what is not wanted', () => {
    const argv = prlimitArgv('/usr/bin/prlimit', { nofile: 20, fsize: 100, core: 1, nproc: null })
    expect(argv).toEqual(['/usr/bin/prlimit', '--nofile=20:20', '--fsize=100:100', '--core=1:1', '--'])
  })
})

describe('control groups', () => {
  const hybrid = [
    '30 25 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755',
    '31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct',
    '32 30 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory',
    '33 30 0:29 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer',
    '34 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
  ].join('\n')

  test('cgroupMounts() takes version 1 where it holds the controllers, and version 2 elsewhere', () => {
    expect(cgroupMounts(hybrid)).toEqual([
      { path: '/sys/fs/cgroup/cpu,cpuacct', version: 1 },
      { path: '/sys/fs/cgroup/memory', version: 1 },
    ])
    expect(cgroupMounts('34 30 0:30 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate')).toEqual([
      { path: '/sys/fs/cgroup', version: 2 },
    ])
  })

  test('groupSettings() forbids swap in both versions', () => {
    expect(groupSettings(2, testLimits).memory).toContainEqual({ file: 'memory.swap.max', value: '0' })
    expect(groupSettings(1, testLimits).memory).toContainEqual({
      file: 'memory.memsw.limit_in_bytes',
      value: String(testLimits.memoryBytes),
    })
    expect(groupSettings(2, { ...testLimits, cpus: 1.5 }).cpu).toEqual([{ file: 'cpu.max', value: '150000 100000' }])
  })

  test('makeGroups() holds nothing where a folder is no control group', () => {
    const folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))
    expect(makeGroups([folder, '/nonexistent'], 'cell', testLimits)).toBeNull()
    rmSync(folder, { recursive: true })
  })

  test.skipIf(process.getuid?.() !== 0)('of a delegated folder hold memory, processes and cpu of a cell', async () => {
    await using specs = specMaker()
    const user = { uid: 1_900_000_001, gid: 1_900_000_001 }
    const cgroups = delegateCgroups('limits-test', user)
    expect(cgroups.length).toBeGreaterThan(0)
    {
      await using cell = await bwrapDriver().start(await specs.make({ cgroups }), AbortSignal.timeout(10_000))
      expect(cell.limits.filter(({ how }) => how.startsWith('control group')).map(({ name }) => name)).toEqual([
        'memory',
        'processes',
        'cpu',
      ])
      expect((await run(cell, ['cat', '/proc/self/cgroup'])).output).not.toContain('limits-test/keeper')
    }
    // Throws unless the cell has taken its own groups away.
    withdrawCgroups(cgroups)
  })
})
