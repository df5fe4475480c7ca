import {
  allowedPersonalities,
  allowedSockets,
  EAFNOSUPPORT,
  ENOSYS,
  EOPNOTSUPP,
  EPERM,
  EPROTONOSUPPORT,
  ESOCKTNOSUPPORT,
  freeingModes,
  makingFlags,
  modeCalls,
  newNamespaceFlags,
  openCalls,
  refused,
  refusedIoctls,
  refusedModeBits,
  type SeccompArch,
  socketCalls,
  socketTypeMask,
  unanswered,
} from '../seccomp.ts'
import type { Extras } from '@anchorhold/protocol/sessions'

/** The filter of `seccomp.ts` as an engine takes it (OCI runtime specification, linux.seccomp): the same calls are refused in the
 *  same words. An engine's rules can only name what they know, so what is not named is answered as by an older kernel. */
export function seccompProfile(arch: SeccompArch, { sudo, nested }: Pick<Extras, 'sudo' | 'nested'>): SeccompProfile {
  // Whoever is root inside unpacks packages and images, which have such programs; folders of the host's show them as another user's.
  const modeBits = sudo || nested ? 0 : refusedModeBits
  const opened = nested ? neededByEngines : []
  const only32 = (index: number, value: number) => [masked(index, 0xffffffff, value)]
  const among = (name: string, index: number, values: readonly number[], action: Action, otherwise: Action): Rule[] => [
    ...values.map((value) => ({ names: [name], ...action, args: only32(index, value) })),
    ...complement(values).map(({ mask, value }) => ({ names: [name], ...otherwise, args: [masked(index, mask, value)] })),
  ]
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    // None but the native one: a call made as another architecture's kills.
    architectures: [architectures[arch]],
    syscalls: [
      { names: [...allowed, ...opened], ...allow },
      { names: refused.filter((name) => !opened.includes(name)), ...errno(EPERM) },
      { names: ['clone3', ...unanswered], ...errno(ENOSYS) },
      ...(nested
        ? [{ names: ['clone'], ...allow }]
        : [
            { names: ['clone'], ...allow, args: [masked(0, newNamespaceFlags, 0)] },
            ...bitsOf(newNamespaceFlags).map((bit) => ({ names: ['clone'], ...errno(EPERM), args: [masked(0, bit, bit)] })),
          ]),
      ...among('ioctl', 1, refusedIoctls, errno(EPERM), allow),
      ...sockets(),
      ...modeCalls.flatMap(({ names, mode }) => [
        { names, ...allow, args: [masked(mode, modeBits, 0)] },
        ...bitsOf(modeBits).map((bit) => ({ names, ...errno(EPERM), args: [masked(mode, bit, bit)] })),
      ]),
      ...openCalls.flatMap(({ name, flags, mode }) => [
        { names: [name], ...allow, args: [masked(flags, makingFlags, 0)] },
        { names: [name], ...allow, args: [masked(mode, modeBits, 0)] },
        ...bitsOf(makingFlags).flatMap((making) =>
          bitsOf(modeBits).map((bit) => ({
            names: [name],
            ...errno(EPERM),
            args: [masked(flags, making, making), masked(mode, bit, bit)],
          })),
        ),
      ]),
      { names: ['fallocate'], ...errno(EOPNOTSUPP), args: [masked(1, freeingModes, 0)] },
      ...bitsOf(freeingModes).map((bit) => ({ names: ['fallocate'], ...allow, args: [masked(1, bit, bit)] })),
      ...among('personality', 0, allowedPersonalities, allow, errno(EPERM)),
    ],
  }
}

/** What is allowed, and of what families and in which words the rest is refused. */
function sockets(): Rule[] {
  const names = socketCalls
  const whole = 0xffffffff
  return [
    ...allowedSockets.flatMap(({ family, types, protocols }) => {
      const of = masked(0, whole, family)
      return [
        ...types.flatMap((type) =>
          protocols.map((protocol) => ({
            ...{ names, ...allow },
            args: [of, masked(1, socketTypeMask, type), masked(2, whole, protocol)],
          })),
        ),
        ...complement(types, 3).map(({ mask, value }) => ({
          ...{ names, ...errno(ESOCKTNOSUPPORT) },
          args: [of, masked(1, mask, value)],
        })),
        ...complement(protocols).map(({ mask, value }) => ({
          ...{ names, ...errno(EPROTONOSUPPORT) },
          args: [of, masked(2, mask, value)],
        })),
      ]
    }),
    ...complement(allowedSockets.map(({ family }) => family)).map(({ mask, value }) => ({
      ...{ names, ...errno(EAFNOSUPPORT) },
      args: [masked(0, mask, value)],
    })),
  ]
}

export type SeccompProfile = {
  readonly defaultAction: string
  readonly defaultErrnoRet: number
  readonly architectures: readonly string[]
  readonly syscalls: readonly Rule[]
}
type Action = { readonly action: 'SCMP_ACT_ALLOW' } | { readonly action: 'SCMP_ACT_ERRNO'; readonly errnoRet: number }
type Rule = Action & { readonly names: readonly string[]; readonly args?: readonly Argument[] }
export type Argument = {
  readonly index: number
  readonly value: number
  readonly valueTwo: number
  readonly op: 'SCMP_CMP_MASKED_EQ'
}

const allow = { action: 'SCMP_ACT_ALLOW' } as const
const errno = (errnoRet: number) => ({ action: 'SCMP_ACT_ERRNO', errnoRet }) as const
export const masked = (index: number, mask: number, value: number): Argument => ({
  index,
  value: mask >>> 0,
  valueTwo: value >>> 0,
  op: 'SCMP_CMP_MASKED_EQ',
})

export const architectures = { x64: 'SCMP_ARCH_X86_64', arm64: 'SCMP_ARCH_AARCH64' } as const satisfies Record<
  SeccompArch,
  string
>

export const bitsOf = (flags: number) =>
  Array.from({ length: 32 }, (_, bit) => (1 << bit) >>> 0).filter((bit) => (flags & bit) !== 0)

/** All numbers of so many bits but these (the highest one is given), as patterns. An engine takes conditions on one argument as alternatives, so "neither this nor
 *  that" can only be said by what is left. */
export function complement(values: readonly number[], bits = 31): Pattern[] {
  return notAmong(values, bits, 0, 2 ** (bits + 1) - 1)
}
type Pattern = { readonly mask: number; readonly value: number }

function notAmong(values: readonly number[], bit: number, prefix: number, whole: number): Pattern[] {
  const mask = bit === 31 ? 0 : ((-1 << (bit + 1)) & whole) >>> 0
  const within = values.filter((value) => (value & mask) >>> 0 === prefix)
  if (within.length === 0) return [{ mask, value: prefix }]
  if (bit < 0) return []
  return [...notAmong(within, bit - 1, prefix, whole), ...notAmong(within, bit - 1, (prefix | (1 << bit)) >>> 0, whole)]
}

/** What an engine inside the cell calls to make containers of its own. */
const neededByEngines: readonly string[] = [
  ...['unshare', 'setns', 'chroot', 'pivot_root', 'mount', 'umount2', 'sethostname', 'setdomainname', 'name_to_handle_at'],
  ...['fsopen', 'fsconfig', 'fsmount', 'fspick', 'open_tree', 'move_mount', 'mount_setattr', 'keyctl'],
]

/** What programs call. From the profile that the engines come with, without what `refused` names. */
const allowed: readonly string[] = `
  accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chown clock_getres clock_gettime
  clock_nanosleep close close_range connect copy_file_range dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
  epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat
  faccessat2 fadvise64 fchdir fchown fchownat fcntl fdatasync fgetxattr flistxattr flock
  fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat
  get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer
  getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname
  getsockopt gettid gettimeofday getuid getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel
  io_destroy io_getevents io_setup io_submit ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset
  landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise
  map_shadow_stack mbind membarrier memfd_create memfd_secret migrate_pages mincore mkdir mkdirat mlock mlock2
  mlockall mmap move_pages mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl
  msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat pause pidfd_open
  pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64
  process_mrelease pselect6 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg
  remap_file_pages removexattr rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask
  rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
  sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
  sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto
  set_mempolicy set_mempolicy_home_node set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid setgroups
  setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid setsockopt setuid setxattr shmat shmctl
  shmdt shmget shutdown sigaltstack signalfd signalfd4 splice stat statfs statx symlink symlinkat sync sync_file_range
  sync_file_range2 syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
  timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork
  wait4 waitid write writev
`
  .trim()
  .split(/\s+/)
