import { ownerMark } from '@anchorhold/link/owner'
import { createHash } from 'node:crypto'
import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { release } from 'node:os'
import { z } from 'zod'
import type { Accel } from './argv.ts'
import { type MachineFiles, stamp } from './files.ts'
import type { MachineArch } from './reseed.ts'

/** Whether the hardware runs machines here, by a real boot: when that was tried, and what was seen. */
export type AccelVerdict = { readonly accel: Accel; readonly at: number; readonly why: string }

/** How many times longer everything takes in a machine: seen to be ten to thirty where it is worked out in software. */
export const slownessBy: Readonly<Record<Accel, number>> = { kvm: 1, tcg: 20 }

const Remembered = z.object({ accel: z.enum(['kvm', 'tcg']), at: z.int(), why: z.string(), machine: z.string() })

/** Null where it was never tried, or on a machine that was another one then. */
export function recallAccel(files: Pick<MachineFiles, 'accel' | 'kernel'>, qemu: string, kvm: string): AccelVerdict | null {
  try {
    const { machine, ...verdict } = Remembered.parse(JSON.parse(readFileSync(files.accel, 'utf8')))
    return machine === machineOf(files, qemu, kvm) ? verdict : null
  } catch {
    return null
  }
}

export function rememberAccel(
  files: Pick<MachineFiles, 'accel' | 'kernel'>,
  qemu: string,
  kvm: string,
  verdict: AccelVerdict,
): void {
  const part = `${files.accel}-${ownerMark()}.part`
  // Every session's user reads it.
  writeFileSync(part, JSON.stringify({ ...verdict, machine: machineOf(files, qemu, kvm) }), { mode: 0o644 })
  renameSync(part, files.accel)
}

/** What a verdict depends on: with another kernel, another QEMU or another device it may be otherwise. */
function machineOf({ kernel }: Pick<MachineFiles, 'kernel'>, qemu: string, kvm: string): string {
  const device = statSync(kvm, { throwIfNoEntry: false })
  const words = [release(), stamp(kernel), qemu, stamp(qemu), kvm, device?.mode, device?.uid, device?.gid, device?.rdev]
  return createHash('sha256').update(words.join('\n')).digest('hex')
}

/** Why there is no need to try; null when only a boot can tell. */
export function hopeless(arch: MachineArch, kvm: string, cpuinfo = readCpuinfo()): string | null {
  if (statSync(kvm, { throwIfNoEntry: false }) === undefined) return `there is no "${kvm}"`
  // The device may be there all the same, and stand for something that runs no ordinary kernel.
  if (arch === 'x64' && !/^flags\s*:.*\b(vmx|svm)\b/m.test(cpuinfo)) return 'the processor has neither vmx nor svm'
  return null
}

function readCpuinfo(): string {
  try {
    return readFileSync('/proc/cpuinfo', 'latin1')
  } catch {
    return ''
  }
}

/** In words for an operator. */
export function accelNote(verdict: AccelVerdict | null): string {
  const remedy = 'anchorhold doctor --fresh'
  if (verdict === null) return `worked out in software, which is slow: whether the hardware can was not tried yet (${remedy})`
  const when = new Date(verdict.at).toISOString().slice(0, 16).replace('T', ' ')
  if (verdict.accel === 'kvm') return `run by the hardware (KVM): ${verdict.why} on ${when}`
  return `worked out in software, which is slow: the hardware (KVM) was tried on ${when}, and ${verdict.why}`
}
