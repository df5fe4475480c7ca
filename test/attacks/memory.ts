import { type Attack, judge } from './attack.ts'
import { smallLimits } from './limits.ts'

const hog = `$| = 1; print "started\\n"; my @all; for (1 .. 8192) { push @all, chr(65 + $_ % 26) x (1 << 20); } print "GOT 8 GiB\\n"`
const spread = `$| = 1; print "started\\n"; for (1 .. 16) { fork or do { my $m = "x" x (64 << 20); sleep 30; print "KEPT\\n"; exit } } while (wait > 0) { if ($? == 9) { print "refused\\n"; kill 9, -1; exit } }`

export const memory: Attack = {
  name: 'exhaust memory',
  promise: 'A cell gets no more memory than its limit, in one process or in many',
  guard: 'a control group where root could hand one over, a watcher that ends the cell otherwise, or a machine of that size',
  async *run(on) {
    for (const hold of on.holds) {
      const under = await on.cell({ limits: smallLimits }, hold)
      const limit = under.limit('memory')
      yield judge(`the limit holds, with ${hold}`, limit.enforcement === 'not enforced' ? limit.how : 'it does', 'it does')
      const { lines, code } = await under.perl(hog)
      const answered = { first: lines[0], got: lines.includes('GOT 8 GiB'), survived: code === 0 }
      yield judge(`one process, with ${hold}`, answered, { first: 'started', got: false, survived: false })
      await under[Symbol.asyncDispose]()

      const many = await on.cell({ limits: smallLimits }, hold)
      const { lines: kept } = await many.perl(spread)
      const result = { first: kept[0], kept: kept.filter((line) => line === 'KEPT').length >= 4 }
      yield judge(`many processes, with ${hold}`, result, { first: 'started', kept: false })
      await many[Symbol.asyncDispose]()
    }
  },
}
