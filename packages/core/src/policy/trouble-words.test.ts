import { expect, test } from 'vitest'
import { policyTroubleWords } from './trouble-words.ts'

const problem = { file: 'policy.yaml', line: 3, column: 1, level: 'error', message: 'Unknown key "x"' } as const

test('policyTroubleWords() says what is in force in the place of a file that cannot be used', () => {
  expect(policyTroubleWords({ ...problem, in_force: 'last good' })).toBe(
    'policy.yaml cannot be used: line 3: Unknown key "x". The version before it stays in force',
  )
  expect(policyTroubleWords({ ...problem, in_force: 'locked' })).toBe(
    'policy.yaml cannot be used: line 3: Unknown key "x". Nothing is allowed until it is mended',
  )
})
