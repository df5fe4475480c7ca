import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { readImages, readPrompt } from './prompt-input.ts'

const piped = (text: string) => Readable.from([Buffer.from(text)])

test.each([
  ['say hi\n', 'say hi'],
  ['say hi\r\n', 'say hi'],
  ['one\n\ntwo\n\n', 'one\n\ntwo\n'],
  ['say hi', 'say hi'],
])('readPrompt() of %j from standard input is without its last newline', async (text, prompt) => {
  expect(await readPrompt(['-'], piped(text))).toBe(prompt)
})

test('readPrompt() refuses an empty prompt', async () => {
  await expect(readPrompt(['-'], piped('\n'))).rejects.toThrow('The prompt is empty')
})

function file(name: string, bytes: Buffer): string {
  const folder = mkdtempSync(join(tmpdir(), 'ah-images-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, name), bytes)
  return join(folder, name)
}

test.each([
  ['image/png', '\x89PNG\r\n\x1a\n'],
  ['image/jpeg', '\xff\xd8\xff\xe0'],
  ['image/gif', 'GIF89a'],
  ['image/webp', 'RIFF\n\x00\x00\x00WEBP'],
])('readImages() knows %s by its first bytes, whatever its name', (type, begins) => {
  const bytes = Buffer.from(`${begins} and more`, 'latin1')
  expect(readImages([file('x.png', bytes)])).toEqual([{ media_type: type, data: bytes.toString('base64') }])
})

test('readImages() refuses a text that is named like an image', () => {
  expect(() => readImages([file('bad.png', Buffer.from('hello'))])).toThrow('it is not a PNG, JPEG, GIF or WebP file')
})
