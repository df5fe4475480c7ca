import { close, constants, open, read, write } from 'node:fs'
import { Duplex } from 'node:stream'

/** While nobody is at its other end, a virtio port says that it is at its end. This long until it is asked again. */
const askAgainMs = 5
const readBytes = 64 * 1024

/** A character device as a stream, such as a port of virtio-serial. It ends when the other end leaves, not before that one
 *  has come. */
export function openDevice(path: string): Duplex {
  let fd = -1
  let hasHeard = false
  const stream: Duplex = new Duplex({
    construct(done) {
      open(path, constants.O_RDWR | constants.O_NOCTTY, (error, opened) => {
        if (error === null) fd = opened
        done(error)
      })
    },
    read() {
      const into = Buffer.allocUnsafe(readBytes)
      read(fd, into, 0, into.length, null, (error, length) => {
        if (stream.destroyed) return
        if (error !== null) return void stream.destroy(error)
        if (length === 0 && !hasHeard) return void setTimeout(() => stream._read(readBytes), askAgainMs)
        hasHeard = true
        stream.push(length === 0 ? null : into.subarray(0, length))
      })
    },
    write(bytes: Buffer, _, done) {
      let at = 0
      const next = (error: Error | null, length: number) => {
        at += length
        if (error !== null || at === bytes.length) return done(error)
        write(fd, bytes, at, bytes.length - at, null, next)
      }
      next(null, 0)
    },
    destroy(error, done) {
      if (fd === -1) return done(error)
      close(fd, () => done(error))
    },
  })
  return stream
}
