import { ownerMark } from '@anchorhold/link/owner'
import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Attack, judge, notApplicable } from './attack.ts'

/** Every way to make a file that lends its owner's rights to whoever runs it. Says each that was. */
const lending = (at: string) => `
  my %calls = (x86_64 => [[90, 1], [268, 2], [257, 3], [2, 2], [85, 1], [259, 2], [452, 2]], aarch64 => [[53, 2], [56, 3], [33, 2], [452, 2]]);
  use POSIX (); umask 0; my $name = "${at}/lent"; my $made = 0;
  for my $mode (04755, 02755, 06755) { for my $call (@{$calls{(POSIX::uname())[4]} // []}) {
    my ($number, $index) = @$call; unlink $name;
    unless ($number =~ /^(257|2|85|259|56|33)$/) { open my $f, ">", $name or next; $made++ }
    my @before = $index == 1 ? ($name) : $number == 2 ? ($name, 0x41) : $number =~ /^(257|56)$/ ? (-100, $name, 0x41) : (-100, $name);
    my $type = $number =~ /^(259|33)$/ ? 0100000 : 0;
    syscall($number, @before, $mode | $type, 0);
    printf "LENT by %d: %o\n", $number, (stat $name)[2] & 06000 if -e $name && (stat $name)[2] & 06000
  } }
  print $made > 0 ? "tried\n" : "nothing\n"`

export const setuid: Attack = {
  name: 'use a setuid program',
  promise: 'A program that changes its user gives nothing, and a process cannot become another user',
  guard: 'no new privileges, no capability, and mounts that ignore the bit',
  async *run(on) {
    const folder = await mkdtemp(join(tmpdir(), `ah-attack-${ownerMark()}-`))
    try {
      await chmod(folder, 0o755)
      await copyFile('/usr/bin/id', join(folder, 'id'))
      await chmod(join(folder, 'id'), 0o6755)
      const under = await on.cell({ mounts: [{ source: folder, target: '/opt/setuid' }] })
      const { lines: posture } = await under.sh(
        `grep -h NoNewPrivs /proc/self/status | tr -d '\\t'; cut -d' ' -f5,6 /proc/self/mountinfo | grep -v nosuid`,
      )
      if (on.kernel === 'own') {
        yield notApplicable('no mount honours the bit', 'the mounts inside are those of the cell’s own kernel')
      } else {
        // Either is enough by itself, and the first of them holds wherever a mount came from.
        yield judge('new privileges are refused, whatever a mount says', posture[0], 'NoNewPrivs:1')
        if (on.rung === 'bwrap') yield judge('no mount honours the bit', posture, ['NoNewPrivs:1'])
      }

      if (process.getuid?.() === 0) {
        const { lines } = await under.sh('id -u; id -g; /opt/setuid/id -u; /opt/setuid/id -g')
        const [uid = '', gid = ''] = lines
        yield judge('one that belongs to root', lines, [uid, gid, uid, gid])
      } else yield notApplicable('one that belongs to root', 'only root can put one there')

      // Where the cell's one user is called root inside, it stays nobody outside and has nobody else to become.
      const { lines } = await under.perl(
        'my $own = $>; for my $uid (grep { $_ != $own } 0, 1, 65534, 1000) { $! = 0; $> = $uid; print $> == $uid ? "BECAME $uid\\n" : "refused\\n" }',
      )
      yield judge('another user', [...new Set(lines)], ['refused'])

      const { lines: lent } = await under.perl(lending(under.workspace))
      yield judge('none is made in a folder of the host’s', lent, ['tried'])
    } finally {
      await rm(folder, { recursive: true })
    }
  },
}
