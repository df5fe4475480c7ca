import { errnoWords } from '@anchorhold/core/errno-words'
import { sizeWords } from '@anchorhold/core/size-words'
import { Failure } from '@anchorhold/protocol/failures'
import { type Image, limits } from '@anchorhold/protocol/sessions'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { text } from 'node:stream/consumers'

export function readImages(paths: readonly string[]): Image[] {
  return paths.map((path) => {
    if (!existsSync(path)) throw new Failure('bad_request', `Cannot send "${path}": there is no such file`)
    try {
      if (statSync(path).size > limits.imageBytes)
        throw new Failure('bad_request', `Cannot send "${path}": it is larger than ${sizeWords(limits.imageBytes)}`)
      const bytes = readFileSync(path)
      const type = typeOf(bytes)
      if (type === null) throw new Failure('bad_request', `Cannot send "${path}": it is not a PNG, JPEG, GIF or WebP file`)
      return { media_type: type, data: bytes.toString('base64') }
    } catch (cause) {
      if (cause instanceof Failure) throw cause
      throw new Failure('bad_request', `Cannot read "${path}": ${errnoWords(cause)}`, { cause })
    }
  })
}

/** By its first bytes: a name says nothing of what a model would see, and the call is paid for all the same. */
function typeOf(bytes: Buffer): Image['media_type'] | null {
  const begins = bytes.toString('latin1', 0, 12)
  if (begins.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (begins.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (/^GIF8[79]a/.test(begins)) return 'image/gif'
  return /^RIFF.{4}WEBP$/s.test(begins) ? 'image/webp' : null
}

/** The prompt's words; a lone dash stands for standard input, whose last newline only ends its last line. */
export async function readPrompt(words: readonly string[], stdin: AsyncIterable<Buffer> = process.stdin): Promise<string> {
  const prompt = words.length === 1 && words[0] === '-' ? (await text(stdin)).replace(/\r?\n$/, '') : words.join(' ')
  if (prompt.trim() === '') throw new Failure('bad_request', 'The prompt is empty')
  return prompt
}
