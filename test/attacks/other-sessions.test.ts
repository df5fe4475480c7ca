import { symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

attack("another session's folders", (driver) => {
  test('cannot be reached by path, by .., by link or through /proc', async () => {
    await using victim = await cellUnderAttack(driver)
    await using under = await cellUnderAttack(driver)
    for (const folder of [victim.spec.workspace, victim.spec.home, victim.spec.windows ?? ''])
      await writeFile(join(folder, 'secret'), 'canary', { mode: 0o644 })
    await symlink(victim.spec.workspace, join(under.spec.workspace, 'link'))
    await symlink(join(victim.spec.home, 'secret'), join(under.spec.home, 'link'))
    const ways = [
      join(victim.spec.workspace, 'secret'),
      join(victim.spec.home, 'secret'),
      join(victim.spec.windows ?? '', 'secret'),
      '/workspace/link/secret',
      '/home/agent/link',
      `/workspace/../..${victim.spec.workspace}/secret`,
      `/proc/1/root${victim.spec.workspace}/secret`,
      `/proc/self/cwd/../${dirname(victim.spec.workspace)}/workspace/secret`,
    ]
    const { lines } = await under.sh(ways.map((way) => `cat '${way}' 2>/dev/null || echo refused`).join('\n'))
    expect(lines).toEqual(ways.map(() => 'refused'))
  })

  test('do not share scratch space, and their processes do not see each other', async () => {
    await using victim = await cellUnderAttack(driver)
    await using under = await cellUnderAttack(driver)
    const holding = victim.cell.spawn(
      ['sh', '-c', 'echo canary > /tmp/secret; echo canary > /dev/shm/secret; echo ready; exec sleep 1000'],
      { env: { PATH: '/usr/bin:/bin' }, cwd: '/' },
    )
    await new Promise((resolve) => holding.stdout.once('data', resolve))
    const { lines } = await under.sh(
      'cat /tmp/secret /dev/shm/secret 2>/dev/null || echo refused; cat /proc/[0-9]*/comm | grep -c "^sleep$"',
    )
    expect(lines).toEqual(['refused', '0'])
  })
})
