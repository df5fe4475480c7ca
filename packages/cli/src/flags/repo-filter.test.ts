import { expect, test } from 'vitest'
import { repoFilterOf } from './repo-filter.ts'

const none = { hide: [], show: [] }

test('repoFilterOf() takes a filter by its name, or a list of one’s own', () => {
  expect(repoFilterOf(none)).toBeUndefined()
  expect(repoFilterOf({ ...none, repoFilter: 'strict' })).toBe('strict')
  const own = { denylist: ['*.secret', 'private/**'], allowlist: ['public.secret'] }
  const flags = { hide: own.denylist, show: own.allowlist }
  expect(repoFilterOf(flags)).toEqual(own)
  expect(repoFilterOf({ ...flags, repoFilter: 'custom' })).toEqual(own)
})

test.each([
  ['a list beside another filter', { repoFilter: 'strict', hide: ['*.x'], show: [] }],
  ['a custom filter without a list', { repoFilter: 'custom', ...none }],
  ['what is shown alone', { hide: [], show: ['*.x'] }],
] as const)('repoFilterOf() refuses %s', (_, flags) => {
  expect(() => repoFilterOf(flags)).toThrow()
})
