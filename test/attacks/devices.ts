import { type Attack, judge, judgeByKernel, notApplicable } from './attack.ts'
import { numberOf } from './calls.ts'

const harmless = [
  ...[
    '/dev/full',
    '/dev/null',
    '/dev/ptmx',
    '/dev/pts/ptmx',
    '/dev/random',
    '/dev/tty',
    '/dev/urandom',
    '/dev/zero',
    '/dev/console',
  ],
]

export const devices: Attack = {
  name: 'use a device',
  promise: 'There is no device but the harmless ones, and none can be made',
  guard: 'a /dev of the cell’s own, mounts without devices, and no capability',
  async *run(on) {
    const under = await on.cell()
    // Asked of each by itself: a node that is bound over a file is listed as the file.
    const { lines } = await under.sh(`
      find /usr \\( -type b -o -type c \\) 2>/dev/null
      find / -path /proc -prune -o -path /usr -prune -o -path /sys -prune -o ! -type l -print 2>/dev/null | while read -r path; do [ ! -b "$path" ] && [ ! -c "$path" ] || echo "$path"; done`)
    const others = lines.filter((path) => !harmless.includes(path) && !/^\/dev\/pts\/\d+$/.test(path))
    const isThere = String(lines.includes('/dev/null'))
    // With a kernel of its own, a device is a part of that one, and nothing of the host's is behind it.
    if (on.kernel === 'own' && others.length > 0)
      yield notApplicable(
        'only the harmless ones are there',
        `the cell has a kernel of its own, which shows ${others.join(', ')}`,
      )
    else yield judge('only the harmless ones are there', [isThere, ...others], ['true'])

    const targets = [
      [`${under.workspace}/vda`, 0o060666, 65024],
      ['/tmp/mem', 0o020666, 257],
      ['/dev/shm/kvm', 0o020666, 2792],
    ]
    const make = `for (${targets.map(([path, mode, device]) => `["${path}", ${mode}, ${device}]`).join(', ')}) {
      my ($path, $mode, $device) = @$_;
      my $made = syscall(${numberOf.mknodat}, -100, $path, $mode, $device) != -1;
      print !$made ? "refused\\n" : open(my $f, "<", $path) ? "OPENED\\n" : "MADE\\n" }`
    const { lines: made } = await under.perl(make)
    yield judge('none can be made in the workspace', made.slice(0, 1), ['refused'])
    yield judgeByKernel(on, 'none can be made in scratch space', made.slice(1), ['refused', 'refused'])
  },
}
