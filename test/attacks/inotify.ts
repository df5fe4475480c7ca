import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { type Attack, judge } from './attack.ts'

/** Opens what watches files until nothing more is to be had, or there are so many, and keeps it. */
const taking = (most: number) => `
  $| = 1; my %call = (x86_64 => 294, aarch64 => 26); use POSIX ();
  my $call = $call{(POSIX::uname())[4]} // exit; my $taken = 0;
  $taken++ while $taken < ${most} && syscall($call, 0) >= 0;
  print "$taken\\n"; <STDIN>`

export const inotify: Attack = {
  name: 'take all watchers of files',
  promise: 'A cell leaves its owner’s own programs what the kernel counts for each user',
  guard: 'a limit of its own in the user namespace around the cell',
  async *run(on) {
    const under = await on.cell()
    const inside = under.cell.spawn(['perl', '-e', taking(1000)], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    const [chunk] = (await once(inside.stdout, 'data')) as [Buffer]
    const outside = spawnSync('perl', ['-e', taking(1)], { ...under.spec.runAs, input: '\n', encoding: 'utf8' })
    const taken = Number(String(chunk)) > 0
    yield judge('the owner has some left', { taken, left: outside.stdout.trim() }, { taken: true, left: '1' })
  },
}
