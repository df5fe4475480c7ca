import type { RequestAction } from '@anchorhold/protocol/events'
import { expect, test } from 'vitest'
import { chosen, requestWords } from './request-words.ts'

const call: RequestAction = { kind: 'spend', model: 'm', needed_nanos: 2_000_000_000, left_nanos: null, budget_nanos: null }

test('requestWords() speaks of a budget only where there is one, and of it as the cause only where it is', () => {
  const costs = [
    { name: 'model', text: 'm' },
    { name: 'may cost', text: '$2.00' },
  ]
  expect(requestWords(call)).toEqual({ title: 'The agent wants to call a model', exact: costs })
  expect(requestWords({ ...call, left_nanos: 0, budget_nanos: 5_000_000_000, short: true })).toEqual({
    title: 'The next model call is over budget',
    exact: [
      ...costs,
      { name: 'left', text: '$0.00 of $5.00' },
      { name: 'when allowed', text: 'that budget is $7.00 from then on' },
    ],
  })
})

test('requestWords() leaves out of a command what only describes it, and nothing else', () => {
  const input = { command: 'make', description: 'builds', run_in_background: true }
  expect(requestWords({ kind: 'tool', tool: 'Bash', input }, '“x”')).toEqual({
    title: '“x” wants to run',
    exact: [
      { name: null, text: 'make' },
      { name: 'run_in_background', text: 'true' },
    ],
  })
})

test.each([
  ['2', ['3', '2', '1'], '2'],
  ['2', ['one', 'two'], 'two'],
  [' two ', ['one', 'two'], 'two'],
  ['3', ['one', 'two'], '3'],
  ['', ['one'], ''],
  ['1e0', ['one'], '1e0'],
])('chosen() takes %j of %j for %j', (typed, labels, meant) => {
  const options = labels.map((label) => ({ label }))
  expect(chosen(options, typed)).toBe(meant)
})
