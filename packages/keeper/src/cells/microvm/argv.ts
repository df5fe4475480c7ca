import type { MachineArch } from './reseed.ts'

/** How the processor is had: by the hardware, or worked out step by step, which is many times slower. */
export type Accel = 'kvm' | 'tcg'

/** What of a machine cannot be changed when its memory is restored. */
export type MachineShape = {
  readonly arch: MachineArch
  readonly accel: Accel
  readonly memoryBytes: number
  readonly cpus: number
}

/** Where QEMU finds things, as it sees them behind its wall. */
export const seen = {
  kernel: '/opt/machine/kernel',
  initramfs: '/opt/machine/initramfs',
  root: '/opt/machine/root.erofs',
  runtime: '/opt/machine/runtime.erofs',
  snapshot: '/opt/machine/snapshot',
  /** The keeper listens here, and QEMU calls. */
  sockets: '/run/cell',
  workspace: '/workspace',
  home: '/home/agent',
  mounts: '/opt/mounts',
} as const

export const sockets = { channel: 'channel.sock', control: 'control.sock', monitor: 'qmp.sock', save: 'save.sock' } as const

/** The program, by Debian's name of it. */
export const qemuName = (arch: MachineArch) => (arch === 'arm64' ? 'qemu-system-aarch64' : 'qemu-system-x86_64')

/** A saved machine is read by QEMU itself from 8.2 on, and from 11 on in no other way. */
export type StartFrom = 'boot' | 'file' | 'descriptor'

/** What of these a QEMU can do that says so of its version. */
export function restoresFrom(version: string): Exclude<StartFrom, 'boot'> {
  const [, major = '0', minor = '0'] = /version (\d+)\.(\d+)/.exec(version) ?? []
  return Number(major) > 8 || (Number(major) === 8 && Number(minor) >= 2) ? 'file' : 'descriptor'
}

/** The whole machine. It has no network device, no display, no USB, no disk that can be written: memory, processors, two read-only
 *  disks, two lines to the keeper and three shared folders.
 *  Does not stop: attacks on QEMU's own devices; the wall around it is for those. */
export function qemuArgv({ arch, accel, memoryBytes, cpus }: MachineShape, from: StartFrom): string[] {
  const { machine, processor, console, append } = architectures[arch]
  const kernel = ['quiet', 'panic=-1', ...append, ...(accel === 'tcg' ? emulated : [])].join(' ')
  const disk = (id: string, file: string) => [
    ...['-drive', `file=${file},if=none,format=raw,readonly=on,id=${id}`],
    ...['-device', `virtio-blk-pci,drive=${id}`],
  ]
  const socket = (id: string, name: string) => ['-chardev', `socket,id=${id},path=${seen.sockets}/${name}`]
  const port = (name: string) => ['-device', `virtserialport,chardev=${name},name=${name},id=${name}`]
  const share = (tag: string, path: string, more = '') => [
    // Nothing of the guest's ownership is tried for: what it makes belongs to the session's user.
    ...['-fsdev', `local,id=${tag},path=${path},security_model=none,multidevs=remap${more}`],
    ...['-device', `virtio-9p-pci,fsdev=${tag},mount_tag=${tag}`],
  ]
  return [
    ...['-M', accel === 'kvm' ? machine.kvm : machine.tcg, '-cpu', accel === 'kvm' ? 'host' : processor],
    ...['-accel', accel === 'kvm' ? 'kvm' : `tcg,thread=multi,tb-size=${translatedMib}`],
    ...['-m', `${Math.floor(memoryBytes / 2 ** 20)}M`, '-smp', String(cpus)],
    ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot', '-serial', 'stdio'],
    ...['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
    ...['-kernel', seen.kernel, '-initrd', seen.initramfs, '-append', `console=${console} ${kernel}`],
    ...disk('root', seen.root),
    ...disk('runtime', seen.runtime),
    ...['-device', 'virtio-serial-pci'],
    ...[...socket('channel', sockets.channel), ...port('channel')],
    ...[...socket('control', sockets.control), ...port('control')],
    ...[...socket('monitor', sockets.monitor), '-mon', 'chardev=monitor,mode=control'],
    ...share('workspace', seen.workspace),
    ...share('home', seen.home),
    ...share('mounts', seen.mounts, ',readonly=on'),
    ...(from === 'boot' ? [] : ['-incoming', from === 'descriptor' ? 'fd:3' : `file:${seen.snapshot}`]),
  ]
}

/** What QEMU may keep of translated code, and what it takes beside the guest's memory at the most. */
const translatedMib = 256
export const overheadBytes = 512 * 2 ** 20

/** A processor that is worked out guesses nothing ahead, so there is nothing to guard against; the guards would take most of its time. */
const emulated = ['mitigations=off', 'kpti=off']

const architectures = {
  arm64: {
    machine: { tcg: 'virt,gic-version=3', kvm: 'virt,gic-version=host' },
    // New enough for every program, and without the pointer signatures of newer ones, which are slow to work out.
    processor: 'neoverse-n1',
    console: 'ttyAMA0',
    append: [],
  },
  // Worked out from facts of another machine; not run by the tests of this release.
  x64: {
    machine: { tcg: 'q35', kvm: 'q35' },
    processor: 'max',
    console: 'ttyS0',
    append: ['no_timer_check', 'reboot=t'],
  },
} as const satisfies Record<MachineArch, unknown>
