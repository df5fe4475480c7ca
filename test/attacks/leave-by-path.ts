import { ownerMark } from '@anchorhold/link/owner'
import { randomUUID } from 'node:crypto'
import { chmod, link, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Attack, judge } from './attack.ts'

export const leaveByPath: Attack = {
  name: 'leave by a path',
  promise: 'No symbolic link, hard link, ".." or /proc/PID/root leads out of the cell',
  guard: 'a root that the cell was moved to (pivot_root), and mounts that no link crosses',
  async *run(on) {
    const under = await on.cell()
    const folder = await mkdtemp(join(tmpdir(), `ah-attack-${ownerMark()}-`))
    try {
      const secret = `canary-${randomUUID()}`
      await chmod(folder, 0o777)
      await writeFile(join(folder, 'secret'), secret, { mode: 0o666 })
      await chmod(join(folder, 'secret'), 0o666)

      // An image has a file of passwords of its own; the other one is the host's alone.
      const wanted = on.root === 'image' ? `${folder}/secret` : `/etc/shadow ${folder}/secret`
      const { lines: roots } = await under.sh(`
        for p in /proc/[0-9]* /proc/self /proc/thread-self; do
          for way in root cwd; do
            [ -e $p/$way/${under.workspace} ] || [ "$(readlink $p/$way)" != / ] || echo "ELSEWHERE $p/$way"
            for file in ${wanted}; do cat $p/$way$file $p/$way/..$file $p/$way/../../../..$file 2>/dev/null; done | grep -q . && echo "READ $p/$way"
          done
        done
        ls -A /proc/1/root/root /proc/1/root/home 2>/dev/null | grep -v -e : -e '^agent$' -e '^$'
        echo refused`)
      yield judge('/proc/PID/root and cwd lead to the same root', roots, ['refused'])

      const { lines } = await under.sh(`
        ln -s '${folder}' to-folder; ln -s '${folder}/secret' to-file; ln -s ../../../../../../../..${folder} up
        for way in to-folder/secret to-file up/secret ../../../../../..${folder}/secret /proc/self/root${folder}/secret /proc/self/cwd/../../..${folder}/secret; do
          cat "$way" 2>/dev/null && echo READ; (echo owned > "$way") 2>/dev/null && echo WRITTEN
        done
        ln '${folder}/secret' hard 2>/dev/null && echo LINKED; ln /proc/1/root${folder}/secret hard 2>/dev/null && echo LINKED
        echo refused`)
      yield judge('symbolic links, hard links and ".."', lines, ['refused'])
      yield judge('what the links led to is as it was', await readFile(join(folder, 'secret'), 'utf8'), secret)
    } finally {
      await rm(folder, { recursive: true })
    }

    // The host's programs are the files that both sides see: a second name for one would be a way to write to it.
    const { lines: hard } = await under.sh(
      `for file in /usr/bin/env /etc/passwd /etc/ld.so.cache /proc/self/exe; do ln -L "$file" "hard-$(basename $file)" 2>/dev/null && (: >> "hard-$(basename $file)") 2>/dev/null && echo "WRITABLE $file"; done; echo refused`,
    )
    yield judge('a second name for a program does not make it writable', hard, ['refused'])

    // What a session was given by hard link stays the one file that was given: control that links do work where they may.
    const own = join(under.spec.workspace, 'own')
    await writeFile(own, 'mine', { mode: 0o666 })
    await link(own, join(under.spec.workspace, 'second'))
    yield judge('links within the workspace work', (await under.sh('cat second')).lines, ['mine'])
    yield judge(
      'nothing but what was made there lies in the workspace',
      (await readdir(under.spec.workspace)).filter((name) => !name.startsWith('hard')).toSorted(),
      ['own', 'second', 'to-file', 'to-folder', 'up'],
    )
  },
}
