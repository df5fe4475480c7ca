import { existsSync } from 'node:fs'
import { bwrapDriver } from '@anchorhold/keeper/cells/bwrap/bwrap'
import type { Cell, CellDriver, CellSpec } from '@anchorhold/keeper/cells/cell'
import { run, trialLimits, trialSpecs, trialUser } from '@anchorhold/keeper/cells/trial'
import { delegateCgroups, withdrawCgroups } from '@anchorhold/daemon/processes/cgroups'
import { describe } from 'vitest'

/** Every rung that claims to be a wall. */
const drivers: readonly CellDriver[] = [bwrapDriver()]

export function driverOf(rung: string): CellDriver {
  const driver = drivers.find((each) => each.rung === rung)
  if (driver === undefined) throw new Error(`There is no driver for "${rung}"`)
  return driver
}

/** Runs the same attack on every rung. */
export function attack(name: string, on: (driver: CellDriver) => void): void {
  for (const driver of drivers) describe(`${driver.rung}: ${name}`, () => on(driver))
}

export interface AttackedCell extends AsyncDisposable {
  readonly cell: Cell
  readonly spec: CellSpec
  /** What a script inside wrote to both streams, in lines, and its exit code. */
  sh(script: string): Promise<Outcome>
  /** perl-base is part of every Debian, and can make any system call. */
  perl(script: string, ...args: string[]): Promise<Outcome>
}

export type Outcome = { readonly lines: readonly string[]; readonly code: number }

export async function cellUnderAttack(driver: CellDriver, changes: Partial<CellSpec> = {}): Promise<AttackedCell> {
  const specs = trialSpecs()
  const spec = await specs.make(changes)
  const cell = await driver.start(spec, AbortSignal.timeout(20_000))
  const outcome = async (argv: readonly [string, ...string[]]): Promise<Outcome> => {
    const { output, said, code } = await run(cell, argv, { cwd: cell.place(spec.workspace) })
    return { lines: `${output}${said}`.split('\n').filter((line) => line !== ''), code }
  }
  return {
    cell,
    spec,
    sh: (script) => outcome(['sh', '-c', script]),
    perl: (script, ...args) => outcome(['perl', '-e', script, ...args]),
    async [Symbol.asyncDispose]() {
      await cell[Symbol.asyncDispose]()
      await specs[Symbol.asyncDispose]()
    },
  }
}

export const smallLimits = {
  ...trialLimits,
  memoryBytes: 256 * 2 ** 20,
  diskBytes: 64 * 2 ** 20,
  fileBytes: 32 * 2 ** 20,
  tmpBytes: 8 * 2 ** 20,
}

/** The ways in which limits can be held here: without control groups always, with them where root can hand some over. */
export const holds =
  process.getuid?.() === 0 && existsSync('/sys/fs/cgroup')
    ? (['control groups', 'no control group'] as const)
    : (['no control group'] as const)

/** Folders for `cgroups` of a spec, taken back at the end; none for 'no control group'. */
export function cgroupsFor(hold: (typeof holds)[number]): Disposable & { readonly cgroups: readonly string[] } {
  const cgroups = hold === 'control groups' ? delegateCgroups(`attack-${process.pid}`, trialUser) : []
  return { cgroups, [Symbol.dispose]: () => withdrawCgroups(cgroups) }
}

export const isRoot = process.getuid?.() === 0

/** Makes each call given as `name,number,argument…`, and says how each was answered. */
export const makeCalls = `
  $| = 1;
  for (@ARGV) {
    my ($name, $number, @arguments) = split /,/;
    my $answer = syscall($number + 0, map { $_ + 0 } @arguments);
    printf "%s: %s\\n", $name, $answer == -1 ? "refused " . ($! + 0) : "done";
  }`

export const EPERM = 1
export const ENOSYS = 38
export const EAFNOSUPPORT = 97

const unified = {
  ...{ io_uring_setup: 425, io_uring_enter: 426, io_uring_register: 427, open_tree: 428, move_mount: 429, fsopen: 430 },
  ...{ fsconfig: 431, fsmount: 432, fspick: 433, clone3: 435, pidfd_getfd: 438, mount_setattr: 442, open_tree_attr: 467 },
}

/** Numbers of this machine's architecture, written down independently of the filter that is under attack. */
export const numberOf: Readonly<Record<CallName, number>> = process.arch === 'x64' ? x64() : arm64()

type CallName = keyof ReturnType<typeof arm64>

function x64() {
  return {
    ...{ ioctl: 16, socket: 41, socketpair: 53, clone: 56, ptrace: 101, syslog: 103, mknodat: 259, pivot_root: 155, chroot: 161 },
    ...{ acct: 163, settimeofday: 164, mount: 165, umount2: 166, swapon: 167, reboot: 169, sethostname: 170, init_module: 175 },
    ...{ quotactl: 179, kexec_load: 246, add_key: 248, request_key: 249, keyctl: 250, unshare: 272, perf_event_open: 298 },
    ...{ fanotify_init: 300, name_to_handle_at: 303, open_by_handle_at: 304, setns: 308, process_vm_readv: 310 },
    ...{ process_vm_writev: 311, finit_module: 313, bpf: 321, userfaultfd: 323, ...unified },
  }
}

function arm64() {
  return {
    ...{ ioctl: 29, mknodat: 33, umount2: 39, mount: 40, pivot_root: 41, chroot: 51, quotactl: 60, acct: 89, unshare: 97 },
    ...{ kexec_load: 104, init_module: 105, syslog: 116, ptrace: 117, reboot: 142, sethostname: 161, settimeofday: 170 },
    ...{ socket: 198, socketpair: 199, add_key: 217, request_key: 218, keyctl: 219, clone: 220, swapon: 224 },
    ...{ perf_event_open: 241, fanotify_init: 262, name_to_handle_at: 264, open_by_handle_at: 265, setns: 268 },
    ...{ process_vm_readv: 270, process_vm_writev: 271, finit_module: 273, bpf: 280, userfaultfd: 282, ...unified },
  }
}
