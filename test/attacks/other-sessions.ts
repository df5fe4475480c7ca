import { symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { type Attack, judge } from './attack.ts'

export const otherSessions: Attack = {
  name: 'reach another session',
  promise: 'The folders, scratch space and processes of another session are out of reach',
  guard: 'mounts, scratch space and process numbers of each cell’s own',
  async *run(on) {
    const victim = await on.cell()
    const under = await on.cell()
    const folders = [victim.spec.workspace, victim.spec.home, victim.spec.windows ?? '']
    for (const folder of folders) await writeFile(join(folder, 'secret'), 'canary', { mode: 0o644 })
    await symlink(victim.spec.workspace, join(under.spec.workspace, 'link'))
    await symlink(join(victim.spec.home, 'secret'), join(under.spec.home, 'link'))
    const ways = [
      ...folders.map((folder) => join(folder, 'secret')),
      `${under.workspace}/link/secret`,
      `${under.home}/link`,
      `${under.workspace}/../..${victim.spec.workspace}/secret`,
      `/proc/1/root${victim.spec.workspace}/secret`,
      `/proc/self/cwd/../${dirname(victim.spec.workspace)}/workspace/secret`,
    ]
    const { lines } = await under.sh(ways.map((way) => `cat '${way}' 2>/dev/null || echo refused`).join('\n'))
    yield judge(
      'by path, by "..", by link and through /proc',
      lines,
      ways.map(() => 'refused'),
    )

    const holding = victim.cell.spawn(
      ['sh', '-c', 'echo canary > /tmp/secret; echo canary > /dev/shm/secret; echo ready; exec sleep 1000'],
      { env: { PATH: '/usr/bin:/bin' }, cwd: '/' },
    )
    await new Promise((resolve) => holding.stdout.once('data', resolve))
    const { lines: shared } = await under.sh(
      'cat /tmp/secret /dev/shm/secret 2>/dev/null || echo refused; cat /proc/[0-9]*/comm 2>/dev/null | grep -c "^sleep$"',
    )
    yield judge('by scratch space and by its processes', shared, ['refused', '0'])
  },
}
