/** Makes each call given as `name,number,argument…`, and says how each was answered: refused by a filter, which says EPERM, ENOSYS
 *  or that it knows no such family, type or protocol, done, or answered by the kernel with another error, so that nothing stood before it. */
export const makeCalls = `
  $| = 1;
  my %refusals = (1 => 1, 38 => 1, 93 => 1, 94 => 1, 97 => 1);
  for (@ARGV) {
    my ($name, $number, @arguments) = split /,/;
    my $answer = syscall($number + 0, map { $_ + 0 } @arguments);
    printf "%s: %s\\n", $name, $answer != -1 ? "done" : $refusals{$! + 0} ? "refused" : "answered " . ($! + 0);
  }`

/** What `makeCalls` says of these calls when all of them are refused. */
export const allRefused = (calls: readonly string[]) => calls.map((call) => `${call.split(',')[0]}: refused`)

const unified = {
  ...{ io_uring_setup: 425, io_uring_enter: 426, io_uring_register: 427, open_tree: 428, move_mount: 429, fsopen: 430 },
  ...{ fsconfig: 431, fsmount: 432, fspick: 433, clone3: 435, pidfd_getfd: 438, mount_setattr: 442, open_tree_attr: 467 },
}

/** Numbers of this machine's architecture, written down independently of the filters that are under attack. */
export const numberOf: Readonly<Record<CallName, number>> = process.arch === 'x64' ? x64() : arm64()

export type CallName = keyof ReturnType<typeof arm64>

function x64() {
  return {
    ...{ mmap: 9, exit: 60, memfd_create: 319, sendmsg: 46 },
    ...{ ioctl: 16, socket: 41, socketpair: 53, clone: 56, ptrace: 101, syslog: 103, mknodat: 259, pivot_root: 155, chroot: 161 },
    ...{ acct: 163, settimeofday: 164, mount: 165, umount2: 166, swapon: 167, reboot: 169, sethostname: 170, init_module: 175 },
    ...{ quotactl: 179, kexec_load: 246, add_key: 248, request_key: 249, keyctl: 250, unshare: 272, perf_event_open: 298 },
    ...{ fanotify_init: 300, name_to_handle_at: 303, open_by_handle_at: 304, setns: 308, process_vm_readv: 310 },
    ...{ process_vm_writev: 311, finit_module: 313, bpf: 321, userfaultfd: 323, ...unified },
  }
}

function arm64() {
  return {
    ...{ mmap: 222, exit: 93, memfd_create: 279, sendmsg: 211 },
    ...{ ioctl: 29, mknodat: 33, umount2: 39, mount: 40, pivot_root: 41, chroot: 51, quotactl: 60, acct: 89, unshare: 97 },
    ...{ kexec_load: 104, init_module: 105, syslog: 116, ptrace: 117, reboot: 142, sethostname: 161, settimeofday: 170 },
    ...{ socket: 198, socketpair: 199, add_key: 217, request_key: 218, keyctl: 219, clone: 220, swapon: 224 },
    ...{ perf_event_open: 241, fanotify_init: 262, name_to_handle_at: 264, open_by_handle_at: 265, setns: 268 },
    ...{ process_vm_readv: 270, process_vm_writev: 271, finit_module: 273, bpf: 280, userfaultfd: 282, ...unified },
  }
}
