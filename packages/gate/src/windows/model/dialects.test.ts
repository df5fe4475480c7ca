import { expect, test } from 'vitest'
import { small } from '../../test-gate.ts'
import { streamed } from '../../fake-upstream.ts'
import { type DialectSamples, dialectContract } from './dialects/contract.ts'
import { dialectNames, dialectOf } from './dialects.ts'
import { scripted } from './dialects/test-scripted/scripted.ts'

const toolUse = (name: string) => ({ role: 'assistant', content: [{ type: 'tool_use', id: 'one', name, input: {} }] })
const samples: Readonly<Record<string, DialectSamples>> = {
  messages: {
    path: '/v1/messages?beta=true',
    contentType: 'text/event-stream',
    request: ({ say, most, tool }) =>
      JSON.stringify(
        small({ max_tokens: most, messages: [{ role: 'user', content: say }, ...(tool === undefined ? [] : [toolUse(tool)])] }),
      ),
    answer: streamed,
    model: 'claude-sonnet-5',
    mostIn: (body) => (JSON.parse(body) as { max_tokens: unknown }).max_tokens,
  },
}

test('every dialect of the table is held to the contract', () => expect(dialectNames).toEqual(Object.keys(samples)))

for (const [name, sample] of Object.entries(samples)) dialectContract(dialectOf(name), sample)

dialectContract(scripted, {
  path: '/say',
  contentType: 'application/json',
  request: ({ say, most, tool }) => JSON.stringify({ model: 'claude-sonnet-5', say, most, live: true, tool }),
  answer: (text, input, output) => `${JSON.stringify({ said: text })}\n{"took":[${input},${output}]}\n`,
  model: 'claude-sonnet-5',
  mostIn: (body) => (JSON.parse(body) as { most: unknown }).most,
})

test('dialectOf() refuses what this gate does not speak, and says what it does', () => {
  expect(() => dialectOf('constructor')).toThrow('this gate speaks messages')
})
