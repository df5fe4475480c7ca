import { frameBytesMax } from '@anchorhold/protocol/link'
import { parseFrame } from './parse-frame.ts'
import { constants } from 'node:fs'
import { chmod, lstat, open, rm } from 'node:fs/promises'
import { createConnection, createServer, type Socket } from 'node:net'
import { O_PATH } from './found-file.ts'

/** How frames travel between the processes of one machine, so that a simulation can stand in for it. */
export interface Wire {
  /** Throws when nobody listens there. A link is not followed. */
  connect(path: string, heard: Heard): Promise<Connection>
  /** Whatever was there before is replaced: whoever listens holds the lock that goes with it. */
  listen(path: string, onConnection: (connection: Connection) => Heard): Promise<Listening>
}

/** One end. Frames arrive whole and in order, or the connection is closed. */
export interface Connection {
  readonly open: boolean
  /** What has been sent and not gone out yet. */
  readonly backlogBytes: number
  send(...frames: readonly unknown[]): void
  /** Resolves when the other end has taken enough for more to be sent, or when it is gone. */
  drained(): Promise<void>
  /** Closes at once. */
  close(): void
}

export type Heard = { frame(frame: unknown): void; closed(): void }

export interface Listening {
  /** Takes no more connections and ends those there are, after what was sent on them; a reader that takes nothing is not waited
   *  for longer than this. */
  close(withinMs: number): Promise<void>
}

/** Lines of JSON over unix sockets that only this user can enter. */
export const unixWire: Wire = {
  async connect(path, heard) {
    // Whoever owns the folder may lay a link there, to a socket that only this end may enter. So what is looked at is held open and entered
    // by that, and who answers is asked for his name all the same.
    await using held = process.platform === 'linux' ? await open(path, O_PATH | constants.O_NOFOLLOW) : null
    if (!(await (held?.stat() ?? lstat(path))).isSocket()) throw new Error(`Cannot connect to "${path}": it is no socket`)
    const socket = createConnection(held === null ? path : `/proc/self/fd/${held.fd}`)
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.once('connect', () => {
        socket.off('error', reject)
        resolve()
      })
    })
    return connection(socket, heard)
  },
  async listen(path, onConnection) {
    const sockets = new Set<Socket>()
    const server = createServer((socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      // It hears nothing before it is told who listens.
      let heard: Heard | null = null
      const one = connection(socket, { frame: (frame) => heard?.frame(frame), closed: () => heard?.closed() })
      heard = onConnection(one)
    })
    await rm(path, { force: true })
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(path, resolve))
    await chmod(path, 0o600)
    return {
      async close(withinMs) {
        const closed = new Promise((resolve) => server.close(resolve))
        await rm(path, { force: true })
        for (const socket of sockets) socket.destroySoon()
        const cut = setTimeout(() => sockets.forEach((socket) => socket.destroy()), withinMs)
        await closed
        clearTimeout(cut)
      },
    }
  },
}

function connection(socket: Socket, heard: Heard): Connection {
  socket.on('error', () => socket.destroy())
  socket.once('close', heard.closed)
  readLines(socket, heard.frame)
  return {
    get open() {
      return !socket.destroyed && socket.writable
    },
    get backlogBytes() {
      return socket.writableLength
    },
    send(...frames) {
      if (socket.writable) socket.write(frames.map((frame) => `${JSON.stringify(frame)}\n`).join(''))
    },
    drained() {
      if (!socket.writableNeedDrain || socket.destroyed) return Promise.resolve()
      return new Promise((resolve) => {
        const done = () => {
          socket.off('drain', done).off('close', done)
          resolve()
        }
        socket.on('drain', done).on('close', done)
      })
    },
    close: () => void socket.destroy(),
  }
}

/** Calls back with each line of JSON that comes in; a line that is too long, no JSON or not understood ends the connection. */
function readLines(socket: Socket, onFrame: (frame: unknown) => void): void {
  let parts: Buffer[] = []
  let size = 0
  socket.on('data', (chunk: Buffer) => {
    let start = 0
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      parts.push(chunk.subarray(start, end))
      const line = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
      parts = []
      size = 0
      start = end + 1
      try {
        onFrame(parseFrame(line))
      } catch (error) {
        socket.destroy(error instanceof Error ? error : new Error(String(error)))
        return
      }
    }
    if (start < chunk.length) {
      parts.push(chunk.subarray(start))
      size += chunk.length - start
      if (size > frameBytesMax) socket.destroy(new Error('A frame is too long'))
    }
  })
}
