import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type MachineMemory, memoryWatchers, sharesIn } from './memory-watchers.ts'

const limit = 128 * 2 ** 20
const plenty: MachineMemory = { available: 64 * limit, shared: limit, swapped: 0 }
const memfd = process.arch === 'x64' ? 319 : 279
const mmap = process.arch === 'x64' ? 9 : 222

/** A segment that is attached for as long as one looks, and 96 MiB that are mapped whole and open as well. */
const attached = `my $id = shmget 0, 4096, 0600; my $at = syscall(${process.arch === 'x64' ? 30 : 196}, $id, 0, 0); shmctl $id, 0, 0;`
const mapped = `my $name = "x"; my $fd = syscall(${memfd}, $name, 0); open my $f, "+>&=", $fd; syswrite $f, "x" x (1 << 20) for 1 .. 96;
  my $at = syscall(${mmap}, 0, 96 << 20, 3, 1, $fd, 0); for my $i (0 .. 96 * 256 - 1) { my $read = unpack "P1", pack "J", $at + ($i << 12) }`

test('memoryWatchers() ends a cell that may hide memory when the machine runs short of what is shared', async () => {
  await using cell = await perl(attached)
  const looks = await lookAt(cell.pid, [plenty, { available: limit / 2, shared: 3 * limit, swapped: 0 }])
  expect(looks).toMatch(/^shared memory of the machine grew by 256 MiB until little was left/)
})

test('memoryWatchers() ends no cell for what others share while there is enough', async () => {
  await using cell = await perl(attached)
  expect(await lookAt(cell.pid, [plenty, { available: 2 * limit, shared: 3 * limit, swapped: 0 }])).toBeNull()
})

test('memoryWatchers() ends no cell for what others share that hides nothing', async () => {
  await using cell = await perl('')
  expect(await lookAt(cell.pid, [plenty, { available: limit / 2, shared: 3 * limit, swapped: 0 }])).toBeNull()
})

test('memoryWatchers() counts once what is both mapped and open', async () => {
  await using cell = await perl(mapped)
  expect(await lookAt(cell.pid, [plenty, { available: 2 * limit, shared: 3 * limit, swapped: 0 }])).toBeNull()
  expect(await lookAt(cell.pid, [plenty, { available: 2 * limit, shared: 3 * limit, swapped: 0 }], limit / 2)).toMatch(
    /^its processes held (9|10)\d(\.\d+)? MiB of memory, and the limit is 64 MiB$/,
  )
})

test('sharesIn() tells what is there of each file, what is in the swap included', () => {
  const smaps = [
    'ffffa348f000-ffffa3490000 rw-s 00000000 00:01 711647                     /memfd:x (deleted)',
    'Size:                  4 kB',
    'Pss:                   3 kB',
    'Pss_Dirty:             2 kB',
    'SwapPss:               1 kB',
    'ffffa7778000-ffffa7779000 rw-p 00000000 00:00 0 ',
    'Pss:                   8 kB',
  ].join('\n')
  expect([...sharesIn(smaps)]).toEqual([
    ['1:711647', 3072],
    ['1:711647', 1024],
    ['0:0', 8192],
  ])
})

/** Three looks at the last figures, since what is there for a moment alone does not count. */
async function lookAt(pid: number, [first, then]: readonly [MachineMemory, MachineMemory], limitBytes = limit) {
  let [machine, fallen] = [first, 0]
  const watchers = memoryWatchers(
    limitBytes,
    () => [pid],
    () => ({ ...machine, available: machine.available - fallen }),
  )
  machine = then
  for (let look = 0; look < 3; look++) {
    fallen += limitBytes / 8
    const reasons = await Promise.all(watchers.map((watcher) => watcher.look()))
    const reason = reasons.find((each) => each !== null)
    if (reason !== undefined) return reason
  }
  return null
}

async function perl(script: string) {
  const child = spawn('perl', ['-e', `$| = 1; ${script} print "ready\\n"; sleep 60`], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return {
    pid: child.pid!,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await delay(0)
    },
  }
}
