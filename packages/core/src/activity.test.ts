import { expect, test } from 'vitest'
import { isActivity } from './activity.ts'

const by = { actor: 'ann', door: 'cli' }

test('isActivity() is not for a session that is given another name, and is for one that is changed otherwise', () => {
  expect(isActivity({ type: 'session.changed', body: { name: 'x', ...by } })).toBe(false)
  expect(isActivity({ type: 'session.changed', body: { name: 'x', model: 'm', ...by } })).toBe(true)
  expect(isActivity({ type: 'session.changed', body: { budget_nanos: null, ...by } })).toBe(true)
})
