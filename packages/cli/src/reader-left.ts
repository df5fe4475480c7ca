import { spawn } from 'node:child_process'
import { fstatSync } from 'node:fs'

/** Says when nobody reads a pipe any more. Node learns of it only when it writes, but GNU tail waits for it; where there is another
 *  tail or none, the next write tells. */
export function onReaderLeft(fd: number, left: () => void): Disposable {
  if (!fstatSync(fd).isFIFO()) return { [Symbol.dispose]() {} }
  // It has the pipe open as well: it must not outlive us, or whoever reads would wait for its end.
  const tail = spawn('tail', ['-f', `--pid=${process.pid}`, '/dev/null'], { stdio: ['ignore', fd, 'ignore'] })
  tail.once('exit', (_, signal) => {
    if (signal === 'SIGPIPE') left()
  })
  tail.once('error', () => {})
  tail.unref()
  return {
    [Symbol.dispose]() {
      tail.kill()
    },
  }
}
