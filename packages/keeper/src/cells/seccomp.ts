/** The seccomp filter of a bwrap cell, as a classic BPF program (seccomp(2), linux/seccomp.h).
 *  Does not stop: attacks on the host kernel through the calls that are left open. */
export function seccompFilter(arch: SeccompArch): Buffer {
  const { audit, numbers, x32 } = architectures[arch]
  const table: Readonly<Record<string, number | undefined>> = numbers
  const number = (name: string) => table[name] ?? unifiedNumbers[name as keyof typeof unifiedNumbers]
  const on = (name: string, body: readonly Instruction[]): Case[] => {
    const value = number(name)
    return value === undefined ? [] : [{ number: value, body }]
  }
  const cases = [
    // The flags of clone3 lie in memory, where a filter cannot look; libc falls back on clone.
    ...on('clone3', [returns(errno(ENOSYS))]),
    ...unanswered.flatMap((name) => on(name, [returns(errno(ENOSYS))])),
    ...refused.flatMap((name) => on(name, [returns(errno(EPERM))])),
    ...on('clone', [load(argument(0)), ...whenAnyBit(newNamespaceFlags, [returns(errno(EPERM))]), returns(actions.allow)]),
    // The kernel takes the command as 32 bits and ignores the rest, so the filter must as well (CVE-2019-10063).
    ...on('ioctl', [
      load(argument(1)),
      ...refusedIoctls.flatMap((command) => whenEqual(command, [returns(errno(EPERM))])),
      returns(actions.allow),
    ]),
    ...socketCalls.flatMap((name) =>
      on(name, [
        ...allowedSockets.flatMap(({ family, types, protocols }) => [
          load(argument(0)),
          ...whenEqual(family, [
            load(argument(1)),
            and(socketTypeMask),
            ...unlessOne(types, [returns(errno(ESOCKTNOSUPPORT))]),
            load(argument(2)),
            ...unlessOne(protocols, [returns(errno(EPROTONOSUPPORT))]),
            returns(actions.allow),
          ]),
        ]),
        returns(errno(EAFNOSUPPORT)),
      ]),
    ),
    ...modeCalls.flatMap(({ names, mode }) =>
      names.flatMap((name) =>
        on(name, [load(argument(mode)), ...whenAnyBit(refusedModeBits, [returns(errno(EPERM))]), returns(actions.allow)]),
      ),
    ),
    ...openCalls.flatMap(({ name, flags, mode }) =>
      on(name, [
        load(argument(flags)),
        ...whenAnyBit(makingFlags, [load(argument(mode)), ...whenAnyBit(refusedModeBits, [returns(errno(EPERM))])]),
        returns(actions.allow),
      ]),
    ),
    ...on('fallocate', [load(argument(1)), ...whenAnyBit(freeingModes, [returns(actions.allow)]), returns(errno(EOPNOTSUPP))]),
    ...on('personality', [
      load(argument(0)),
      ...allowedPersonalities.flatMap((persona) => whenEqual(persona, [returns(actions.allow)])),
      returns(errno(EPERM)),
    ]),
  ]
  const program = [
    load(offsets.arch),
    ...unlessEqual(audit, [returns(actions.killProcess)]),
    load(offsets.number),
    // x32 reaches the same calls under other numbers.
    ...(x32 ? whenAtLeast(x32Bit, [returns(actions.killProcess)]) : []),
    // A call younger than this table: answer as an older kernel would, so that libc takes the older way.
    ...whenAtLeast(newestNumber + 1, [returns(errno(ENOSYS))]),
    ...select(cases.toSorted((one, other) => one.number - other.number)),
  ]
  return encode(program)
}

export type SeccompArch = 'x64' | 'arm64'

/** The filter's architecture for this Node's `process.arch`, or null where there is no table for it. */
export const seccompArch = (arch: string): SeccompArch | null => (arch === 'x64' || arch === 'arm64' ? arch : null)

export const EPERM = 1
export const ENOSYS = 38
export const EPROTONOSUPPORT = 93
export const ESOCKTNOSUPPORT = 94
export const EOPNOTSUPP = 95
export const EAFNOSUPPORT = 97

export const actions = { allow: 0x7fff0000, killProcess: 0x80000000, errno: 0x00050000 } as const
const errno = (code: number) => actions.errno | code

/** What only a host's administrator, a debugger or another sandbox would call. */
export const refused = [
  ...['unshare', 'setns', 'chroot', 'pivot_root', 'mount', 'umount2'],
  ...['fsopen', 'fsconfig', 'fsmount', 'fspick', 'open_tree', 'move_mount', 'mount_setattr'],
  ...['ptrace', 'process_vm_readv', 'process_vm_writev', 'process_madvise', 'pidfd_getfd', 'kcmp'],
  ...['bpf', 'perf_event_open', 'userfaultfd', 'io_uring_setup', 'io_uring_enter', 'io_uring_register', 'vmsplice'],
  ...['keyctl', 'add_key', 'request_key', 'open_by_handle_at', 'name_to_handle_at', 'fanotify_init', 'fanotify_mark'],
  ...['kexec_load', 'kexec_file_load', 'create_module', 'init_module', 'finit_module', 'delete_module'],
  ...['swapon', 'swapoff', 'reboot', 'acct', 'quotactl', 'quotactl_fd', 'syslog', 'nfsservctl', 'lookup_dcookie', 'vhangup'],
  ...['settimeofday', 'clock_settime', 'adjtimex', 'clock_adjtime', 'sethostname', 'setdomainname'],
  ...['iopl', 'ioperm', 'modify_ldt', 'uselib', '_sysctl'],
]

/** Tools that ask these have an older way to go by. What openat2 is asked lies in memory, where a filter cannot look. */
export const unanswered = ['statmount', 'listmount', 'openat2']

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET; NEWTIME cannot be asked of clone. */
export const newNamespaceFlags = 0x7e020000
/** TIOCSTI types into a terminal, TIOCLINUX pastes into a console. */
export const refusedIoctls = [0x5412, 0x541c]
export const socketCalls = ['socket', 'socketpair']
/** All that a cell's loopback and windows need: a kind that nobody needs may load a module, and be new in the kernel. */
const [stream, datagram, sequenced] = [1, 2, 5]
/** Those that come of themselves, ICMP, TCP, UDP and ICMPv6; not MPTCP, UDP-Lite, SCTP, DCCP or L2TP. */
const internetProtocols = [0, 1, 6, 17, 58]
/** AF_UNIX, AF_INET and AF_INET6. */
export const allowedSockets = [
  { family: 1, types: [stream, datagram, sequenced], protocols: [0, 1] },
  { family: 2, types: [stream, datagram], protocols: internetProtocols },
  { family: 10, types: [stream, datagram], protocols: internetProtocols },
] as const
/** SOCK_TYPE_MASK (linux/net.h): above it are flags. */
export const socketTypeMask = 0xf

/** S_ISUID and S_ISGID. In a folder of the host's, such a file would lend its owner's rights to others there: the cell's own mounts
 *  honour neither, the host's do. */
export const refusedModeBits = 0o6000
/** Calls that are told a mode, and which argument that is. */
export const modeCalls = [
  { names: ['chmod', 'fchmod', 'creat', 'mknod'], mode: 1 },
  { names: ['fchmodat', 'fchmodat2', 'mknodat'], mode: 2 },
] as const
/** The same where flags say whether the mode counts. */
export const openCalls = [
  { name: 'open', flags: 1, mode: 2 },
  { name: 'openat', flags: 2, mode: 3 },
] as const
/** O_CREAT and __O_TMPFILE (asm-generic/fcntl.h). */
export const makingFlags = 0x400040
/** FALLOC_FL_PUNCH_HOLE and FALLOC_FL_COLLAPSE_RANGE. Every other mode takes space, as much as it likes in no time, and the limit on
 *  that is watched: programs then write, which takes them longer than the watcher. */
export const freeingModes = 0x2 | 0x8

/** PER_LINUX, PER_LINUX32, ADDR_NO_RANDOMIZE (debuggers), and the question which one is set. */
export const allowedPersonalities = [0, 8, 0x0040000, 0xffffffff]

const x32Bit = 0x40000000
const newestNumber = 462

/** Since Linux 5.1 a new call has one number on every architecture. */
const unifiedNumbers = {
  ...{ io_uring_setup: 425, io_uring_enter: 426, io_uring_register: 427, open_tree: 428, move_mount: 429, fsopen: 430 },
  ...{ fsconfig: 431, fsmount: 432, fspick: 433, clone3: 435, pidfd_getfd: 438, process_madvise: 440, mount_setattr: 442 },
  ...{ openat2: 437, quotactl_fd: 443, fchmodat2: 452, statmount: 457, listmount: 458 },
} as const

/** Numbers from arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux. */
const architectures = {
  x64: {
    audit: 0xc000003e,
    x32: true,
    numbers: {
      ...{ open: 2, creat: 85, chmod: 90, fchmod: 91, mknod: 133, openat: 257, mknodat: 259, fchmodat: 268, fallocate: 285 },
      ...{ ioctl: 16, socket: 41, socketpair: 53, clone: 56, ptrace: 101, syslog: 103, uselib: 134, personality: 135 },
      ...{ vhangup: 153, modify_ldt: 154, pivot_root: 155, _sysctl: 156, adjtimex: 159, chroot: 161, acct: 163 },
      ...{ settimeofday: 164, mount: 165, umount2: 166, swapon: 167, swapoff: 168, reboot: 169, sethostname: 170 },
      ...{ setdomainname: 171, iopl: 172, ioperm: 173, create_module: 174, init_module: 175, delete_module: 176 },
      ...{ quotactl: 179, nfsservctl: 180, lookup_dcookie: 212, clock_settime: 227, kexec_load: 246, add_key: 248 },
      ...{ request_key: 249, keyctl: 250, unshare: 272, vmsplice: 278, perf_event_open: 298, fanotify_init: 300 },
      ...{ fanotify_mark: 301, name_to_handle_at: 303, open_by_handle_at: 304, clock_adjtime: 305, setns: 308 },
      ...{ process_vm_readv: 310, process_vm_writev: 311, kcmp: 312, finit_module: 313, kexec_file_load: 320 },
      ...{ bpf: 321, userfaultfd: 323 },
    },
  },
  arm64: {
    audit: 0xc00000b7,
    x32: false,
    numbers: {
      ...{ mknodat: 33, fallocate: 47, fchmod: 52, fchmodat: 53, openat: 56 },
      ...{ lookup_dcookie: 18, ioctl: 29, umount2: 39, mount: 40, pivot_root: 41, nfsservctl: 42, chroot: 51 },
      ...{ vhangup: 58, quotactl: 60, vmsplice: 75, acct: 89, personality: 92, unshare: 97, kexec_load: 104 },
      ...{ init_module: 105, delete_module: 106, clock_settime: 112, syslog: 116, ptrace: 117, reboot: 142 },
      ...{ sethostname: 161, setdomainname: 162, settimeofday: 170, adjtimex: 171, socket: 198, socketpair: 199 },
      ...{ add_key: 217, request_key: 218, keyctl: 219, clone: 220, swapon: 224, swapoff: 225, perf_event_open: 241 },
      ...{ fanotify_init: 262, fanotify_mark: 263, name_to_handle_at: 264, open_by_handle_at: 265, clock_adjtime: 266 },
      ...{ setns: 268, process_vm_readv: 270, process_vm_writev: 271, kcmp: 272, finit_module: 273, bpf: 280 },
      ...{ userfaultfd: 282, kexec_file_load: 294 },
    },
  },
} as const

/** Both architectures are little-endian, so the low half of an argument comes first. */
const offsets = { number: 0, arch: 4, arguments: 16 } as const
const argument = (index: number) => offsets.arguments + 8 * index

type Instruction = { readonly code: number; readonly ifTrue: number; readonly ifFalse: number; readonly k: number }

// BPF_LD|BPF_W|BPF_ABS, BPF_RET|BPF_K, and BPF_JMP|BPF_K with BPF_JEQ, BPF_JGE and BPF_JSET (linux/bpf_common.h).
const load = (offset: number): Instruction => ({ code: 0x20, ifTrue: 0, ifFalse: 0, k: offset })
const returns = (action: number): Instruction => ({ code: 0x06, ifTrue: 0, ifFalse: 0, k: action })
const whenEqual = (k: number, body: readonly Instruction[]) => [jump(0x15, k, 0, body.length), ...body]
const unlessEqual = (k: number, body: readonly Instruction[]) => [jump(0x15, k, body.length, 0), ...body]
const whenAtLeast = (k: number, body: readonly Instruction[]) => [jump(0x35, k, 0, body.length), ...body]
const whenAnyBit = (k: number, body: readonly Instruction[]) => [jump(0x45, k, 0, body.length), ...body]

const unlessOne = (of: readonly number[], body: readonly Instruction[]): Instruction[] =>
  of.reduceRight<Instruction[]>((rest, k) => [jump(0x15, k, rest.length, 0), ...rest], [...body])
/** BPF_ALU|BPF_AND|BPF_K */
const and = (k: number): Instruction => ({ code: 0x54, ifTrue: 0, ifFalse: 0, k })

/** What is to happen on one call. */
type Case = { readonly number: number; readonly body: readonly Instruction[] }

/** Goes to the body of the call's case by halves, and allows a call that has none. The kernel tries the filter on every number when it
 *  takes it on, at the start of each process of a cell: one case after the other would cost it ten times the steps. */
function select(cases: readonly Case[]): Instruction[] {
  if (cases.length < 4) return [...cases.flatMap(({ number, body }) => whenEqual(number, body)), returns(actions.allow)]
  const half = cases.length >> 1
  const [below, above] = [select(cases.slice(0, half)), select(cases.slice(half))]
  return [jump(0x35, cases[half]!.number, below.length, 0), ...below, ...above]
}

function jump(code: number, k: number, ifTrue: number, ifFalse: number): Instruction {
  if (ifTrue > 255 || ifFalse > 255) throw new RangeError('A BPF jump reaches no further than 255 instructions')
  return { code, ifTrue, ifFalse, k }
}

function encode(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8)
  program.forEach(({ code, ifTrue, ifFalse, k }, index) => {
    bytes.writeUInt16LE(code, index * 8)
    bytes.writeUInt8(ifTrue, index * 8 + 2)
    bytes.writeUInt8(ifFalse, index * 8 + 3)
    bytes.writeUInt32LE(k >>> 0, index * 8 + 4)
  })
  return bytes
}
