import { expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

attack('settings of the host kernel', (driver) => {
  test.each([
    'kernel/core_pattern',
    'kernel/hostname',
    'vm/overcommit_memory',
    'net/ipv4/ip_forward',
    'user/max_user_namespaces',
  ])('cannot write /proc/sys/%s', async (name) => {
    await using under = await cellUnderAttack(driver)
    const write = 'my $p = "/proc/sys/$ARGV[0]"; -e $p or die "not there"; print open(my $f, "+<", $p) ? "OPENED" : "refused"'
    expect((await under.perl(write, name)).lines).toEqual(['refused'])
  })

  test('cannot open any file of /proc/sys for writing', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.perl(`
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
      print $tried > 300 ? "tried many" : "tried $tried", "\\n", @opened ? "OPENED @opened" : "refused", "\\n"`)
    expect(lines).toEqual(['tried many', 'refused'])
  })

  test.each(['sysrq-trigger', 'kcore', 'kmsg', 'keys', 'timer_list'])('cannot open /proc/%s', async (name) => {
    await using under = await cellUnderAttack(driver)
    const open =
      'my $p = "/proc/$ARGV[0]"; print !-e $p || !(open(my $r, "<", $p) && sysread($r, my $b, 1)) && !open(my $w, ">", $p) ? "refused" : "OPENED"'
    expect((await under.perl(open, name)).lines).toEqual(['refused'])
  })

  test('cannot read the log of the kernel', async () => {
    await using under = await cellUnderAttack(driver)
    expect((await under.sh('dmesg >/dev/null 2>&1 && echo READ || echo refused')).lines).toEqual(['refused'])
  })
})
