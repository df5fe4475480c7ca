import { standardNames } from '@anchorhold/core/policy/repo-filters'
import { expect, test } from 'vitest'
import { repoFilterOf } from './repo-filter.ts'

const none = { hide: [], show: [] }

test('repoFilterOf() takes a filter by its name, or a list of one’s own', () => {
  expect(repoFilterOf(none)).toBeUndefined()
  expect(repoFilterOf({ ...none, repoFilter: 'strict' })).toBe('strict')
  const own = { denylist: ['*.secret', 'private/**'], allowlist: ['public.secret'] }
  const flags = { hide: own.denylist, show: own.allowlist }
  expect(repoFilterOf({ ...flags, repoFilter: 'custom' })).toEqual(own)
})

test('repoFilterOf() hides more than the standard filter, and not less, where no other is named', () => {
  const filter = repoFilterOf({ hide: ['private/**'], show: ['.env.mine'] })
  expect(filter).toEqual({
    denylist: [...standardNames.hide, 'private/**'],
    allowlist: [...standardNames.show, '.env.mine'],
  })
  expect(standardNames.hide).toContain('.env')
})

test.each([
  ['a list beside another filter', { repoFilter: 'strict', hide: ['*.x'], show: [] }],
  ['a custom filter without a list', { repoFilter: 'custom', ...none }],
  ['a pattern that nothing fits', { hide: ['['], show: [] }],
] as const)('repoFilterOf() refuses %s', (_, flags) => {
  expect(() => repoFilterOf(flags)).toThrow()
})
