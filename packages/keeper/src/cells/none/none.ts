import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { Failure } from '@anchorhold/protocol/failures'
import type { CellDriver, CellProcess, SpawnOptions } from '../cell.ts'
import { cellProcess, exitOf, type StdioChild } from '../cell-process.ts'
import { limitsOf } from '../limits/limits.ts'
import {
  identify,
  isEnding,
  isGone,
  type ProcessId,
  sessionOf,
  signalAll,
  signalPid,
  treeOf,
  until,
} from '../limits/processes.ts'
import { standing } from '../standing.ts'
import { endingOutput } from '../until-exit.ts'

/** No cell at all: plain processes, for those who ask for it by name. Limits and a clean environment are all it gives.
 *  Does not stop: anything that the user it runs as can do, and a process that leaves its session before the end. */
export function noneDriver(): CellDriver {
  return {
    rung: 'none',
    missing: async () => [],
    async start(spec, signal) {
      signal.throwIfAborted()
      if (spec.covers.length > 0)
        throw new Failure('cell_unavailable', 'Cannot hide files from an agent that has no cell: it sees the whole folder', {
          hint: 'Choose a rung that is a wall, or say that nothing is to be hidden: --repo-filter none',
        })
      const leaders = new Set<Leader>()
      const processes = () => [...leaders].flatMap(processesOf)
      let limits = limitsOf(spec, () => processes().map(({ pid }) => pid))

      function launch(argv: readonly [string, ...string[]], { env, cwd }: SpawnOptions): CellProcess {
        const [file, ...args] = limits.wrap(argv)
        const child: StdioChild = spawn(file, args, {
          env: { ...env },
          cwd,
          stdio: ['pipe', 'pipe', 'pipe'],
          detached: true, // leads a session, by which its children can be found again
          ...(spec.runAs === null ? {} : spec.runAs),
        })
        const id = child.pid === undefined ? null : identify(child.pid)
        if (id !== null) {
          const leader: Leader = { id, left: null }
          leaders.add(leader)
          child.once('exit', () => {
            leader.left = sessionOf(id.pid)
            if (leader.left.length === 0) leaders.delete(leader)
          })
          admit(id)
        }
        return cellProcess(child, (name) => id !== null && signalPid(id.pid, name), endingOutput(child))
      }

      function admit(id: ProcessId): void {
        try {
          limits.admit(id.pid)
        } catch (error) {
          if (isEnding(id)) return
          signalPid(id.pid, 'SIGKILL')
          throw error
        }
      }

      const stands = standing(async () => {
        await until('the processes have ended', endTimeoutMs, () => {
          // Looked up anew each time: what is being ended may still have started something.
          const left = processes().filter((each) => !isGone(each))
          signalAll(left, 'SIGKILL')
          return left.length === 0
        })
        await limits[Symbol.asyncDispose]()
      })

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
        void limits.watch(stands.over).then((why) => (why === null ? undefined : stands.endBecause(why)))
        return {
          limits: await limits.inForce({ limits: report, tmpBytes: null }),
          ended: stands.ended,
          get trouble() {
            return { ending: stands.ending, met: limits.met() }
          },
          place: (hostPath) => hostPath,
          spawn(argv, options) {
            stands.requireFor(argv[0])
            return launch(argv, options)
          },
          async onTerminal(argv, { env, cwd }) {
            const [file, ...args] = limits.wrap(argv)
            return exitOf(spawn(file, args, { env: { ...env }, cwd, stdio: 'inherit', ...spec.runAs }))
          },
          [Symbol.asyncDispose]: stands.end,
        }
      } catch (error) {
        await stands.end()
        throw error
      }
    },
  }
}

/** A process that leads a session, and those of it that were still there when it ended. */
type Leader = { readonly id: ProcessId; left: readonly ProcessId[] | null }

/** Invariant: nobody else's. A leader's number is not given away for as long as one of its session lives, but then it is. */
function processesOf({ id, left }: Leader): ProcessId[] {
  if (left === null) return [...treeOf([id.pid]), ...sessionOf(id.pid)]
  return left.every(isGone) ? [] : sessionOf(id.pid)
}

const endTimeoutMs = 10_000
