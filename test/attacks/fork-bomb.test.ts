import { expect, test } from 'vitest'
import { attack, cellUnderAttack, cgroupsFor, holds, smallLimits } from './cell-under-attack.ts'

const bomb = `
  my $forks = 0;
  while ($forks < 5000) {
    my $pid = fork;
    if (!defined $pid) { print "refused after $forks\\n"; last }
    if ($pid == 0) { sleep 1000; exit }
    $forks++;
  }
  print "NOT REFUSED\\n" if $forks >= 5000;
  kill 9, -1`

attack('a fork bomb', (driver) => {
  test.each(holds)('is stopped at the limit, with %s', async (hold) => {
    using held = cgroupsFor(hold)
    await using under = await cellUnderAttack(driver, { limits: { ...smallLimits, processesMax: 40 }, cgroups: held.cgroups })
    const limit = under.cell.limits.find(({ name }) => name === 'processes')
    expect(limit?.enforcement).toBe('enforced')
    const { lines } = await under.perl(bomb)
    const forks = Number(/^refused after (\d+)$/.exec(lines[0] ?? '')?.[1])
    expect(forks).toBeGreaterThan(5)
    expect(forks).toBeLessThanOrEqual(Number(limit?.value))
    // The cell itself is none the worse for it.
    expect((await under.sh('echo lives')).lines).toEqual(['lives'])
  })
})
