import { type Attack, judge } from './attack.ts'

/** Connects to every socket that there is, says what no protocol knows, and listens for an answer. */
const garbage = `
  use Socket; use IO::Select;
  my @paths = grep { -S $_ } split /\\n/, \`find / -type s -not -path '/proc/*' 2>/dev/null\`;
  for my $path (@paths) {
    for my $words ("\\0" x 4096, "\\xff" x 65536, "GET / HTTP/1.1\\r\\n\\r\\n", pack("NCN", 1, 1, 0xffffffff) . "x" x 1000, "{" x 10000) {
      $SIG{PIPE} = "IGNORE"; $SIG{ALRM} = sub { die }; eval { alarm 3;
        socket(my $s, AF_UNIX, SOCK_STREAM, 0); connect($s, pack_sockaddr_un($path)) or die; syswrite $s, $words; shutdown $s, 1; sysread $s, my $b, 100; alarm 0 };
    }
  }
  printf "tried %d\\n", scalar @paths`

export const insideProgram: Attack = {
  name: 'kill or impersonate the program inside',
  promise: 'Whoever kills what works for the keeper inside, or speaks in its place, ends its own cell at most',
  guard: 'what comes out of a cell is bounded and parsed, and its end is the cell’s end',
  async *run(on) {
    const neighbour = await on.cell()
    const working = neighbour.cell.spawn(['sleep', '1000'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })

    const talker = await on.cell()
    const { lines: talked } = await talker.perl(garbage).catch((error: Error) => ({ lines: [error.message] }))
    yield judge('garbage on every socket there is', { answered: talked.length > 0 }, { answered: true })
    await talker[Symbol.asyncDispose]()

    const killer = await on.cell()
    const { lines } = await killer.sh('echo started')
    await killer.sh('for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -9 $p 2>/dev/null; done; kill -9 -1')
    yield judge('kill -9 of everything', lines[0], 'started')
    await killer[Symbol.asyncDispose]()

    // On both of its streams, which may be what the keeper reads frames from.
    const forger = await on.cell()
    const { lines: forged } = await forger
      .perl(
        `for my $pid (grep { /^\\d+$/ && $_ != $$ } map { s{/proc/}{}r } glob "/proc/[0-9]*") {
          for my $fd (glob "/proc/$pid/fd/*") { $SIG{ALRM} = sub { die }; eval { alarm 1; open(my $f, ">", $fd) or die; syswrite $f, "\\xff" x 100000; alarm 0 } }
        } print "refused\\n"`,
      )
      .catch((error: Error) => ({ lines: [error.message] }))
    // Or the cell has ended by it, as it must when the program inside does.
    const isOver = () =>
      forger.sh('true').then(
        () => false,
        () => true,
      )
    yield judge(
      'garbage into every open file of every process',
      { answered: forged.length > 0 || (await isOver()) },
      { answered: true },
    )
    await forger[Symbol.asyncDispose]()

    const { lines: lives } = await neighbour.sh('echo lives')
    yield judge('a neighbour goes on', { lives, exitCode: working.exitCode }, { lives: ['lives'], exitCode: null })
  },
}
