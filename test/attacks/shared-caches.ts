import { ownerMark } from '@anchorhold/link/owner'
import { trialUser } from '@anchorhold/keeper/cells/trial'
import { chmod, chown, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Attack, judge, judgeByKernel, notApplicable } from './attack.ts'

export const sharedCaches: Attack = {
  name: 'use shared caches',
  promise: 'Downloads that sessions of a folder share lead nobody out, are seen by no other session, and hold nothing that runs',
  guard: 'a mount of their own without devices, and without execution where the rung can hold that',
  async *run(on) {
    const folder = await mkdtemp(join(tmpdir(), `ah-attack-${ownerMark()}-`))
    try {
      await chmod(folder, 0o755)
      const secret = join(folder, 'secret')
      await writeFile(secret, 'canary', { mode: 0o666 })
      await chmod(secret, 0o666)
      const caches = join(folder, 'caches')
      const npm = join(caches, 'npm')
      await mkdir(npm, { recursive: true, mode: 0o755 })
      // As a session before this one may have left it.
      await symlink(secret, join(npm, 'link'))
      await symlink('../../secret', join(npm, 'up'))
      if (process.getuid?.() === 0) await chown(npm, trialUser.uid, trialUser.gid)
      const under = await on.cell({ caches })
      const at = under.cell.place(npm)
      const ways = [`${at}/link`, `${at}/up`, `${at}/../../secret`, `${at}/../../..${secret}`]
      const { lines: led } = await under.sh(
        ways.map((way) => `cat '${way}' 2>/dev/null || { echo owned > '${way}'; } 2>/dev/null || echo refused`).join('\n'),
      )
      const kept = await readFile(secret, 'utf8')
      yield judge('by a link, and by ".."', [...led, kept], [...ways.map(() => 'refused'), 'canary'])

      const other = await on.cell()
      const { lines: seen } = await other.sh(`ls '${at}' 2>/dev/null || echo refused; ls '${npm}' 2>/dev/null || echo refused`)
      yield judge('from a cell that has none', seen, ['refused', 'refused'])
      if (on.rung === 'microvm') return

      const { lines: device } = await under.sh(
        `mknod '${at}/zero' c 1 5 2>/dev/null && head -c 1 '${at}/zero' >/dev/null 2>&1 && echo READ || echo refused`,
      )
      yield judgeByKernel(on, 'a device among them', device, ['refused'])
      if (on.rung === 'bwrap') return yield notApplicable('a program among them', 'bwrap has no option for it')
      const { lines: ran } = await under.sh(
        `cp /usr/bin/id '${at}/id' && chmod 755 '${at}/id' && echo there; '${at}/id' >/dev/null 2>&1 && echo RAN || echo refused`,
      )
      yield judge('a program among them', ran, ['there', 'refused'])
    } finally {
      await rm(folder, { recursive: true })
    }
  },
}
