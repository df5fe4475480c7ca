import { createConnection, type Socket, type TcpNetConnectOpts } from 'node:net'
import type { Duplex } from 'node:stream'

/** What a connection reads into: little at first, four times as much after each read that fills it. */
const bytes = { first: 16 * 1024, mostAsStream: 64 * 1024, most: 512 * 1024, growth: 4 } as const
/** What all connections may hold beyond their first bytes. */
const grownBytesMax = 40 * 1024 * 1024
let grownBytes = 0

function hold(more: number): boolean {
  if (grownBytes + more > grownBytesMax) return false
  grownBytes += more
  return true
}

const taps = new WeakMap<Socket, (to: Duplex) => void>()

/** Connects as `createConnection()` does. What comes can be read as a stream, and from some point on be poured on without becoming one:
 *  that costs a third of the time for each byte. */
export function pourable(options: TcpNetConnectOpts): Socket {
  let buffer = Buffer.allocUnsafeSlow(bytes.first)
  let sink: Duplex | null = null
  const resize = (size: number) => {
    if (size === buffer.length || !hold(size - buffer.length)) return
    buffer = Buffer.allocUnsafeSlow(size)
  }
  /** Invariant: nothing is read into a buffer before what was read last has left it. */
  function take(length: number): boolean {
    const chunk = buffer.subarray(0, length)
    const isTaken = sink === null ? socket.push(Buffer.from(chunk)) : hasTaken(sink, chunk)
    // Another buffer from here on, if any: what is still to leave the last one is not touched.
    if (length === buffer.length) resize(Math.min(sink === null ? bytes.mostAsStream : bytes.most, bytes.growth * length))
    else if (length < buffer.length / (2 * bytes.growth)) resize(bytes.first)
    return isTaken
  }
  /** Whether it has all of it already; if not, it is read on when it has. */
  function hasTaken(to: Duplex, chunk: Buffer): boolean {
    let isTaken = true
    to.write(chunk, (error) => void (!isTaken && error == null && socket.resume()))
    isTaken = to.writableLength === 0
    return isTaken
  }
  const socket = createConnection({ ...options, onread: { buffer: () => buffer, callback: take } })
  socket.once('close', () => resize(bytes.first))
  taps.set(socket, (to) => {
    for (let chunk: Buffer | null; (chunk = socket.read() as Buffer | null) !== null;) to.write(chunk)
    sink = to
    socket.once('end', () => to.end())
    socket.resume()
  })
  return socket
}

/** Lets all that comes from a connection go on to another, no faster than that takes it. */
export function pour(from: Duplex, to: Duplex): void {
  const tap = taps.get(from as Socket)
  if (tap === undefined) from.pipe(to)
  else tap(to)
}
