import { expect, test } from 'vitest'
import { fold } from '../log/fold.ts'
import { hearLive, silence } from '../log/saying.ts'
import { logOf } from '../log/test-events.ts'
import { rowsOf } from './rows.ts'

const items = fold(
  logOf(
    ['tool.started', { call: 'c1', tool: 'Agent', input: { prompt: 'look' }, truncated: false }],
    ['text', { block: 's1', text: 'I look', parent: 'c1' }],
  ),
)
const says = (block: string, parent: string | null) =>
  hearLive(silence, { type: 'text.delta', block, offset: 0, text: 'and see', parent })

test('rowsOf() puts what a sub-agent is saying at the end of its thread, and nowhere else', () => {
  const rows = rowsOf(items, says('s2', 'c1'), [], true)
  expect(rows.map(({ key }) => key)).toEqual(['tool c1', 'busy'])
  expect(rows[0]).toMatchObject({ item: { thread: [{ text: 'I look' }, { text: 'and see', growing: true }] } })
  // The block that has become an event is not said twice.
  expect(rowsOf(items, says('s1', 'c1'), [], true)[0]).toMatchObject({ item: { thread: [{ text: 'I look' }] } })
})

test('rowsOf() leaves the rows as they are that nothing is said in', () => {
  expect(rowsOf(items, says('m1', null), [], true)[0]).toMatchObject({ item: items[0] })
})
