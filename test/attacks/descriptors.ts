import { ownerMark } from '@anchorhold/link/owner'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type Attack, judge } from './attack.ts'

/** Lists what is open, and reads what is no standard stream: those would wait for somebody to write. */
const look = `
  opendir my $d, "/proc/self/fd"; my @open = sort { $a <=> $b } grep { /\\d/ && $_ != fileno $d } readdir $d;
  my $found = 0;
  for (grep { $_ > 2 } @open) { open my $f, "<&=", $_ or next; sysread $f, my $part, 100; $found++ if ($part // "") =~ /canary/ }
  print "$_\\n" for @open, $found ? "READ" : "refused"`

export const descriptors: Attack = {
  name: 'inherit open files',
  promise: 'A file that the keeper was started with is not open in a process inside',
  guard: 'every inherited descriptor is closed before the command starts',
  async *run(on) {
    const folder = mkdtempSync(join(tmpdir(), `ah-attack-${ownerMark()}-`))
    try {
      const secret = join(folder, 'secret')
      writeFileSync(secret, 'canary', { mode: 0o600 })
      const fd = openSync(secret, 'r')
      // Low, in the range that a driver itself uses, and high.
      const stdio = Array<'ignore' | number>(121).fill('ignore')
      for (const number of [3, 9, 17, 64, 120]) stdio[number] = fd
      const launcher = on.launch(['perl', '-e', look], stdio.slice(3))
      closeSync(fd)
      const lines = (await text(launcher.stdout)).trim().split('\n')
      yield judge('only the standard streams are open', lines, ['0', '1', '2', 'refused'])
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
}
