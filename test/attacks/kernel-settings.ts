import { readdirSync, readFileSync } from 'node:fs'
import { type Attack, judge, judgeByKernel } from './attack.ts'

const settings = [
  'kernel/core_pattern',
  'kernel/hostname',
  'vm/overcommit_memory',
  'net/ipv4/ip_forward',
  'user/max_user_namespaces',
]

export const kernelSettings: Attack = {
  name: 'change kernel settings',
  promise: 'No setting of the host’s kernel can be changed (core_pattern, sysctl, sysrq), and its log and memory cannot be read',
  guard: '/proc/sys and its like are read-only or covered, and the cell’s user is not root',
  async *run(on) {
    const under = await on.cell()
    const before = readFileSync('/proc/sys/kernel/core_pattern', 'utf8')
    const write =
      'for (@ARGV) { print !-e "/proc/sys/$_" ? "refused" : open(my $f, "+<", "/proc/sys/$_") ? "OPENED $_" : "refused", "\\n" }'
    const { lines } = await under.perl(write, ...settings)
    yield judgeByKernel(
      on,
      'settings that lead to the host',
      lines,
      settings.map(() => 'refused'),
    )

    const { lines: every } = await under.perl(`
      my ($tried, @opened) = (0);
      my @folders = ("/proc/sys");
      while (my $folder = shift @folders) {
        opendir my $d, $folder or next;
        for my $name (readdir $d) {
          next if $name =~ /^\\.\\.?$/;
          my $path = "$folder/$name";
          if (-d $path) { push @folders, $path } else { $tried++; open(my $f, ">>", $path) and push @opened, $path }
        }
      }
      print $tried > ${on.kernel === 'host' ? 300 : 5} ? "tried many" : "tried $tried", "\\n", @opened ? "OPENED @opened" : "refused", "\\n"`)
    yield judgeByKernel(on, 'any file of /proc/sys', every, ['tried many', 'refused'])

    const names = ['sysrq-trigger', 'kcore', 'kmsg', 'keys', 'timer_list']
    // An engine hides a file behind the null device.
    const open = `for (@ARGV) { my $p = "/proc/$_"; print !-e $p || (-c $p && (stat $p)[6] == 0x103) || !(open(my $r, "<", $p) && sysread($r, my $b, 1)) && !open(my $w, ">", $p) ? "refused" : "OPENED $_", "\\n" }`
    const { lines: files } = await under.perl(open, ...names)
    yield judgeByKernel(
      on,
      'files of /proc that tell of the kernel or command it',
      files,
      names.map(() => 'refused'),
    )
    const { lines: log } = await under.sh('dmesg 2>/dev/null | head -n 3; echo refused')
    yield judgeByKernel(on, 'the log of the kernel', [String(log.length), log.at(-1) ?? ''], ['1', 'refused'])

    // A core that is handed to a program of the host's is that program's input; one in the workspace fills the disk.
    const { code } = await under.sh('kill -SEGV $$')
    const left = readdirSync(under.spec.workspace).filter((name) => name.startsWith('core'))
    const after = readFileSync('/proc/sys/kernel/core_pattern', 'utf8')
    yield judge('a crash leaves no core', { code, left, kept: before === after }, { code: 139, left: [], kept: true })
  },
}
