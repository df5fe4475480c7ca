import { type Attack, judge, judgeByKernel } from './attack.ts'
import { allRefused, makeCalls, numberOf } from './calls.ts'

const names = [
  ...(['mount', 'umount2', 'pivot_root', 'chroot', 'fsopen', 'fsconfig', 'fsmount', 'fspick'] as const),
  ...(['open_tree', 'move_mount', 'mount_setattr', 'open_tree_attr'] as const),
]

export const mounts: Attack = {
  name: 'mount or chroot',
  promise: 'A process can neither mount, unmount nor change its root',
  guard: 'no capability, and a seccomp filter that refuses the calls, those younger than the filter included',
  async *run(on) {
    const under = await on.cell()
    const calls = names.map((name) => `${name},${numberOf[name]},0,0,0,0,0`)
    const { lines } = await under.perl(makeCalls, ...calls)
    yield judgeByKernel(on, 'every call is refused', lines, allRefused(calls))
    const { lines: commands } = await under.sh(`
      mount -t tmpfs none /tmp 2>/dev/null && echo DONE || echo refused
      mount --bind / /tmp 2>/dev/null && echo DONE || echo refused
      umount /proc/sys 2>/dev/null && echo DONE || echo refused
      umount -l /usr 2>/dev/null && echo DONE || echo refused
      /usr/sbin/chroot / true 2>/dev/null && echo DONE || echo refused`)
    yield judge('every command is refused', commands, Array(5).fill('refused'))
  },
}
