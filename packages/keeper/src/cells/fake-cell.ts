import { Failure } from '@anchorhold/protocol/failures'
import { PassThrough } from 'node:stream'
import type { Cell, CellDriver, CellProcess, CellSpec } from './cell.ts'

/** A cell for tests: it isolates nothing and runs nothing but what `run` answers for. */
export interface FakeCells extends CellDriver {
  readonly specs: CellSpec[]
  /** How many cells stand now. */
  readonly standing: number
  /** Ends the last one as a watchdog does. */
  end(why: string): void
}

export type FakeCellsOptions = {
  /** Resolves when the cell may stand; rejects when it cannot. */
  readonly standing?: () => Promise<void>
  readonly limits?: Cell['limits']
  readonly trouble?: Cell['trouble']
  /** What a process says on its standard output before it ends. */
  readonly run?: (argv: readonly string[]) => string
}

export function fakeCells({
  standing = async () => {},
  run,
  limits = [],
  trouble = { ending: null, met: null },
}: FakeCellsOptions = {}): FakeCells {
  const specs: CellSpec[] = []
  const cells = new Set<Cell>()
  let end: (why: string) => void = () => {}
  return {
    rung: 'none',
    specs,
    get standing() {
      return cells.size
    },
    end: (why) => end(why),
    missing: async () => [],
    async start(spec) {
      specs.push(spec)
      await standing()
      const ended = Promise.withResolvers<string>()
      end = ended.resolve
      const cell: Cell = {
        limits,
        ended: ended.promise,
        trouble,
        place: (hostPath) => hostPath,
        onTerminal: async () => 0,
        spawn(argv) {
          if (run === undefined) throw new Failure('cell_unavailable', `Cannot run "${argv[0]}": this cell runs nothing`)
          return said(run(argv))
        },
        async [Symbol.asyncDispose]() {
          cells.delete(cell)
        },
      }
      cells.add(cell)
      return cell
    },
  }
}

function said(text: string): CellProcess {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  stdout.end(text)
  stderr.end()
  return {
    stdin: new PassThrough(),
    stdout,
    stderr,
    exitCode: 0,
    killed: false,
    kill: () => false,
    exited: Promise.resolve(0),
  }
}
