// Runs inside the cell: carries its loopback to a window's socket, for agents that cannot speak to a socket.
//   node forwarder.mjs SOCKET PORT COMMAND ARGS…
import { spawn } from 'node:child_process'
import { createConnection, createServer } from 'node:net'
import { constants } from 'node:os'

const [socketPath, port, command, ...args] = process.argv.slice(2)
if (socketPath === undefined || port === undefined || command === undefined) {
  console.error('usage: forwarder SOCKET PORT COMMAND ARGS…')
  process.exit(64)
}
const server = createServer((inner) => {
  const outer = createConnection(socketPath)
  inner.pipe(outer)
  outer.pipe(inner)
  inner.on('error', () => outer.destroy())
  outer.on('error', () => inner.destroy())
})
server.listen(Number(port), '127.0.0.1', () => {
  const child = spawn(command, args, { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => {
    console.error(`Cannot run "${command}": ${error.message}`)
    process.exit(127)
  })
  child.on('exit', (code, signal) => process.exit(signal === null ? code : 128 + constants.signals[signal]))
})
