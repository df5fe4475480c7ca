import { Action } from '@anchorhold/protocol/actions'
import fc from 'fast-check'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { canonicalJson, digestOf } from './digest.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const digest = (action: Action) => digestOf(action, sha256)
const bash = (input: Record<string, unknown>): Action => ({ kind: 'tool', tool: 'Bash', input })

test('digestOf() is the same for a description in other words and fields in another order', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), fc.string(), (input, a, b) => {
      const backwards = Object.fromEntries(Object.entries(input).toReversed())
      for (const tool of ['Bash', 'Agent']) {
        const one = digest({ kind: 'tool', tool, input: { ...input, description: a } })
        expect(
          digest({
            kind: 'tool',
            tool,
            input: { description: b, ...backwards, ...(Object.hasOwn(input, 'description') ? { description: b } : {}) },
          }),
        ).toBe(one)
      }
    }),
  )
})

test('digestOf() changes with every other field', () => {
  const field = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null), fc.array(fc.string()))
  fc.assert(
    fc.property(fc.dictionary(fc.string({ minLength: 1 }), field), fc.string({ minLength: 1 }), field, (input, name, value) => {
      fc.pre(name !== 'description')
      const before = Object.hasOwn(input, name) ? canonicalJson(input[name]) : undefined
      fc.pre(before !== canonicalJson(value))
      const changed = Object.fromEntries([...Object.entries(input).filter(([one]) => one !== name), [name, value]])
      expect(digest(bash(changed))).not.toBe(digest(bash(input)))
    }),
  )
})

test.each<[string, Action, Action]>([
  ['command', bash({ command: 'ls' }), bash({ command: 'ls ' })],
  ['timeout', bash({ command: 'ls' }), bash({ command: 'ls', timeout: 1 })],
  ['run_in_background', bash({ command: 'ls', run_in_background: true }), bash({ command: 'ls', run_in_background: false })],
  ['a number and its text', bash({ command: 1 }), bash({ command: '1' })],
  ['tool', bash({}), { kind: 'tool', tool: 'Read', input: {} }],
  [
    "another tool's description",
    { kind: 'tool', tool: 'Read', input: { description: 'a' } },
    { kind: 'tool', tool: 'Read', input: { description: 'b' } },
  ],
  ...(['host', 'port', 'method', 'path'] as const).map((name): [string, Action, Action] => {
    const one = { kind: 'net', host: 'a.org', port: 443, method: 'GET', path: '/' } as const
    return [name, one, { ...one, [name]: name === 'port' ? 444 : name === 'host' ? 'b.org' : name === 'method' ? null : '/x' }]
  }),
  ['program', { kind: 'host', program: 'a', params: {} }, { kind: 'host', program: 'b', params: {} }],
  ['a parameter', { kind: 'host', program: 'a', params: { x: 1 } }, { kind: 'host', program: 'a', params: { x: '1' } }],
  ['model', spend('a', 1), spend('b', 1)],
  ['provider', spend('a', 1), spend('a', 1, 'x')],
])('digestOf() tells actions apart by %s', (_, one, other) => {
  expect(digest(one)).not.toBe(digest(other))
})

test('digestOf() does not depend on how a host is spelled, nor on sums', () => {
  const at = (host: string): Action => ({ kind: 'net', host, port: 1, method: null, path: null })
  expect(digest(at('A.org.'))).toBe(digest(at('a.ORG')))
  expect(digest(spend('a', 1))).toBe(digest(spend('a', 2)))
})

test('canonicalJson() refuses what is nested beyond reading instead of running out of stack', () => {
  expect(() => canonicalJson(JSON.parse(`${'['.repeat(5000)}${']'.repeat(5000)}`))).toThrow(/nested/)
})

function spend(model: string, needed_nanos: number, provider?: string): Action {
  return { kind: 'spend', model, needed_nanos, left_nanos: 0, budget_nanos: 0, ...(provider === undefined ? {} : { provider }) }
}
