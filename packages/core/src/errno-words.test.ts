import { expect, test } from 'vitest'
import { errnoWords } from './errno-words.ts'

const failed = (code: string) => Object.assign(new Error(`${code}: raw words, open '/x'`), { code })

test('errnoWords() says in words what the system says in letters', () => {
  expect(['ENOENT', 'EACCES', 'EISDIR'].map((code) => errnoWords(failed(code)))).toEqual([
    'there is no such file or folder',
    'this user may not',
    'it is a folder',
  ])
})

test('errnoWords() keeps the words of what it does not know', () => {
  expect(errnoWords(failed('EWHATEVER'))).toBe("EWHATEVER: raw words, open '/x'")
  expect(errnoWords('odd')).toBe('odd')
})
