import { failureCodes, type FailureCode } from '@anchorhold/protocol/failures'
import type { PromptId } from '@anchorhold/protocol/ids'
import { TurnEnd } from '@anchorhold/protocol/sessions'
import { expect, test } from 'vitest'
import { exitCodes, exitOfEnd, exitOfFailure, exitOfState, exitOfTurn } from './exit-codes.ts'

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

const [mine, other] = ['prm_mine' as PromptId, 'prm_other' as PromptId]
test.each([
  ['a turn that answered the prompt', { reason: 'done' }, 0],
  ['one that leaves another prompt to the next', { reason: 'done', left: [other] }, 0],
  ['one that leaves the prompt itself to the next', { reason: 'done', left: [other, mine] }, null],
  ['one that took too long, and leaves it to the next', { reason: 'interrupted', left: [mine] }, 130],
  ['one that waits for somebody', { reason: 'waiting', left: [mine] }, 3],
  ['a crash, of which the state tells more', { reason: 'crashed' }, null],
] as const)('exitOfEnd() of %s', (_, { reason, ...more }, exit) => {
  expect(exitOfEnd({ reason, ...('left' in more ? { left: [...more.left] } : {}) }, mine)).toBe(exit)
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
