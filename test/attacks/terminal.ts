import { type Attack, judge, judgeByKernel, notApplicable } from './attack.ts'
import { numberOf } from './calls.ts'

/** Opens a terminal of its own and makes it the controlling one: only then would the kernel take what is typed into it. */
const onTerminal = `
  use POSIX ();
  $| = 1;
  fork and do { wait; exit };
  POSIX::setsid();
  open my $master, "+<", "/dev/ptmx" or die "no ptmx: $!";
  my $unlocked = pack "i", 0; ioctl $master, 0x40045431, $unlocked or die "not unlocked: $!";
  my $n = pack "i", 0; ioctl $master, 0x80045430, $n or die "no number: $!";
  open my $slave, "+<", "/dev/pts/" . unpack("i", $n) or die "no slave: $!";
  ioctl $slave, 0x540e, 0 or die "not controlling: $!";
  my $byte = "x";
  for (@ARGV) {
    my $answer = syscall(${numberOf.ioctl}, fileno $slave, $_ + 0, $byte);
    print $answer == -1 && $! + 0 == 1 ? "refused" : $answer == -1 ? "answered " . ($! + 0) : "TYPED", "\\n";
  }`

export const terminal: Attack = {
  name: 'type into your terminal',
  promise: 'Nothing inside can push characters into the terminal that the keeper was started from',
  guard: 'a seccomp filter on TIOCSTI and TIOCLINUX, and a session without a terminal',
  async *run(on) {
    const under = await on.cell()
    const numbers = [0x5412, 0x541c].flatMap((number) => [number, number + 0x1_0000_0000, number + 0x7fff_0000_0000])
    const { lines } = await under.perl(onTerminal, ...numbers.map(String))
    const check = 'TIOCSTI and TIOCLINUX, whatever the unused half of the number'
    const [first = ''] = lines
    if (on.kernel === 'own' && first.startsWith('not controlling'))
      yield notApplicable(check, `the cell has a kernel of its own, which gives it no terminal: ${first}`)
    else
      yield judgeByKernel(
        on,
        check,
        lines,
        numbers.map(() => 'refused'),
      )
    const { lines: own } = await under.perl('print open(my $t, "+<", "/dev/tty") ? "OPENED" : "refused"')
    yield judge('there is no terminal to type into', own, ['refused'])
  },
}
