import { expect, test } from 'vitest'
import { counted } from './counted.ts'

test('counted() has a plural for all but one', () => {
  expect([0, 1, 2].map((count) => counted(count, 'more line'))).toEqual(['0 more lines', '1 more line', '2 more lines'])
})
