// Runs inside the cell: carries ports of its loopback to windows' sockets, for programs that cannot speak to a socket.
//   node forwarder.mjs PORT=SOCKET… [-- COMMAND ARGS…]
// With a command it runs that once the ports are open, and ends with it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'
import { constants } from 'node:os'

const given = process.argv.slice(2)
const end = given.includes('--') ? given.indexOf('--') : given.length
const routes = given.slice(0, end).map((route) => /^(\d+)=(.+)$/.exec(route))
const [command, ...args] = given.slice(end + 1)
if (routes.length === 0 || routes.includes(null)) {
  console.error('usage: forwarder PORT=SOCKET… [-- COMMAND ARGS…]')
  process.exit(64)
}

await Promise.all(routes.map((route) => carry(Number(route![1]), route![2]!)))
if (command !== undefined) run(command)

async function carry(port: number, socketPath: string): Promise<void> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (inner) => {
    const outer = createConnection({ path: socketPath, allowHalfOpen: true })
    join(inner, outer)
    join(outer, inner)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
}

function join(from: Socket, to: Socket): void {
  from.pipe(to)
  from.once('error', () => to.destroy())
  // What it has sent is under way; one that ended without a word ends the other.
  from.once('close', () => to.destroySoon())
}

function run(program: string): void {
  const child = spawn(program, args, { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => {
    console.error(`Cannot run "${program}": ${error.message}`)
    process.exit(127)
  })
  child.on('exit', (code, signal) => process.exit(signal === null ? code : 128 + constants.signals[signal]))
}
