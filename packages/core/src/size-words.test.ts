import { expect, test } from 'vitest'
import { sizeWords } from './size-words.ts'

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1 KiB'],
  [1536, '1.5 KiB'],
  [1024 ** 2 - 1, '1 MiB'],
  [10 * 1024 ** 2, '10 MiB'],
  [2 * 1024 ** 3, '2 GiB'],
  [5000 * 1024 ** 4, '5000 TiB'],
])('sizeWords() of %i is %s', (bytes, words) => {
  expect(sizeWords(bytes)).toBe(words)
})
