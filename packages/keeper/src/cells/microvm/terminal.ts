import { randomUUID } from 'node:crypto'
import type { CellProcess, SpawnOptions } from '../cell.ts'

type Spawn = (argv: readonly [string, ...string[]], options: SpawnOptions) => CellProcess

/** A command of the guest's on the terminal of this very process: it gets one of its own from script(1), and what a person types and
 *  sees goes to and fro as it is. The exit code passes, and so does a change of size. */
export async function onTerminal(spawn: Spawn, argv: readonly [string, ...string[]], options: SpawnOptions): Promise<number> {
  const { stdin, stdout } = process
  const name = `/tmp/.terminal-${randomUUID()}`
  const size = () => `rows ${stdout.rows ?? 24} cols ${stdout.columns ?? 80}`
  const begin = `stty ${size()}; tty > ${name}; exec ${argv.map(quoted).join(' ')}`
  const command = spawn(['script', '--quiet', '--return', '--command', begin, '/dev/null'], options)
  const resize = () => {
    const change = spawn(['sh', '-c', `stty -F "$(cat ${name})" ${size()}`], { env: { PATH: '/usr/bin:/bin' }, cwd: '/' })
    change.stdin.end()
    for (const stream of [change.stdout, change.stderr]) stream.resume()
  }
  const isRaw = stdin.isTTY && stdin.isRaw
  if (stdin.isTTY) stdin.setRawMode(true)
  stdout.on('resize', resize)
  stdin.pipe(command.stdin)
  command.stdout.pipe(stdout, { end: false })
  command.stderr.pipe(process.stderr, { end: false })
  try {
    return await command.exited
  } finally {
    stdin.unpipe(command.stdin)
    stdin.pause()
    stdout.off('resize', resize)
    if (stdin.isTTY) stdin.setRawMode(isRaw)
  }
}

const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`
