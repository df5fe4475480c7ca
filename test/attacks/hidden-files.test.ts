import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import { trialUser } from '@anchorhold/keeper/cells/trial'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { AttackedCell, Outcome } from './attack.ts'
import { numberOf } from './calls.ts'
import { makeGround } from './ground.ts'
import { smallLimits } from './limits.ts'

/** A disk of its own, small enough to be filled. */
const diskBytes = 384 * 2 ** 20
let disk: string
const isRoot = process.getuid?.() === 0
beforeEach(() => {
  if (!isRoot) return
  disk = mkdtempSync(join(tmpdir(), 'ah-test-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskBytes},mode=711`, 'tmpfs', disk])
})
afterEach(() => {
  if (!isRoot) return
  execFileSync('umount', ['--lazy', disk])
  rmSync(disk, { recursive: true })
})

/** Each hides what it has written, and shows how far it came. None of it can be found in a folder or by a descriptor. */
const ways: Readonly<Record<string, string>> = {
  'mapped files that are closed and have no name': `unlink "x"; syscall(${numberOf.mmap}, 0, 4096, 1, 1, fileno $f, 0) > 0 or die "not mapped"; close $f;`,
  'descriptors that wait in a socket': `
    unlink "x"; my $byte = "x"; my $iov = pack "P Q", $byte, 1; my $control = pack "Q l l l x4", 20, 1, 1, fileno $f;
    my $message = pack "Q L x4 P Q P Q l x4", 0, 0, $iov, 1, $control, length $control, 0;
    syscall(${numberOf.sendmsg}, fileno $one, $message, 0) == 1 or die "not sent: $!"; close $f;`,
}

const fill = (hide: string, times: number, restS: number) => `
  $| = 1; use Socket; socketpair my $one, my $other, AF_UNIX, SOCK_STREAM, 0; print "started\\n";
  for (1 .. ${times}) {
    open my $f, "+>", "x" or die; my $left = 16 << 20;
    while ($left > 0) { my $n = syswrite $f, "x" x $left; if (!$n) { print "FULL\\n"; sleep 60 } $left -= $n }
    ${hide} select undef, undef, undef, 0.1;
  }
  print "written\\n"; sleep ${restS}; print "KEPT\\n"`

for (const [way, hide] of Object.entries(ways)) {
  test.skipIf(!isRoot)(`${way} do not fill a disk`, async () => {
    await using ground = makeGround(bwrapDriver(), { launcher: ['false'] })
    const cell = await cellOnDisk(ground)
    const filling = cell.perl(fill(hide, 64, 60))
    const reason = await Promise.race([cell.cell.ended, delay(30_000, 'the cell went on'), saidBy(filling)])
    expect(reason).toMatch(
      /^The cell was ended: the free space of its workspace and home shrank by .*, and the limit is 64 MiB; its files are kept$/,
    )
    expect(await filling).toEqual({ lines: ['started'], code: 137 })
  })
}

const mkfs = ['/usr/sbin/mkfs.btrfs', '/sbin/mkfs.btrfs'].find((path) => existsSync(path))
test.skipIf(!isRoot || mkfs === undefined)('files in a subvolume of btrfs are counted', async () => {
  await using ground = makeGround(bwrapDriver(), { launcher: ['false'] })
  const image = join(tmpdir(), `ah-test-btrfs-${process.pid}`)
  writeFileSync(image, '')
  truncateSync(image, 2 ** 30)
  execFileSync(mkfs!, ['-q', image])
  execFileSync('mount', ['-o', 'loop', image, disk])
  try {
    const cell = await cellOnDisk(ground)
    // linux/btrfs.h, BTRFS_IOC_SUBVOL_CREATE
    const subvolume = `open my $here, "<", "."; my $named = pack "q a4088", 0, "sub"; ioctl $here, 0x5000940e, $named or die "no subvolume: $!"; chdir "sub";`
    const filling = cell.perl(`${subvolume} ${fill('close $f; rename "x", "kept$_";', 32, 60)}`)
    const reason = await Promise.race([cell.cell.ended, delay(30_000, 'the cell went on'), saidBy(filling)])
    expect(reason).toMatch(/^The cell was ended: its workspace and home grew by .*, and the limit is 64 MiB; its files are kept$/)
    expect(await filling).toEqual({ lines: ['started'], code: 137 })
  } finally {
    await ground[Symbol.asyncDispose]()
    execFileSync('umount', [disk])
    rmSync(image)
  }
})

test.skipIf(!isRoot)('a cell that cannot have hidden as much goes on when others fill the disk', async () => {
  await using ground = makeGround(bwrapDriver(), { launcher: ['false'] })
  const cell = await cellOnDisk(ground)
  const [hide = ''] = Object.values(ways)
  const free = () => statfsSync(disk).bavail * statfsSync(disk).bsize
  const before = free()
  const working = cell.perl(fill(hide, 1, 8))
  await vi.waitFor(() => expect(free()).toBeLessThanOrEqual(before - 16 * 2 ** 20), 20_000)
  for (let i = 0; i < 20; i++) {
    await writeFile(join(disk, `others-${i}`), Buffer.alloc(16 * 2 ** 20))
    await delay(50)
  }
  expect(free()).toBeLessThan(smallLimits.diskBytes)
  expect(await working).toEqual({ lines: ['started', 'written', 'KEPT'], code: 0 })
})

async function cellOnDisk(ground: ReturnType<typeof makeGround>): Promise<AttackedCell> {
  const [workspace, home] = ['workspace', 'home'].map((name) => join(disk, name))
  for (const folder of [workspace!, home!]) {
    mkdirSync(folder)
    chmodSync(folder, 0o700)
    chownSync(folder, trialUser.uid, trialUser.gid)
  }
  return ground.cell({ limits: smallLimits, workspace: workspace!, home: home! })
}

/** What ends by itself has not attacked. */
const saidBy = async (attack: Promise<Outcome>) => {
  const { lines, code } = await attack
  return code === 137 ? await new Promise<never>(() => {}) : lines.join('\n')
}
