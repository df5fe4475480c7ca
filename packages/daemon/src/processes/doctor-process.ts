import { DoctorReport } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Runtime } from './runtime.ts'

/** Asks a process of its own what this machine can isolate, and remembers the answer. */
export function doctorProcess(
  runtime: Runtime,
  home: string,
  log: (message: string) => void,
): (options: { readonly fresh: boolean }) => Promise<DoctorReport> {
  let last: Promise<DoctorReport> | null = null
  async function examine(args: readonly string[]): Promise<DoctorReport> {
    try {
      const { stdout } = await promisify(execFile)(runtime.node, [runtime.doctor, ...args], {
        env: { HOME: home },
        cwd: '/',
        timeout: 60_000,
      })
      return DoctorReport.parse(JSON.parse(stdout))
    } catch (cause) {
      last = null
      log(`doctor: ${cause instanceof Error ? cause.message : String(cause)}`)
      throw new Failure('cell_unavailable', 'Cannot find out what this machine can isolate', {
        cause,
        hint: 'Run anchorhold doctor',
      })
    }
  }
  return ({ fresh }) => {
    // A fresh look is asked for by a person, who wants the figures; the rest needs to know what starts.
    if (fresh || last === null) last = examine(fresh ? [] : ['--quick'])
    return last
  }
}
