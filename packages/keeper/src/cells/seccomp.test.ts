import { describe, expect, test } from 'vitest'
import { actions, seccompArch, seccompFilter, type SeccompArch } from './seccomp.ts'

const EPERM = 'errno 1'
const ENOSYS = 'errno 38'
const EPROTONOSUPPORT = 'errno 93'
const ESOCKTNOSUPPORT = 'errno 94'
const EOPNOTSUPP = 'errno 95'
const EAFNOSUPPORT = 'errno 97'
const audit = { x64: 0xc000003e, arm64: 0xc00000b7 } as const satisfies Record<SeccompArch, number>

describe('seccompFilter()', () => {
  test.each([
    ['x64', 'i386', 0x40000003],
    ['x64', 'arm64', 0xc00000b7],
    ['arm64', 'arm', 0x40000028],
    ['arm64', 'x64', 0xc000003e],
  ] as const)('of %s kills a call made as %s', (arch, _, foreign) => {
    expect(answer(arch, { number: 0, arch: foreign })).toBe('kill')
  })

  test('of x64 kills a call made as x32', () => {
    expect(answer('x64', { number: 0x40000000 + 1 })).toBe('kill')
    expect(answer('x64', { number: 0xffffffff })).toBe('kill')
  })

  // Numbers written down a second time, so that a slip in the table shows.
  test.each([
    ['x64', 'read', 0, 'allow'],
    ['x64', 'execve', 59, 'allow'],
    ['x64', 'ptrace', 101, EPERM],
    ['x64', 'pivot_root', 155, EPERM],
    ['x64', 'chroot', 161, EPERM],
    ['x64', 'mount', 165, EPERM],
    ['x64', 'umount2', 166, EPERM],
    ['x64', 'keyctl', 250, EPERM],
    ['x64', 'unshare', 272, EPERM],
    ['x64', 'perf_event_open', 298, EPERM],
    ['x64', 'open_by_handle_at', 304, EPERM],
    ['x64', 'setns', 308, EPERM],
    ['x64', 'process_vm_writev', 311, EPERM],
    ['x64', 'bpf', 321, EPERM],
    ['x64', 'userfaultfd', 323, EPERM],
    ['x64', 'statx', 332, 'allow'],
    ['x64', 'io_uring_setup', 425, EPERM],
    ['x64', 'move_mount', 429, EPERM],
    ['x64', 'clone3', 435, ENOSYS],
    ['x64', 'openat2', 437, ENOSYS],
    ['x64', 'mount_setattr', 442, EPERM],
    ['x64', 'open_tree_attr, younger than the table', 467, ENOSYS],
    ['x64', 'ptrace by its x32 number', 521, ENOSYS],
    ['arm64', 'umount2', 39, EPERM],
    ['arm64', 'mount', 40, EPERM],
    ['arm64', 'pivot_root', 41, EPERM],
    ['arm64', 'chroot', 51, EPERM],
    ['arm64', 'read', 63, 'allow'],
    ['arm64', 'unshare', 97, EPERM],
    ['arm64', 'ptrace', 117, EPERM],
    ['arm64', 'keyctl', 219, EPERM],
    ['arm64', 'execve', 221, 'allow'],
    ['arm64', 'perf_event_open', 241, EPERM],
    ['arm64', 'open_by_handle_at', 265, EPERM],
    ['arm64', 'setns', 268, EPERM],
    ['arm64', 'process_vm_writev', 271, EPERM],
    ['arm64', 'bpf', 280, EPERM],
    ['arm64', 'userfaultfd', 282, EPERM],
    ['arm64', 'io_uring_setup', 425, EPERM],
    ['arm64', 'clone3', 435, ENOSYS],
    ['arm64', 'mount_setattr', 442, EPERM],
    ['arm64', 'open_tree_attr, younger than the table', 467, ENOSYS],
  ] as const)('of %s answers %s (%i) with %s', (arch, _, number, expected) => {
    expect(answer(arch, { number })).toBe(expected)
  })

  describe.each([
    [
      'x64',
      {
        ...{ ioctl: 16, socket: 41, socketpair: 53, clone: 56, personality: 135 },
        ...{ fchmod: 91, openat: 257, mknodat: 259, fchmodat: 268, fallocate: 285 },
      },
    ],
    [
      'arm64',
      {
        ...{ ioctl: 29, personality: 92, socket: 198, socketpair: 199, clone: 220 },
        ...{ mknodat: 33, fallocate: 47, fchmod: 52, fchmodat: 53, openat: 56 },
      },
    ],
  ] as const)('of %s', (arch, numbers) => {
    test.each([
      ['a fork', 17n, 'allow'],
      ['a thread', 0x3d0f00n, 'allow'],
      ['a user namespace', 0x10000011n, EPERM],
      ['a mount namespace', 0x00020011n, EPERM],
      ['a network namespace among thread flags', 0x403d0f00n, EPERM],
      ['a user namespace with high bits set', 0xdead_0000_1000_0011n, EPERM],
    ])('answers a clone that makes %s', (_, flags, expected) => {
      expect(answer(arch, { number: numbers.clone, args: [flags] })).toBe(expected)
    })

    test.each([
      ['TCGETS', 0x5401n, 'allow'],
      ['TIOCSTI', 0x5412n, EPERM],
      ['TIOCLINUX', 0x541cn, EPERM],
      ['TIOCSTI with high bits set', 0x1_0000_5412n, EPERM],
    ])('answers ioctl %s', (_, command, expected) => {
      expect(answer(arch, { number: numbers.ioctl, args: [0n, command] })).toBe(expected)
    })

    test.each([
      ['AF_UNIX', [1n, 1n, 0n], 'allow'],
      ['AF_UNIX, with packets', [1n, 5n, 0n], 'allow'],
      ['AF_INET', [2n, 1n, 6n], 'allow'],
      ['AF_INET with flags', [2n, 0x80802n, 17n], 'allow'],
      ['AF_INET6', [10n, 1n, 0n], 'allow'],
      ['ping', [10n, 2n, 58n], 'allow'],
      ['MPTCP', [2n, 1n, 262n], EPROTONOSUPPORT],
      ['UDP-Lite', [10n, 2n, 136n], EPROTONOSUPPORT],
      ['SCTP', [2n, 1n, 132n], EPROTONOSUPPORT],
      ['L2TP with high bits set', [2n, 2n, 0x1_0000_0073n], EPROTONOSUPPORT],
      ['packets of AF_INET, which are of SCTP', [2n, 5n, 0n], ESOCKTNOSUPPORT],
      ['DCCP', [2n, 6n, 33n], ESOCKTNOSUPPORT],
      ['raw', [2n, 3n, 255n], ESOCKTNOSUPPORT],
      ['AF_NETLINK', [16n, 3n, 0n], EAFNOSUPPORT],
      ['AF_PACKET', [17n, 3n, 0n], EAFNOSUPPORT],
      ['AF_ALG', [38n, 5n, 0n], EAFNOSUPPORT],
      ['AF_VSOCK', [40n, 1n, 0n], EAFNOSUPPORT],
      ['AF_VSOCK with high bits set', [0x1_0000_0028n, 1n, 0n], EAFNOSUPPORT],
    ])('answers socket and socketpair of %s', (_, args, expected) => {
      expect(answer(arch, { number: numbers.socket, args })).toBe(expected)
      expect(answer(arch, { number: numbers.socketpair, args })).toBe(expected)
    })

    test.each([
      ['fchmod', numbers.fchmod, [3n, 0o755n], 'allow'],
      ['fchmod of a sticky folder', numbers.fchmod, [3n, 0o1777n], 'allow'],
      ['fchmod of a set-user-id program', numbers.fchmod, [3n, 0o4755n], EPERM],
      ['fchmod of a set-group-id program', numbers.fchmod, [3n, 0x1_0000_0000n | 0o2755n], EPERM],
      ['fchmodat of one', numbers.fchmodat, [0n, 0n, 0o6755n], EPERM],
      ['fchmodat2 of one', 452, [0n, 0n, 0o4755n, 0n], EPERM],
      ['mknodat of one', numbers.mknodat, [0n, 0n, 0o104755n, 0n], EPERM],
      ['openat of what is there', numbers.openat, [0n, 0n, 0n, 0o4755n], 'allow'],
      ['openat of a new file', numbers.openat, [0n, 0n, 0x241n, 0o666n], 'allow'],
      ['openat of a new set-user-id program', numbers.openat, [0n, 0n, 0x41n, 0o4755n], EPERM],
      ['openat of one without a name', numbers.openat, [0n, 0n, 0x410001n, 0o2755n], EPERM],
      ['fallocate', numbers.fallocate, [3n, 0n, 0n, 0x4000_0000n], EOPNOTSUPP],
      ['fallocate beyond the end', numbers.fallocate, [3n, 1n, 0n, 0x4000_0000n], EOPNOTSUPP],
      ['fallocate of a hole', numbers.fallocate, [3n, 3n, 0n, 0x4000_0000n], 'allow'],
    ])('answers %s', (_, number, args, expected) => {
      expect(answer(arch, { number, args })).toBe(expected)
    })

    test('lets personality be asked for and refuses a weird one', () => {
      expect(answer(arch, { number: numbers.personality, args: [0xffffffffn] })).toBe('allow')
      expect(answer(arch, { number: numbers.personality, args: [0x0400000n] })).toBe(EPERM)
    })
  })
})

test.each([
  ['x64', 'x64'],
  ['arm64', 'arm64'],
  ['riscv64', null],
])('seccompArch() of %s is %s', (arch, expected) => {
  expect(seccompArch(arch)).toBe(expected)
})

type Call = { readonly number: number; readonly arch?: number; readonly args?: readonly bigint[] }

/** Runs the filter as the kernel would, on one call. */
function answer(arch: SeccompArch, call: Call): string {
  const program = seccompFilter(arch)
  const data = Buffer.alloc(64)
  data.writeUInt32LE(call.number, 0)
  data.writeUInt32LE(call.arch ?? audit[arch], 4)
  call.args?.forEach((value, index) => data.writeBigUInt64LE(value, 16 + 8 * index))
  let register = 0
  for (let at = 0; at < program.length; at += 8) {
    const [code, ifTrue, ifFalse, k] = [
      program.readUInt16LE(at),
      program.readUInt8(at + 2),
      program.readUInt8(at + 3),
      program.readUInt32LE(at + 4),
    ]
    if (code === 0x20) register = data.readUInt32LE(k)
    else if (code === 0x54) register = (register & k) >>> 0
    else if (code === 0x06) return named(k)
    else {
      const holds = code === 0x15 ? register === k : code === 0x35 ? register >= k : (register & k) !== 0
      at += 8 * (holds ? ifTrue : ifFalse)
    }
  }
  throw new Error('The filter ran off its end')
}

function named(action: number): string {
  if (action === actions.allow) return 'allow'
  if (action === actions.killProcess) return 'kill'
  return `errno ${action & 0xffff}`
}
