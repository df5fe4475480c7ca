import { readFileSync } from 'node:fs'
import { type Attack, judge } from './attack.ts'
import { smallLimits } from './limits.ts'

const hoard = `my @open; while (@open < 100000) { open my $f, "<", "/dev/null" or do { printf "refused after %d\\n", scalar @open; exit }; push @open, $f } print "NOT REFUSED\\n"`

export const openFiles: Attack = {
  name: 'exhaust open files',
  promise: 'A process opens no more files than the limit, so that all of a cell cannot use up the host’s',
  guard: 'a resource limit, hard and soft alike',
  async *run(on) {
    const under = await on.cell({ limits: { ...smallLimits, openFilesMax: 256 } })
    const { lines } = await under.perl(hoard)
    const opened = Number(/^refused after (\d+)$/.exec(lines[0] ?? '')?.[1])
    yield judge('one process', opened > 10 && opened <= 256 ? 'refused' : lines, 'refused')
    const { lines: raised } = await under.sh('ulimit -Hn 100000 2>/dev/null && echo RAISED || echo refused')
    yield judge('the limit cannot be raised', raised, ['refused'])
    // What every process of the cell together may open is far from what the host has.
    const hostMax = Number(readFileSync('/proc/sys/fs/file-max', 'utf8'))
    const most = under.spec.limits.processesMax * 256
    yield judge('all processes together', most < hostMax / 2 ? 'the host has more' : { most, hostMax }, 'the host has more')
  },
}
