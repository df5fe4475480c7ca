import type { Readable } from 'node:stream'
import type { SeenInside } from '../limits/limits.ts'
import { readProc } from '../limits/processes.ts'
import { unavailable } from './lacks.ts'

/** What a process of the host's own says in a cell when it runs there, and waits. */
export const hereLine = 'It is here.'

/** Reads that, and nothing that comes behind it. Null once it was said; where the process ended before, what it said instead. */
export async function untilHere({ stdout, stderr }: Record<'stdout' | 'stderr', Readable>): Promise<string | null> {
  const [here, said] = [gather(stdout, `${hereLine}\n`), gather(stderr)]
  const isHere = await here.found
  if (!isHere) await said.found
  said.stop()
  return isHere ? null : said.text()
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

/** What the kernel says of a process, in files of its folder in /proc, proc(5). */
export type Held = { readonly status: string; readonly uid_map: string; readonly mountinfo: string; readonly limits: string }

/** How a process is held, as it is seen from outside: nothing in the cell has a part in that. All of it is empty when it is gone. */
export function heldAs(pid: number): Held {
  const read = (name: keyof Held) => readProc(pid, name) ?? ''
  return { status: read('status'), uid_map: read('uid_map'), mountinfo: read('mountinfo'), limits: read('limits') }
}

/** Throws unless a process is held as it should be, which whoever started it did as this user. */
export function checkHeld({ status, uid_map, mountinfo, limits }: Held, uid: number, tmpBytes: number): SeenInside {
  const wrong = [
    ...postureWanted(uid).filter((line) => !line.test(status)),
    // Itself and nobody else, under another number.
    ...[new RegExp(`^ +1000 +${uid} +1\n$`)].filter((line) => !line.test(uid_map)),
  ]
  if (wrong.length > 0) {
    throw unavailable([
      {
        what: `a process inside was not held as it should be (${wrong.map(String).join(', ')})`,
        remedy: 'Update bubblewrap and the kernel',
      },
    ])
  }
  const sizes = ['/tmp', '/dev/shm', '/var/tmp'].map((path) => {
    const mount = mountinfo.split('\n').find((line) => line.split(' ')[4] === path)
    return Number(/[ ,]size=(\d+)k/.exec(mount ?? '')?.[1] ?? Infinity) * 1024
  })
  const seen = Math.max(...sizes)
  if (seen > tmpBytes)
    throw unavailable([{ what: 'the size of /tmp could not be limited', remedy: 'Install bubblewrap 0.8.0 or newer' }])
  return { limits, tmpBytes: seen }
}

const postureWanted = (uid: number) => [
  new RegExp(`^Uid:(?:\t${uid}){4}$`, 'm'),
  /^CapPrm:\t0{16}$/m,
  /^CapEff:\t0{16}$/m,
  /^CapBnd:\t0{16}$/m,
  /^NoNewPrivs:\t1$/m,
  /^Seccomp:\t2$/m,
]
