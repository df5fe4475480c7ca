import { sizeWords } from '@anchorhold/core/size-words'
import { Failure } from '@anchorhold/protocol/failures'
import { type Image, limits } from '@anchorhold/protocol/sessions'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { extname } from 'node:path'
import { text } from 'node:stream/consumers'

const types: Readonly<Record<string, Image['media_type']>> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
}

export function readImages(paths: readonly string[]): Image[] {
  return paths.map((path) => {
    if (!existsSync(path)) throw new Failure('bad_request', `Cannot send "${path}": there is no such file`)
    const type = types[extname(path).toLowerCase()]
    if (type === undefined) throw new Failure('bad_request', `Cannot send "${path}": it is not a PNG, JPEG, GIF or WebP file`)
    try {
      if (statSync(path).size > limits.imageBytes)
        throw new Failure('bad_request', `Cannot send "${path}": it is larger than ${sizeWords(limits.imageBytes)}`)
      return { media_type: type, data: readFileSync(path).toString('base64') }
    } catch (cause) {
      if (cause instanceof Failure) throw cause
      throw new Failure('bad_request', `Cannot read "${path}"`, { cause })
    }
  })
}

/** The prompt's words; a lone dash stands for standard input, whose last newline only ends its last line. */
export async function readPrompt(words: readonly string[], stdin: AsyncIterable<Buffer> = process.stdin): Promise<string> {
  const prompt = words.length === 1 && words[0] === '-' ? (await text(stdin)).replace(/\r?\n$/, '') : words.join(' ')
  if (prompt.trim() === '') throw new Failure('bad_request', 'The prompt is empty')
  return prompt
}
