import { type Attack, judge, notApplicable } from './attack.ts'
import { smallLimits } from './limits.ts'

const bomb = `
  my @children;
  while (@children < 5000) {
    my $pid = fork;
    if (!defined $pid) { printf "refused after %d\\n", scalar @children; last }
    if ($pid == 0) { sleep 1000; exit }
    push @children, $pid;
  }
  print "NOT REFUSED\\n" if @children >= 5000;
  kill 9, @children; 1 while wait > 0`

/** What a rung may need for itself on top, where the kernel counts that as well: an engine's processes, a sentry's threads, and what
 *  the same user has run besides that has ended since. */
const ownMax = { host: 128, own: 1024 } as const

export const forkBomb: Attack = {
  name: 'exhaust processes',
  promise: 'A fork bomb stops at the limit, and the cell itself is none the worse for it',
  guard: 'a control group where root could hand one over, a resource limit otherwise',
  async *run(on) {
    for (const hold of on.holds) {
      const processesMax = on.kernel === 'own' ? 200 : 40
      const under = await on.cell({ limits: { ...smallLimits, processesMax } }, hold)
      const limit = under.limit('processes')
      if (limit.enforcement === 'not enforced') {
        yield judge(`the limit holds, with ${hold}`, limit.how, 'it does')
        continue
      }
      const { lines } = await under.perl(bomb)
      const forks = Number(/^refused after (\d+)$/.exec(lines[0] ?? '')?.[1])
      // Where the limit takes the kernel between along, that is the end of the cell, and so of the bomb.
      const isOver = () =>
        under.sh('true').then(
          () => false,
          () => true,
        )
      const inForce = Number(limit.value)
      // The limit itself may be higher: where the kernel counts all that a user runs, that is added to it.
      const bounded =
        (forks > 5 && forks <= inForce && forks <= processesMax + ownMax[on.kernel]) ||
        (on.rung === 'gvisor' && lines.length === 0 && (await isOver()))
      yield judge(`it stops at the limit, with ${hold}`, bounded ? 'refused' : { lines, limit: limit.value }, 'refused')
      const after = await under.sh('echo lives').catch((error: Error) => ({ lines: [error.message] }))
      if (on.rung === 'gvisor' && after.lines[0] !== 'lives')
        yield notApplicable(`the cell lives on, with ${hold}`, 'the limit counts the sentry’s own threads, and takes it along')
      else yield judge(`the cell lives on, with ${hold}`, after.lines, ['lives'])
      await under[Symbol.asyncDispose]()
    }
  },
}
