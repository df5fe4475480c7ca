import { afterAll, beforeAll, expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

const canary = 'canary-5c1f0c7e-launcher'

attack("the launcher's environment", (driver) => {
  beforeAll(() => {
    process.env.ANCHORHOLD_CANARY = canary
  })
  afterAll(() => {
    delete process.env.ANCHORHOLD_CANARY
  })

  test('is in no environ, command line or status of any process', async () => {
    await using under = await cellUnderAttack(driver)
    // The pattern is not written out, or grep would find itself.
    const { lines } = await under.sh(
      `cd /proc && ls -d [0-9]*/environ | wc -l && { grep -al "canary-5c1f0c7e[-]launcher" [0-9]*/environ [0-9]*/cmdline [0-9]*/status || echo refused; }`,
    )
    expect(Number(lines[0])).toBeGreaterThanOrEqual(2)
    expect(lines.slice(1).filter((line) => !line.includes('No such file'))).toEqual(['refused'])
  })

  test('leaves /proc/1/environ empty', async () => {
    await using under = await cellUnderAttack(driver)
    expect((await under.sh('wc -c < /proc/1/environ')).lines).toEqual(['0'])
  })

  test('is not in the memory of a process inside', async () => {
    await using under = await cellUnderAttack(driver)
    // Searched for backwards, so that the search does not find itself.
    const search = `
      open my $maps, "<", "/proc/self/maps"; open my $mem, "<", "/proc/self/mem" or die "no mem: $!";
      my ($bytes, $found) = (0, 0);
      while (<$maps>) {
        next unless /^([0-9a-f]+)-([0-9a-f]+) rw/;
        sysseek $mem, hex $1, 0; sysread $mem, my $part, hex($2) - hex($1) or next;
        $bytes += length $part;
        $found++ if index(scalar reverse($part), $ARGV[0]) >= 0;
      }
      print $bytes > 100000 ? "searched" : "NOT SEARCHED", "\\n", $found > 0 ? "FOUND" : "refused", "\\n"`
    expect((await under.perl(search, Array.from(canary).toReversed().join(''))).lines).toEqual(['searched', 'refused'])
  })
})
