import { expect, test } from 'vitest'
import { exceedsJson } from './json-shape.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const small = { partsMax: 10, depthMax: 3 }

test.each([
  ['a text', '"[[[[[[,,,,,,,,,,,,,,"', false],
  ['a text with quotes in it', String.raw`"\"[[[[[[\\\"{{{{{{{"`, false],
  ['what is nested as deep as it may be', '[[[1]]]', false],
  ['what is nested deeper', '[[[[1]]]]', true],
  ['what is nested deeper in other ways', '{"a":[{"b":[]}]}', true],
  ['as many values as it may have', '[1,2,3,4,5,6,7,8,9,10]', false],
  ['one value more', '[1,2,3,4,5,6,7,8,9,10,11]', true],
  ['lists that follow each other', '[[],[],[],[]]', false],
])('exceedsJson() looks at %s', (_, text, exceeds) => {
  expect(exceedsJson(bytes(text), small)).toBe(exceeds)
})
