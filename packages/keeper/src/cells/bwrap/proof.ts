import type { Readable } from 'node:stream'
import type { SeenInside } from '../limits/limits.ts'
import { unavailable } from './lacks.ts'

/** Reports how it is held. */
export const reportCommand = ['cat', '/proc/self/status', '/proc/self/mountinfo', '/proc/self/limits'] as const

/** What `reportCommand` has written: all of it as soon as that is there, or as much as there was when it ended. */
export async function readReport(stdout: Readable): Promise<{ readonly report: string; readonly isWhole: boolean }> {
  const { promise, resolve } = Promise.withResolvers<{ report: string; isWhole: boolean }>()
  let report = ''
  // It goes on being read to its end: one who writes must not be kept waiting.
  stdout.setEncoding('utf8').on('data', (piece: string) => {
    report += piece
    if (wholeReport.test(report)) resolve({ report, isWhole: true })
  })
  for (const end of ['close', 'error']) stdout.once(end, () => resolve({ report, isWhole: false }))
  return promise
}

/** The last line of /proc/self/limits, which a report ends with. */
const wholeReport = /^Max realtime timeout .*\n$/m

/** Throws unless the process that wrote the report was held as it should be. */
export function checkReport(report: string, tmpBytes: number): SeenInside {
  const wrong = postureWanted.filter((line) => !line.test(report))
  if (wrong.length > 0) {
    throw unavailable([
      {
        what: `a process inside was not held as it should be (${wrong.map(String).join(', ')})`,
        remedy: 'Update bubblewrap and the kernel',
      },
    ])
  }
  const sizes = ['/tmp', '/dev/shm', '/var/tmp'].map((path) => {
    const mount = report.split('\n').find((line) => line.split(' ')[4] === path)
    return Number(/[ ,]size=(\d+)k/.exec(mount ?? '')?.[1] ?? Infinity) * 1024
  })
  const seen = Math.max(...sizes)
  if (seen > tmpBytes)
    throw unavailable([{ what: 'the size of /tmp could not be limited', remedy: 'Install bubblewrap 0.8.0 or newer' }])
  return { limits: report, tmpBytes: seen }
}

/** Lines of /proc/self/status, proc(5). */
const postureWanted = [
  /^Uid:\t1000\t1000\t1000\t1000$/m,
  /^CapPrm:\t0{16}$/m,
  /^CapEff:\t0{16}$/m,
  /^CapBnd:\t0{16}$/m,
  /^NoNewPrivs:\t1$/m,
  /^Seccomp:\t2$/m,
]
