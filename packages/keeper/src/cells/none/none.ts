import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { Failure } from '@anchorhold/protocol/failures'
import type { CellDriver, CellProcess, SpawnOptions } from '../cell.ts'
import { cellProcess, type StdioChild } from '../cell-process.ts'
import { limitsOf } from '../limits/limits.ts'
import { isGone, type ProcessId, sessionOf, signalAll, signalPid, treeOf, until } from '../limits/processes.ts'

/** No cell at all: plain processes, for those who ask for it by name. Limits and a clean environment are all it gives.
 *  Does not stop: anything that the user it runs as can do, and a process that leaves its session before the end. */
export function noneDriver(): CellDriver {
  return {
    rung: 'none',
    missing: async () => [],
    async start(spec, signal) {
      signal.throwIfAborted()
      const running = new Map<number, StdioChild>()
      const over = new AbortController()
      const ended = Promise.withResolvers<string>()
      let limits = await limitsOf(spec, () => [...running.keys()])

      function launch(argv: readonly [string, ...string[]], { env, cwd }: SpawnOptions): CellProcess {
        const [file, ...args] = limits.wrap(argv)
        const child: StdioChild = spawn(file, args, {
          env: { ...env },
          cwd,
          stdio: ['pipe', 'pipe', 'pipe'],
          detached: true, // leads a session, by which its children can be found again
          ...(spec.runAs === null ? {} : spec.runAs),
        })
        const { pid } = child
        if (pid !== undefined) {
          running.set(pid, child)
          limits.admit(pid)
        }
        return cellProcess(child, (name) => pid !== undefined && signalPid(pid, name))
      }

      const processes = (): ProcessId[] => [...treeOf([...running.keys()]), ...[...running.keys()].flatMap(sessionOf)]

      async function end(): Promise<void> {
        over.abort()
        await until('the processes have ended', endTimeoutMs, () => {
          // Looked up anew each time: what is being ended may still have started something.
          const left = processes().filter((each) => !isGone(each))
          signalAll(left, 'SIGKILL')
          return left.length === 0
        })
        await limits[Symbol.asyncDispose]()
      }

      async function seenInside(): Promise<string> {
        const probe = launch(['cat', '/proc/self/limits'], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
        const [report, said, code] = await Promise.all([text(probe.stdout), text(probe.stderr), probe.exited])
        if (code !== 0) throw new Failure('cell_unavailable', `Cannot start a process: ${said.trim() || `it ended with ${code}`}`)
        return report
      }

      try {
        const report = await seenInside().catch(async (error: unknown) => {
          if (error instanceof Failure || spec.cgroups.length === 0) throw error
          limits = await limits.withoutGroups()
          return seenInside()
        })
        void limits.watch(over.signal).then(async (reason) => {
          if (reason === null) return
          await end()
          ended.resolve(`The cell was ended: ${reason}`)
        })
        return {
          limits: limits.inForce({ limits: report, tmpBytes: null }),
          ended: ended.promise,
          place: (hostPath) => hostPath,
          spawn(argv, options) {
            if (over.signal.aborted) throw new Failure('cell_unavailable', `Cannot run "${argv[0]}": the cell has ended`)
            return launch(argv, options)
          },
          [Symbol.asyncDispose]: end,
        }
      } catch (error) {
        await end()
        throw error
      }
    },
  }
}

const endTimeoutMs = 10_000
