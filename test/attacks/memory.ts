import { type Attack, judge, notApplicable } from './attack.ts'
import { numberOf } from './calls.ts'
import { smallLimits } from './limits.ts'

const hog = `$| = 1; print "started\\n"; my @all; for (1 .. 8192) { push @all, chr(65 + $_ % 26) x (1 << 20); } print "GOT 8 GiB\\n"`
const spread = `$| = 1; print "started\\n"; for (1 .. 16) { fork or do { my $m = "x" x (64 << 20); sleep 30; print "KEPT\\n"; exit } } while (wait > 0) { if ($? == 9) { print "refused\\n"; kill 9, -1; exit } }`

/** Each takes far more than the limit, where the memory of no process shows it; a watcher may be late by a moment. */
const aside: Readonly<Record<string, string>> = {
  'in files without a name that nobody maps': `my $name = "x"; my @all; for (1 .. 32) { my $fd = syscall(${numberOf.memfd_create}, $name, 0); open my $f, ">&=", $fd or die "no memfd"; syswrite $f, "x" x (32 << 20); push @all, $f; select undef, undef, undef, 0.05 }`,
  'in a process whose first thread has ended': `eval { require threads } or do { print "no threads\\n"; exit }; threads->create(sub { my @all; for (1 .. 1024) { push @all, chr(65 + $_ % 26) x (1 << 20); select undef, undef, undef, 0.001 } sleep 20; print "KEPT\\n"; syscall(${numberOf.exit}, 0) })->detach; syscall(${numberOf.exit}, 0);`,
  'in page tables': `my $at = syscall(${numberOf.mmap}, 0, 1 << 39, 1, 0x4022, -1, 0); for my $i (0 .. 262143) { my $read = unpack "P1", pack "J", $at + ($i << 21); select undef, undef, undef, 0.02 if $i % 4096 == 0 }`,
}

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

      for (const [way, script] of Object.entries(aside)) {
        const cell = await on.cell({ limits: smallLimits }, hold)
        const { lines, code } = await cell.perl(`$| = 1; print "started\\n"; ${script} sleep 20; print "KEPT\\n"`)
        yield lines.includes('no threads')
          ? notApplicable(way, 'the perl of this cell has no threads')
          : judge(`${way}, with ${hold}`, { lines, code }, { lines: ['started'], code: 137 })
        await cell[Symbol.asyncDispose]()
      }
    }
  },
}
