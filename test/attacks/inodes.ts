import { type Attack, judge } from './attack.ts'
import { smallLimits } from './limits.ts'

/** A file without content takes no space of the disk, but one of the file system's files. */
const flood = `$| = 1; print "started\\n"; my $n = 0; for my $d (1 .. 400) { mkdir "d$d"; for my $f (1 .. 250) { open my $x, ">", "d$d/$f" or do { print "refused after $n\\n"; exit }; $n++ } select undef, undef, undef, 0.02 } print "made $n\\n"; sleep 60; print "KEPT\\n"`
const filesMax = 16 * 2 ** 10

export const inodes: Attack = {
  name: 'exhaust inodes',
  promise: 'A cell cannot use up the files of the disk with files that are empty',
  guard: 'the watcher of the disk counts files as well, one for each 4 KiB of the limit',
  async *run(on) {
    const under = await on.cell({ limits: smallLimits })
    const ended = new Promise<string>((resolve) => {
      const timer = setTimeout(() => {
        void under[Symbol.asyncDispose]()
        resolve('the cell went on')
      }, on.patienceMs)
      void under.cell.ended.then((reason) => {
        clearTimeout(timer)
        resolve(reason)
      })
    })
    const [{ lines }, reason] = await Promise.all([under.perl(flood), ended])
    const stopped = lines.some((line) => line.startsWith('refused')) || /grew by \d+ files, and the limit is \d+$/.test(reason)
    yield judge(
      `empty files in the workspace stop near ${filesMax}`,
      { first: lines[0], kept: lines.includes('KEPT'), reason: stopped ? 'stopped' : reason },
      { first: 'started', kept: false, reason: 'stopped' },
    )
  },
}
