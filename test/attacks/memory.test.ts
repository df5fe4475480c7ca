import { expect, test } from 'vitest'
import { attack, cellUnderAttack, cgroupsFor, holds, smallLimits } from './cell-under-attack.ts'

const hog = `$| = 1; print "started\\n"; my @all; for (1 .. 8192) { push @all, chr(65 + $_ % 26) x (1 << 20); } print "GOT 8 GiB\\n"`

attack('taking all memory', (driver) => {
  test.each(holds)('ends the process or the cell, with %s', async (hold) => {
    using held = cgroupsFor(hold)
    await using under = await cellUnderAttack(driver, { limits: smallLimits, cgroups: held.cgroups })
    const { lines, code } = await under.perl(hog)
    expect(lines[0]).toBe('started')
    expect(lines).not.toContain('GOT 8 GiB')
    expect(code).toBe(137)
    const limit = under.cell.limits.find(({ name }) => name === 'memory')
    expect(limit?.enforcement).toBe(hold === 'control groups' ? 'enforced' : 'watched')
    if (limit?.enforcement === 'watched')
      expect(await under.cell.ended).toMatch(/^The cell was ended: its processes held .* of memory, and the limit is 256 MiB$/)
  })

  test.each(holds)('spread over many processes ends them as well, with %s', async (hold) => {
    using held = cgroupsFor(hold)
    await using under = await cellUnderAttack(driver, { limits: smallLimits, cgroups: held.cgroups })
    const spread = `$| = 1; print "started\\n"; for (1 .. 16) { fork or do { my $m = "x" x (64 << 20); sleep 30; print "KEPT\\n"; exit } } while (wait > 0) { if ($? == 9) { print "refused\\n"; kill 9, -1; exit } }`
    const { lines } = await under.perl(spread)
    expect(lines[0]).toBe('started')
    expect(lines).not.toContain('KEPT')
  })
})
