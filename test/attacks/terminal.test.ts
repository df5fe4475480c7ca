import { expect, test } from 'vitest'
import { attack, cellUnderAttack, EPERM, numberOf } from './cell-under-attack.ts'

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
    print $answer == -1 ? "refused " . ($! + 0) : "TYPED", "\\n";
  }`

attack('typing into the terminal of the keeper', (driver) => {
  test('TIOCSTI and TIOCLINUX are refused, whatever the unused half of the number', async () => {
    await using under = await cellUnderAttack(driver)
    const numbers = [0x5412, 0x541c].flatMap((number) => [number, number + 0x1_0000_0000, number + 0x7fff_0000_0000])
    const { lines } = await under.perl(onTerminal, ...numbers.map(String))
    expect(lines).toEqual(numbers.map(() => `refused ${EPERM}`))
  })

  test('there is no terminal to type into', async () => {
    await using under = await cellUnderAttack(driver)
    expect((await under.perl('print open(my $t, "+<", "/dev/tty") ? "OPENED" : "refused"')).lines).toEqual(['refused'])
  })
})
