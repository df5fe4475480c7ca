import { expect, test } from 'vitest'
import { parseFrame } from './parse-frame.ts'

const wide = (values: number) => `[${'1,'.repeat(values)}1]`
const deep = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`

test('parseFrame() reads what a process of the house writes, however large', () => {
  expect(parseFrame(Buffer.from('{"a":[1]}'))).toEqual({ a: [1] })
  expect(parseFrame(Buffer.from(JSON.stringify('[{,'.repeat(1_000_000))))).toHaveLength(3_000_000)
  // The deepest input of a tool that can be written as JSON.
  expect(() => parseFrame(Buffer.from(deep(90_000)))).not.toThrow()
})

test.each([
  ['too many values', wide(20_000_000)],
  ['what is nested too deeply', deep(20_000_000)],
])('parseFrame() refuses %s before it is read', (_, text) => {
  expect(() => parseFrame(Buffer.from(text))).toThrow('too many parts')
})
