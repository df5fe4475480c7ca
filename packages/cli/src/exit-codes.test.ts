import { failureCodes, type FailureCode } from '@anchorhold/protocol/failures'
import { TurnEnd } from '@anchorhold/protocol/sessions'
import { expect, test } from 'vitest'
import { exitCodes, exitOfFailure, exitOfState, exitOfTurn } from './exit-codes.ts'

test('every end of a turn, state and failure has an exit code that is documented', () => {
  const codes = [
    ...TurnEnd.options.map((end) => exitOfTurn[end]),
    ...Object.values(exitOfState),
    ...Object.keys(failureCodes).map((code) => exitOfFailure(code as FailureCode)),
  ]
  for (const code of codes) expect(exitCodes).toHaveProperty(String(code))
})

test('0 means done, and nothing else does', () => {
  expect(TurnEnd.options.filter((end) => exitOfTurn[end] === 0)).toEqual(['done'])
  expect(Object.keys(failureCodes).filter((code) => (exitOfFailure(code as FailureCode) as number) === 0)).toEqual([])
})

test.each([
  ['cell_unavailable', 7],
  ['provider_unavailable', 7],
  ['unauthenticated', 8],
  ['bad_request', 2],
  ['workspace_refused', 2],
  ['internal', 1],
] as const)('exitOfFailure() gives %s the code %d', (code, exit) => {
  expect(exitOfFailure(code)).toBe(exit)
})
