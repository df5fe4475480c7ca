import { expect, test } from 'vitest'
import { requirePatterns, standardNames } from './repo-filters.ts'

const own = (pattern: string) => ({ denylist: ['*.x'], allowlist: [pattern] })

test.each([
  ['[', '"[" is never closed'],
  ['a[bc', '"[" is never closed'],
  ['[]', '"[" is never closed'],
  ['{a,b', '"{" is never closed'],
  ['{a,{b,c}', '"{" is never closed'],
  ['@(a|b', '"(" is never closed'],
  ['a\\', 'a backslash is its last character'],
  ['[z-a]', '"[z-a]" fits no character'],
  ['/etc/x', 'begins with a slash'],
  ['private/', 'ends with a slash'],
  ['../x', 'does not go straight down'],
  ['a/./b', 'does not go straight down'],
  ['a//b', 'does not go straight down'],
])('requirePatterns() refuses %s, which nothing fits', (pattern, why) => {
  expect(() => requirePatterns(own(pattern))).toThrow(expect.objectContaining({ code: 'bad_request', hint: expect.any(String) }))
  expect(() => requirePatterns({ denylist: [pattern], allowlist: [] })).toThrow(
    `Cannot use the pattern "${pattern}" in a filter: `,
  )
  expect(() => requirePatterns(own(pattern))).toThrow(why)
})

test.each([
  '[a-z]*',
  '[]a]',
  '[!a]',
  '\\[',
  '\\[z-a]',
  '\\{a',
  '{a,{b,c}}',
  '@(a|b)',
  'a}',
  './x',
  '**/x',
  'private/**',
  '.env.*',
  'a b',
  '…',
])('requirePatterns() takes %s', (pattern) => {
  expect(() => requirePatterns(own(pattern))).not.toThrow()
})

test('requirePatterns() takes what there is by name', () => {
  for (const filter of [undefined, 'none', 'standard', 'strict'] as const) expect(() => requirePatterns(filter)).not.toThrow()
  expect(() => requirePatterns({ denylist: [...standardNames.hide], allowlist: [...standardNames.show] })).not.toThrow()
})
