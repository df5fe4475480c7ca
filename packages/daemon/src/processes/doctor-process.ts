import { DoctorReport } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import type { Rung } from '@anchorhold/protocol/rungs'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Runtime } from './runtime.ts'

/** What to look at: everything, or one rung; from what is known, or by trying again. */
export type Look = { readonly fresh: boolean; readonly rung?: Rung }

/** Asks a process of its own what this machine can isolate, and remembers the answer for each rung. */
export function doctorProcess(
  runtime: Runtime,
  { home, memory, images }: { readonly home: string; readonly memory: string; readonly images: string },
  log: (message: string) => void,
): (look: Look) => Promise<DoctorReport> {
  const known = new Map<Rung, Promise<DoctorReport>>()
  /** Looks that are under way: who wants the same meanwhile waits for the same. */
  const looking = new Map<string, Promise<DoctorReport>>()
  async function examine({ fresh, rung }: Look): Promise<DoctorReport> {
    const args = [
      ...['--memory', memory, '--images', images, '--engine', runtime.engine ?? 'podman'],
      ...(fresh ? ['--fresh'] : []),
      ...(rung === undefined ? [] : ['--rung', rung]),
    ]
    try {
      const { stdout } = await promisify(execFile)(runtime.node, [runtime.doctor, ...args], {
        env: { HOME: home, PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin' },
        cwd: '/',
        timeout: examineMs,
      })
      return DoctorReport.parse(JSON.parse(stdout))
    } catch (cause) {
      if (rung !== undefined) known.delete(rung)
      log(`doctor: ${cause instanceof Error ? cause.message : String(cause)}`)
      throw new Failure('cell_unavailable', 'Cannot find out what this machine can isolate', {
        cause,
        hint: 'Run anchorhold doctor',
      })
    }
  }
  function lookOnce(look: Look): Promise<DoctorReport> {
    const key = `${look.rung ?? 'all'} ${look.fresh}`
    const under = looking.get(key) ?? examine(look).finally(() => looking.delete(key))
    looking.set(key, under)
    return under
  }
  return (look) => {
    const { rung } = look
    if (rung === undefined) return lookOnce(look)
    const last = look.fresh ? undefined : known.get(rung)
    if (last !== undefined) return last
    const looked = lookOnce(look)
    known.set(rung, looked)
    return looked
  }
}

/** Every rung, several times, under emulation. */
const examineMs = 10 * 60_000
