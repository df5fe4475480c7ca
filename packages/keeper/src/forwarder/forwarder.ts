// Runs inside the cell: carries ports of its loopback to windows' sockets, for programs that cannot speak to a socket.
//   node forwarder.mjs [socks:]PORT=SOCKET… [-- COMMAND ARGS…]
// Who speaks SOCKS5 on a port that is marked so is led to a window that speaks HTTP.
// With a command it runs that once the ports are open, and ends with it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createConnection, createServer, type Socket } from 'node:net'
import { constants } from 'node:os'
import { join } from './join.ts'
import { serveSocks } from './socks.ts'

const given = process.argv.slice(2)
const end = given.includes('--') ? given.indexOf('--') : given.length
const routes = given.slice(0, end).map((route) => /^(socks:)?(\d+)=(.+)$/.exec(route))
const [command, ...args] = given.slice(end + 1)
if (routes.length === 0 || routes.includes(null)) {
  console.error('usage: forwarder [socks:]PORT=SOCKET… [-- COMMAND ARGS…]')
  process.exit(64)
}

await Promise.all(routes.map((route) => listen(Number(route![2]), route![3]!, route![1] === undefined ? carry : serveSocks)))
if (command !== undefined) run(command)

async function listen(port: number, socketPath: string, serve: (inner: Socket, socketPath: string) => void): Promise<void> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (inner) => serve(inner, socketPath))
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
}

function carry(inner: Socket, socketPath: string): void {
  const outer = createConnection({ path: socketPath, allowHalfOpen: true })
  join(inner, outer)
  join(outer, inner)
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
