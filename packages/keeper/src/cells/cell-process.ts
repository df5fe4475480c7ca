import type { ChildProcess, ChildProcessByStdio } from 'node:child_process'
import { constants } from 'node:os'
import type { Readable, Writable } from 'node:stream'
import type { CellProcess } from './cell.ts'

export type StdioChild = ChildProcessByStdio<Writable, Readable, Readable>

/** A child as the rest of the keeper sees it. `deliver` brings a signal to the command, wherever that runs. `output` is what it says, where
 *  that does not end with it by itself. */
export function cellProcess(
  child: StdioChild,
  deliver: (signal: NodeJS.Signals) => boolean,
  output: Pick<StdioChild, 'stdout' | 'stderr'> = child,
): CellProcess {
  let exitCode: number | null = null
  let killed = false
  const exited = exitOf(child).then((code) => (exitCode = code))
  // A process that has ended does not read what is still written to it; its exit says so.
  child.stdin.on('error', () => {})
  return {
    stdin: child.stdin,
    stdout: output.stdout,
    stderr: output.stderr,
    exited,
    get exitCode() {
      return exitCode
    },
    get killed() {
      return killed
    },
    kill(signal) {
      if (exitCode !== null) return false
      const sent = deliver(signal)
      killed ||= sent
      return sent
    },
  }
}

/** The exit code as a shell tells it. */
export function exitOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(code ?? 128 + constants.signals[signal ?? 'SIGKILL']))
    child.once('error', () => resolve(couldNotStart))
  })
}
/** As a shell has it. */
const couldNotStart = 127
