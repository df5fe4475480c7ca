import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { cgroupMounts, delegateCgroups, withdrawCgroups } from './cgroups.ts'

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

test.runIf(process.getuid?.() === 0)(
  'delegateCgroups() makes folders that their user comes to, whatever the umask of who makes them',
  () => {
    const user = { uid: 1_800_000_000 + process.pid, gid: 1_800_000_000 + process.pid }
    const before = process.umask(0o077)
    const folders = delegateCgroups(`launcher-${process.pid}`, user)
    process.umask(before)
    try {
      for (const folder of folders)
        expect(() => execFileSync('test', ['-w', join(folder, 'cgroup.procs')], { ...user, stdio: 'ignore' })).not.toThrow()
    } finally {
      withdrawCgroups(folders)
    }
  },
)

test('withdrawCgroups() ends who is in a group, and not itself where those are of another pid namespace', () => {
  const folder = mkdtempSync(join(tmpdir(), 'anchorhold-groups-'))
  using kill = vi.spyOn(process, 'kill').mockReturnValue(true)
  try {
    writeFileSync(join(folder, 'cgroup.procs'), '0\n4711\n0\n')
    withdrawCgroups([folder])
    expect(kill.mock.calls).toEqual([[4711, 'SIGKILL']])
  } finally {
    rmSync(folder, { recursive: true })
  }
})
