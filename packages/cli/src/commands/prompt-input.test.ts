import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readPrompt } from './prompt-input.ts'

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
