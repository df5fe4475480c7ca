import { expect, test } from 'vitest'
import { may, type Permission } from './actors.ts'

test('may() lets the owner do everything', () => {
  const permissions: readonly Permission[] = ['read', 'work', 'administer']
  for (const permission of permissions) expect(may({ kind: 'owner', name: 'me', door: 'http' }, permission)).toBe(true)
})
