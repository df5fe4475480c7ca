import type { Readable } from 'node:stream'
import type { SeenInside } from '../limits/limits.ts'
import { unavailable } from './lacks.ts'

/** What tells of a process how it is held, read by itself, and what it says when it has read that. */
export const reportFiles = ['/proc/self/status', '/proc/self/mountinfo', '/proc/self/limits'] as const
export const lastLine = 'So it is held.'

export type Report = {
  readonly report: string
  /** All of it was there; otherwise as much as there was when the process ended. */
  readonly isWhole: boolean
  /** What it said beside that. */
  readonly said: string
}

/** Reads what was written of them, and nothing that comes behind it. */
export async function readReport({ stdout, stderr }: Record<'stdout' | 'stderr', Readable>): Promise<Report> {
  const [report, said] = [gather(stdout, `\n${lastLine}\n`), gather(stderr)]
  const isWhole = await report.found
  if (!isWhole) await said.found
  said.stop()
  return { report: report.text(), isWhole, said: said.text() }
}

/** Takes in what a stream has until it ends so, or to its very end, and leaves it as it was found: by its data it would be left paused. */
function gather(stream: Readable, end: string | null = null) {
  const { promise: found, resolve } = Promise.withResolvers<boolean>()
  let text = ''
  const stop = () => void stream.off('readable', take)
  function take(): void {
    for (let piece = next(); piece !== null; piece = next()) {
      text += String(piece)
      if (end === null || !text.endsWith(end)) continue
      stop()
      return resolve(true)
    }
  }
  const next = () => stream.read() as Buffer | null
  stream.on('readable', take)
  for (const over of ['close', 'error']) stream.once(over, () => resolve(false))
  return { found, stop, text: () => text }
}

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
