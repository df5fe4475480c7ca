import { spawn } from 'node:child_process'
import { expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

attack('processes of the host', (driver) => {
  test('are not to be seen', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh('for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline | cut -d" " -f1 | sed "s,.*/,,"; done')
    expect(lines[0]).toBe('bwrap')
    expect([...new Set(lines)].filter((name) => !['bwrap', 'sh', 'tr', 'cut', 'sed'].includes(name))).toEqual([])
  })

  test('of the same user cannot be signalled', async () => {
    await using under = await cellUnderAttack(driver)
    const victim = spawn('sleep', ['1000'], { ...under.spec.runAs, cwd: '/' })
    try {
      const { lines } = await under.sh(
        `kill -0 ${victim.pid} 2>/dev/null && echo REACHED || echo refused; kill -9 -1; echo lived`,
      )
      expect(lines[0]).toBe('refused')
      expect([victim.exitCode, victim.signalCode]).toEqual([null, null])
    } finally {
      victim.kill('SIGKILL')
    }
  })

  test('cannot be traced, nor can the first process of the cell', async () => {
    await using under = await cellUnderAttack(driver)
    const peek = 'open(my $f, "<", "/proc/1/$_") && read($f, my $b, 1) && print "$_ READ\\n" or print "$_ refused\\n" for qw(mem)'
    expect((await under.perl(peek)).lines).toEqual(['mem refused'])
  })

  test('do not share memory segments, semaphores or message queues', async () => {
    await using under = await cellUnderAttack(driver)
    const key = 0x41000000 + (process.pid & 0xffff)
    const make = spawn('perl', [
      '-e',
      `$| = 1; my $id = shmget(${key}, 4096, 0x200 | 0666); defined $id or die; print "made\\n"; <STDIN>; shmctl($id, 0, 0)`,
    ])
    const gone = new Promise((resolve) => make.once('exit', resolve))
    await new Promise((resolve) => make.stdout.once('data', resolve))
    const { lines } = await under.perl(`print defined shmget(${key}, 4096, 0) ? "REACHED" : "refused"`)
    make.stdin.end('\n')
    await gone
    expect(lines).toEqual(['refused'])
  })
})
