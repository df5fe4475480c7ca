import type { ChildProcess } from 'node:child_process'
import { PassThrough, type Readable, type Writable } from 'node:stream'
import type { StdioChild } from './cell-process.ts'

/** More than a pipe holds. A command that has ended had no more than this on its way; what comes behind is said by what it left running. */
const underwayBytesMax = 1024 * 1024

/** Carries on what a command says, and ends that when the command ends: what it leaves running in its cell may hold the stream open for
 *  ever. Whatever the command itself has written is carried whole. */
export function carryUntilExit(child: ChildProcess, from: Readable, to: Writable): void {
  from.pipe(to)
  // Nobody reads it any more: what writes there learns that when it writes.
  to.once('close', () => from.destroy())
  from.once('error', () => to.end())
  child.once('exit', () => {
    let [came, before] = [0, -1]
    from.on('data', (bytes: Buffer) => (came += bytes.length))
    const look = (): void => {
      if (to.destroyed || to.writableEnded) return
      if (to.writableNeedDrain) return void to.once('drain', look)
      if (came !== before && came <= underwayBytesMax) {
        before = came
        // Between the two, the loop asks the kernel for what there is. Where it has given nothing, there is nothing left.
        return void setImmediate(() => setImmediate(look))
      }
      from.unpipe(to)
      to.end()
    }
    look()
  })
}

/** A child whose output ends with it. */
export function endingOutput(child: StdioChild): Pick<StdioChild, 'stdout' | 'stderr'> {
  const carried = (from: Readable): Readable => {
    const to = new PassThrough()
    carryUntilExit(child, from, to)
    return to
  }
  return { stdout: carried(child.stdout), stderr: carried(child.stderr) }
}
