import type { IncomingMessage } from 'node:http'
import { gathered } from '../gathered.ts'

export const bodyBytesMax = 32 * 1024 * 1024
/** What is sent beyond the limit is thrown away up to here, so that the sender gets to read its refusal. */
const roomBytesMax = 256 * 1024
const discardBytesMax = 4 * bodyBytesMax

/** The body of a request; `too_large`, or `gone` when the sender left before it was all there. A request of announced length is
 *  paused when all of it is here: hearing of its end can wait until the caller resumes it, which it must. */
export function readBody(
  request: IncomingMessage,
  admit: (bytes: number) => boolean,
): Promise<Buffer | 'too_large' | 'crowded' | 'gone'> {
  const { promise, resolve } = Promise.withResolvers<Buffer | 'too_large' | 'crowded' | 'gone'>()
  let bytes = 0
  let refusal: 'too_large' | 'crowded' | null = null
  const said = request.headers['content-length']
  const length = said === undefined ? null : Number(said)
  // Of what was said to come only so much is believed before it is there.
  const body = gathered(Math.min(length ?? 0, roomBytesMax))
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (refusal === null && bytes > bodyBytesMax) refusal = 'too_large'
    if (refusal === null && !admit(chunk.length)) refusal = 'crowded'
    if (refusal === null) {
      body.add(chunk)
      if (bytes !== length) return
      request.pause()
      return done()
    }
    body.take()
    if (bytes > discardBytesMax) request.destroy()
  })
  const done = () => resolve(refusal ?? body.take())
  request.on('end', done)
  request.on('error', () => resolve('gone'))
  request.on('close', () => resolve('gone'))
  return promise
}
