import { expect, test } from 'vitest'
import { tooDeep } from './too-deep.ts'

test.each([
  ['an ordinary text', 'a:\n  - b: [1, 2]\n', null],
  ['lists in one line', `a: b\n${'- '.repeat(50)}x`, 2],
  ['lists in one line without blanks between', '-?'.repeat(25), 1],
  ['lists as deep as they may be', `${'- '.repeat(49)}x`, null],
  ['blanks', `${' '.repeat(400)}x`, 1],
  ['brackets', `a: ${'[\n'.repeat(101)}`, 101],
])('tooDeep() looks at %s', (_, text, line) => {
  expect(tooDeep(text)).toBe(line)
})

// Read in every way in which the blanks can be shared out, one such line takes longer than anybody lives.
test('tooDeep() gets through lists that are almost too deep, at once', () => {
  expect(
    tooDeep(
      Array<string>(2000)
        .fill(`${' - ? '.repeat(24)} - x`)
        .join('\n'),
    ),
  ).toBeNull()
})
