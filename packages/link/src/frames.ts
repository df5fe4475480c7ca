import { frameBytesMax } from '@anchorhold/protocol/link'
import type { Socket } from 'node:net'

/** Calls back with each line of JSON that comes in; a line that is too long or no JSON ends the connection. */
export function readFrames(socket: Socket, onFrame: (frame: unknown) => void): void {
  let parts: Buffer[] = []
  let size = 0
  socket.on('data', (chunk: Buffer) => {
    let start = 0
    for (let end = chunk.indexOf(0x0a); end !== -1; end = chunk.indexOf(0x0a, start)) {
      parts.push(chunk.subarray(start, end))
      const line = (parts.length === 1 ? parts[0]! : Buffer.concat(parts)).toString('utf8')
      parts = []
      size = 0
      start = end + 1
      try {
        onFrame(JSON.parse(line))
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

export function writeFrame(socket: Socket, frame: unknown): boolean {
  return socket.writable && socket.write(`${JSON.stringify(frame)}\n`)
}
