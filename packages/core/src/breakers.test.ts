import type { NewEvent } from '@anchorhold/protocol/events'
import type { Breakers } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { breakerWatch } from './breakers.ts'

const off: Breakers = { repeats: null, errors: null, turns: null }
let calls = 0
type Deed = {
  readonly tool?: string
  readonly input?: unknown
  readonly output?: string
  readonly failed?: boolean
  readonly parent?: string
}
function deed({ tool = 'Bash', input = { command: 'ls' }, output = 'a', failed = false, parent }: Deed = {}): NewEvent[] {
  const call = `c${++calls}`
  const from = parent === undefined ? {} : { parent }
  return [
    { type: 'tool.started', body: { call, tool, input, truncated: false, ...from } },
    { type: 'tool.finished', body: { call, tool, output, truncated: false, failed, ...from } },
  ]
}
/** How many deeds were done when the turn was ended, and how. */
function play(limits: Partial<Breakers>, deeds: readonly NewEvent[][]): readonly [number, string] | null {
  const watch = breakerWatch({ ...off, ...limits })
  for (const [index, events] of deeds.entries())
    for (const event of events) {
      const why = watch.saw(event)
      if (why !== null) return [index + 1, why]
    }
  return null
}
const times = (count: number, one: () => NewEvent[]) => Array.from({ length: count }, one)

test('breakerWatch() ends a turn at the same call with the same result so many times in a row', () => {
  expect(
    play(
      { repeats: 5 },
      times(9, () => deed()),
    ),
  ).toEqual([5, expect.stringContaining('"Bash" 5 times in a row')])
  expect(
    play(
      { repeats: 2 },
      times(9, () => deed()),
    ),
  ).toEqual([2, expect.any(String)])
})

test('breakerWatch() sees through a call that is only described otherwise', () => {
  const described = () => deed({ input: { command: 'ls', description: `try ${calls}` } })
  expect(play({ repeats: 3 }, times(5, described))).toEqual([3, expect.any(String)])
})

test.each([
  ['another result', () => deed({ output: `${calls}` })],
  ['another call', () => deed({ input: { command: `ls ${calls}` } })],
  ['another tool', () => deed({ tool: `T${calls}` })],
])('breakerWatch() lets an agent go on that gets %s', (_, one) => {
  expect(play({ repeats: 2, errors: 3 }, times(20, one))).toBeNull()
})

test('breakerWatch() counts sub-agents apart', () => {
  const both = times(12, () => deed({ parent: `p${calls % 4}` }))
  expect(play({ repeats: 4 }, both)).toBeNull()
  expect(play({ repeats: 3 }, both)).toEqual([9, expect.stringContaining('A sub-agent')])
})

test('breakerWatch() ends a turn at so many failed calls in a row, whichever they are', () => {
  const failing = () => deed({ failed: true, output: `${calls}` })
  expect(play({ errors: 3 }, [failing(), failing(), deed(), failing(), failing(), failing()])).toEqual([
    6,
    expect.stringContaining('3 failed'),
  ])
})

test('breakerWatch() ends a turn that begins a round more than it may; calls made together are one', () => {
  const [a, b] = [deed({ output: '1' }), deed({ output: '2' })]
  const together = [a[0]!, b[0]!, a[1]!, b[1]!]
  expect(play({ turns: 2 }, [together, deed(), deed({ output: 'x' })])).toEqual([3, expect.stringContaining('2 rounds')])
})

test('breakerWatch() is quiet where everything is switched off', () => {
  expect(
    play(
      {},
      times(500, () => deed({ failed: true })),
    ),
  ).toBeNull()
})
