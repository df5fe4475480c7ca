import type { Cell, CellProcess, SpawnOptions } from '@anchorhold/keeper/cells/cell'
import { Failure } from '@anchorhold/protocol/failures'
import { constants } from 'node:os'
import { pipeline } from 'node:stream/promises'

/** Runs a command of the cell's on the terminal of this process, or on its standard streams where that has none, and gives its exit code. */
export function attached(cell: Cell, argv: readonly [string, ...string[]], where: SpawnOptions): Promise<number> {
  const isPerson = process.stdin.isTTY && process.stdout.isTTY
  // By env, which tells 127 for a program that is not there, as a shell does.
  return untilSignal(isPerson ? cell.onTerminal(argv, where) : piped(cell.spawn(['/usr/bin/env', ...argv], where)), cell)
}

/** Joins the standard streams of this process to those of the command. */
async function piped(command: CellProcess): Promise<number> {
  process.stdin.pipe(command.stdin)
  const [, , code] = await Promise.all([
    pipeline(command.stdout, process.stdout, { end: false }),
    pipeline(command.stderr, process.stderr, { end: false }),
    command.exited,
  ])
  // Whoever is at its other end may never close it.
  process.stdin.destroy()
  return code
}

/** Whoever reads what the command says may go away, too. */
const ending = ['SIGTERM', 'SIGHUP', 'SIGPIPE'] as const
const ignore = () => {}

/** Ctrl-C is the command's to act on; whoever ends this process ends the cell. */
async function untilSignal(command: Promise<number>, cell: Cell): Promise<number> {
  const told = Promise.withResolvers<number>()
  // For good: Node ignores this one until somebody has listened for it, and not after. What is cleared away later writes to processes
  // that may have gone, and that would end this one.
  if (!process.listeners('SIGPIPE').includes(ignore)) process.on('SIGPIPE', ignore)
  const end = (signal: NodeJS.Signals) => told.resolve(128 + constants.signals[signal])
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.on(signal, ignore)
  for (const signal of ending) process.on(signal, end)
  const ended = cell.ended.then((why) => {
    throw new Failure('cell_unavailable', why)
  })
  try {
    return await Promise.race([command, told.promise, ended])
  } finally {
    for (const signal of ['SIGINT', 'SIGQUIT'] as const) process.off(signal, ignore)
    for (const signal of ending) process.off(signal, end)
  }
}
