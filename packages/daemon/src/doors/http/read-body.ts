import { sizeWords } from '@anchorhold/core/size-words'
import { Failure } from '@anchorhold/protocol/failures'
import type { IncomingMessage } from 'node:http'

/** The JSON that a request carries; undefined where it carries nothing. */
export async function jsonBody(request: IncomingMessage, bytesMax: number): Promise<unknown> {
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

function boundedText(request: IncomingMessage, bytesMax: number): Promise<string> {
  const tooLarge = () => new Failure('too_large', `The request is larger than ${sizeWords(bytesMax)}`)
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) return Promise.reject(tooLarge())
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const chunks: Buffer[] = []
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= bytesMax) return void chunks.push(chunk)
    // The rest is not read; the connection stays for the answer.
    request.removeAllListeners('data').pause()
    reject(tooLarge())
  })
  request.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')))
  request.once('close', () => reject(new Failure('bad_request', 'The request broke off')))
  return promise
}
