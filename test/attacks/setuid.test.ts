import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { attack, cellUnderAttack, isRoot } from './cell-under-attack.ts'

attack('programs that change the user', (driver) => {
  test('are on no mount that honours them', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh(`echo refused; cut -d' ' -f5,6 /proc/self/mountinfo | grep -v nosuid`)
    expect(lines).toEqual(['refused'])
  })

  test.skipIf(!isRoot)('give nothing, even one that belongs to root', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'anchorhold-attack-'))
    await chmod(folder, 0o755)
    await copyFile('/usr/bin/id', join(folder, 'id'))
    await chmod(join(folder, 'id'), 0o6755)
    try {
      await using under = await cellUnderAttack(driver, { mounts: [{ source: folder, target: '/opt/setuid' }] })
      expect((await under.sh('ls -l /opt/setuid/id | cut -c1-10; /opt/setuid/id -u; /opt/setuid/id -g')).lines).toEqual([
        '-rwsr-sr-x',
        '1000',
        '1000',
      ])
    } finally {
      await rm(folder, { recursive: true })
    }
  })

  test('cannot become another user', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.perl(
      'for my $uid (0, 1, 65534) { $! = 0; $> = $uid; print $> == $uid ? "BECAME\\n" : "refused\\n" }',
    )
    expect(lines).toEqual(['refused', 'refused', 'refused'])
  })
})
