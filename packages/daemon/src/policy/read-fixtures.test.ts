import { expect, test } from 'vitest'
import { readFixtures } from './read-fixtures.ts'

test('readFixtures() reads each with its line', () => {
  const text = '- { action: { tool: Bash, command: ls }, expect: allow }\n- action: { tool: Read }\n  expect: deny\n'
  expect(readFixtures(text).map(({ line, expect: effect }) => [line, effect])).toEqual([
    [1, 'allow'],
    [2, 'deny'],
  ])
})

test.each([
  [
    'what stands for something else',
    '- &a { action: { tool: Read }, expect: deny }\n- *a\n',
    'line 2: the alias "*a" is not taken',
  ],
  ['what is nested deep', '['.repeat(5000), 'nested too deep'],
  // Each compared with each, this would take minutes.
  ['a great many keys', `{${Array.from({ length: 60_000 }, (_, n) => n.toString(36)).join(',')}}`, 'Cannot use the fixtures'],
])('readFixtures() refuses %s in words', (_, text, words) => {
  expect(() => readFixtures(text)).toThrow(
    expect.objectContaining({ code: 'bad_request', message: expect.stringContaining(words) }),
  )
})
