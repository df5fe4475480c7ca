import { text } from 'node:stream/consumers'
import { type Attack, judge } from './attack.ts'

/** Writes until nobody takes any more for a second, and tells on the other stream how much was taken. */
const flood = `
  use Fcntl; fcntl STDOUT, F_SETFL, fcntl(STDOUT, F_GETFL, 0) | O_NONBLOCK;
  my ($taken, $waits, $chunk) = (0, 0, "x" x 65536);
  while ($taken < (256 << 20) && $waits < 50) {
    my $n = syswrite STDOUT, $chunk;
    if (defined $n) { $taken += $n; $waits = 0 } else { $waits++; select undef, undef, undef, 0.02 }
  }
  print STDERR $taken < (16 << 20) ? "refused" : "TAKEN $taken"`

export const output: Attack = {
  name: 'flood the log',
  promise: 'Output that nobody reads is not hoarded: the writer waits, and other processes of the cell go on',
  guard: 'pipes, and streams with a bounded window, from end to end',
  async *run(on) {
    const under = await on.cell()
    const before = process.memoryUsage().rss
    const writer = under.cell.spawn(['perl', '-e', flood], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    writer.stdin.end()
    const [said, { lines }] = await Promise.all([text(writer.stderr), under.sh('echo lives')])
    const grewBytes = process.memoryUsage().rss - before
    yield judge('256 MiB that nobody reads', said, 'refused')
    yield judge('another process meanwhile', lines, ['lives'])
    yield judge('the memory of the keeper', grewBytes < 128 * 2 ** 20 ? 'stays' : `grew by ${grewBytes} bytes`, 'stays')
  },
}
