import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { deviceNumber, namelessIn, namelessOf } from './nameless.ts'
import { identify } from './processes.ts'

let folder: string
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'anchorhold-test-'))))
afterEach(() => rmSync(folder, { recursive: true }))

test('namelessIn() finds what is mapped and has no name', () => {
  const maps = [
    'aaaac81e0000-aaaac8202000 r-xp 00000000 fe:00 1063                       /usr/bin/ls',
    'ffffa348f000-ffffa3490000 rw-s 00000000 00:01 711647                     /dev/zero (deleted)',
    'ffffa7776000-ffffa7777000 rw-s 00000000 103:1a2 712727                   /workspace/a (deleted) b (deleted)',
    'ffffa7778000-ffffa7779000 rw-p 00000000 00:00 0 ',
  ].join('\n')
  expect(namelessIn(maps)).toEqual([
    ['1:711647', { device: 1, path: '/dev/zero' }],
    [`${deviceNumber(0x103, 0x1a2)}:712727`, { device: 0x1103a2, path: '/workspace/a (deleted) b' }],
  ])
})

test('namelessOf() counts a file once, whoever holds it, and none that has a name', async () => {
  const held = await whatIsHeldBy(`
    open my $named, ">", "$ARGV[0]/named"; open my $f, ">", "$ARGV[0]/x"; syswrite $f, "x" x (1 << 20); unlink "$ARGV[0]/x";
    open my $again, ">&", $f; fork or sleep 60;`)
  expect([...held.files.values()].map(({ path }) => path)).toEqual([`${folder}/x`])
  expect([...held.files.values()][0]).toMatchObject({ device: statSync(folder).dev, bytes: 1 << 20 })
  expect(held).toMatchObject({ unsized: [], isPartial: false })
})

test('namelessOf() cannot know what waits in a socket', async () => {
  const held = await whatIsHeldBy(`
    use Socket; socketpair my $one, my $other, AF_UNIX, SOCK_STREAM, 0; open my $f, ">", "$ARGV[0]/x"; unlink "$ARGV[0]/x";
    my $byte = "x"; my $iov = pack "P Q", $byte, 1; my $control = pack "Q l l l x4", 20, 1, 1, fileno $f;
    my $message = pack "Q L x4 P Q P Q l x4", 0, 0, $iov, 1, $control, length $control, 0;
    syscall(${process.arch === 'x64' ? 46 : 211}, fileno $one, $message, 0) == 1 or die "not sent: $!"; close $f;`)
  expect(held.files.size).toBe(0)
  expect(held.isPartial).toBe(true)
})

/** Perl, since it can make any call and is on every Debian. */
async function whatIsHeldBy(script: string) {
  const child = spawn('perl', ['-e', `$| = 1; ${script} print "ready\\n"; sleep 60`, folder], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  })
  try {
    await once(child.stdout, 'data')
    return await namelessOf([identify(child.pid!)!])
  } finally {
    process.kill(-child.pid!, 'SIGKILL')
  }
}
