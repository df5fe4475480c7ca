import { type Attack, judge } from './attack.ts'

const canary = 'canary-5c1f0c7e-launcher'
const variable = 'ANCHORHOLD_CANARY'

export const environment: Attack = {
  name: 'read the keeper’s environment',
  promise: 'Nothing of the environment that the keeper was started with is in a process inside, or in its memory',
  guard: 'whatever makes the cell is itself started with an empty environment',
  async *run(on) {
    process.env[variable] = canary
    try {
      const under = await on.cell()
      // The pattern is not written out, or grep would find itself.
      const { lines } = await under.sh(
        `cd /proc && printf '%s\\n' [0-9]*/environ | wc -l && { grep -al "canary-5c1f0c7e[-]launcher" [0-9]*/environ [0-9]*/cmdline [0-9]*/status 2>/dev/null || echo refused; }`,
      )
      const [count, ...found] = lines
      yield judge(
        'no environ, command line or status of any process has it',
        { looked: Number(count) >= 2, found },
        { looked: true, found: ['refused'] },
      )

      const { lines: first } = await under.sh(
        `cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' | grep -c "${variable}"; echo read`,
      )
      yield judge('the first process has no variable of the keeper’s', first, ['0', 'read'])

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
      const { lines: memory } = await under.perl(search, Array.from(canary).toReversed().join(''))
      yield judge('it is not in the memory of a process inside', memory, ['searched', 'refused'])
    } finally {
      delete process.env[variable]
    }
  },
}
