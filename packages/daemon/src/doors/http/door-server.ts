import { requestHeadersMax } from '@anchorhold/protocol/http-limits'
import { createServer, type Server } from 'node:http'
import type { Socket } from 'node:net'
import type { HttpDoor } from './http.ts'
import type { TerminalDoor } from './terminal.ts'

/** Connections of callers who have not yet said what they want, or have their answer and say nothing more. */
const silentMax = 256

/** The server that the doors of HTTP stand on. Invariant: callers who say half of a request and wait take no place from others, however
 *  many they are: of too many the one that has been silent longest is let go. */
export function doorServer(http: HttpDoor, terminal: TerminalDoor): Server {
  const server = createServer(
    // Some clients offer to speak HTTP/2, and take it that nobody does.
    { shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket' },
    http,
  )
  server.maxHeadersCount = requestHeadersMax
  const silent = new Set<Socket>()
  const wait = (socket: Socket) => {
    if (socket.destroyed) return
    silent.add(socket)
    if (silent.size <= silentMax) return
    const [first] = silent
    silent.delete(first!)
    first!.destroy()
  }
  server.on('connection', (socket: Socket) => {
    socket.once('close', () => silent.delete(socket))
    wait(socket)
  })
  server.on('request', (request, response) => {
    const { socket, headers } = request
    const heard = () => void silent.delete(socket)
    if (headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0) heard()
    else request.once('end', heard)
    response.once('finish', () => wait(socket))
  })
  server.on('upgrade', (request, socket, head) => {
    silent.delete(request.socket)
    socket.on('error', () => {})
    terminal(request, socket, head)
  })
  return server
}
