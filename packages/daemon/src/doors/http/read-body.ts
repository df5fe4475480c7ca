import { sizeWords } from '@anchorhold/core/size-words'
import { Failure } from '@anchorhold/protocol/failures'
import type { IncomingMessage } from 'node:http'

/** Gives the JSON that a request carries; undefined where it carries nothing. */
export type BodyReader = (request: IncomingMessage, bytesMax: number) => Promise<unknown>

/** Holds no more than so many bytes of all who send something at the same time. */
export function bodyReader(allBytesMax: number): BodyReader {
  let held = 0

  async function boundedText(request: IncomingMessage, bytesMax: number): Promise<string> {
    const tooLarge = () => new Failure('too_large', `The request is larger than ${sizeWords(bytesMax)}`)
    if (Number(request.headers['content-length'] ?? 0) > bytesMax) throw tooLarge()
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const chunks: Buffer[] = []
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      held += chunk.length
      if (bytes <= bytesMax && held <= allBytesMax) return void chunks.push(chunk)
      // The rest is not read; the connection stays for the answer.
      request.removeAllListeners('data').pause()
      reject(bytes > bytesMax ? tooLarge() : crowded())
    })
    request.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')))
    request.once('close', () => reject(new Failure('bad_request', 'The request broke off')))
    try {
      return await promise
    } finally {
      held -= bytes
    }
  }

  return async (request, bytesMax) => {
    const text = await boundedText(request, bytesMax)
    if (text === '') return undefined
    if (!/^application\/json\b/i.test(request.headers['content-type'] ?? '')) {
      throw new Failure('bad_request', 'The body must be JSON', { hint: 'Send content-type: application/json' })
    }
    try {
      return JSON.parse(text)
    } catch {
      throw new Failure('bad_request', 'The body is not valid JSON')
    }
  }
}

const crowded = () => new Failure('too_many', 'Too much is being sent at once', { hint: 'Send it again in a moment' })
