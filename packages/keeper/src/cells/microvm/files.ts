import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { release } from 'node:os'
import { dirname, join } from 'node:path'
import type { CellFiles, Lack } from '../cell.ts'
import type { MachineShape } from './argv.ts'
import { guestInit } from './guest.ts'

/** What machines of one image are made from. Beside an image's root lies its disk; what no image has a part in lies beside them all. */
export type MachineFiles = {
  readonly kernel: string
  readonly initramfs: string
  /** The root as a read-only disk. */
  readonly root: string
  /** Of Debian's: a program that needs no library, for the guest's first steps. */
  readonly busybox: string
  /** Saved machines, by their key. */
  readonly snapshots: string
  /** Disks with the program inside and its Node, by their key. */
  readonly runtimes: string
  /** Whether the hardware was seen to run machines. */
  readonly accel: string
}

export function machineFiles(root: string): MachineFiles {
  const image = dirname(root)
  const shared = join(dirname(image), 'machine')
  return {
    kernel: join(shared, 'kernel'),
    initramfs: join(shared, `initramfs-${digest(guestInit)}`),
    busybox: join(shared, 'busybox'),
    root: join(image, 'root.erofs'),
    snapshots: join(image, 'snapshots'),
    runtimes: join(shared, 'runtimes'),
    accel: join(shared, 'accel.json'),
  }
}

/** What is not there, with the one remedy for all of it. */
export function lacksOf(files: MachineFiles): Lack[] {
  const { kernel, initramfs, root, busybox } = files
  const absent = Object.entries({ kernel, initramfs, 'first program': busybox, disk: root }).filter(
    ([, path]) => !existsSync(path),
  )
  if (absent.length === 0) return []
  return [{ what: `the machine has no ${absent.map(([name]) => name).join(', ')} yet`, remedy: 'anchorhold image build' }]
}

/** By size and time: reading it all would be felt at every start. */
export const stamp = (path: string) => {
  const { size, mtimeMs } = statSync(path)
  return `${size} ${Math.floor(mtimeMs)}`
}

/** Of a release and not of its copies: each program that a cell is started from may bring its own. */
export const runtimeKey = (files: MachineFiles, cell: CellFiles): string =>
  digest([process.version, statSync(cell.node).size, readFileSync(cell.inside, 'utf8'), stamp(files.busybox)].join('\n'))

/** Memory that was saved can be restored into exactly the same machine and no other. */
export function snapshotKey(files: MachineFiles, runtime: string, qemu: string, shape: MachineShape): string {
  const machine = [...(shape.accel === 'kvm' ? [processorHere()] : []), JSON.stringify(shape)]
  return digest([stamp(files.kernel), files.initramfs, stamp(files.root), runtime, stamp(qemu), ...machine].join('\n'))
}

/** What a machine that the hardware runs has seen of it: its processor, in the version that the kernel and its microcode make of it. */
function processorHere(): string {
  const lines = readFileSync('/proc/cpuinfo', 'latin1').split('\n')
  const telling = lines.filter((line) =>
    /^(vendor_id|cpu family|model|stepping|microcode|flags|features|cpu \w+)\s*:/i.test(line),
  )
  return [release(), ...new Set(telling)].join('\n')
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)
