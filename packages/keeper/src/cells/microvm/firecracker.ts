import { type MachineShape, seen } from './argv.ts'

/** The same machine for Firecracker instead of QEMU. Untested: no Firecracker was at hand, and no driver starts it. It has no way to
 *  share a folder, so a workspace would have to be carried over the line; and it needs hardware that runs machines.
 *  https://github.com/firecracker-microvm/firecracker/blob/main/docs/getting-started.md */
export function firecrackerConfig({ memoryBytes, cpus }: Pick<MachineShape, 'memoryBytes' | 'cpus'>) {
  const disk = (drive_id: string, path_on_host: string) => ({ drive_id, path_on_host, is_root_device: false, is_read_only: true })
  return {
    'boot-source': {
      kernel_image_path: seen.kernel,
      initrd_path: seen.initramfs,
      // No PCI: its devices are told to the kernel one by one. Without a keyboard to be looked for, it boots sooner.
      boot_args: 'console=ttyS0 quiet panic=-1 reboot=k pci=off i8042.noaux i8042.nomux i8042.dumbkbd',
    },
    drives: [disk('root', seen.root), disk('runtime', seen.runtime)],
    'machine-config': {
      vcpu_count: Math.min(Math.max(1, Math.ceil(cpus)), vcpusMax),
      mem_size_mib: Math.floor(memoryBytes / 2 ** 20),
      smt: false,
    },
    // The one line to the keeper, which listens beside it as `PATH_PORT`. There is no network interface.
    vsock: { guest_cid: 3, uds_path: `${seen.sockets}/vsock` },
  }
}

/** What its API takes at the most. */
const vcpusMax = 32

/** With its own filter on, which is what it does unless told otherwise, and nobody to talk to but its configuration. */
export const firecrackerArgv = (config: string): string[] => [
  ...['firecracker', '--no-api', '--config-file', config, '--id', 'cell', '--level', 'Error'],
]
