import { expect, test } from 'vitest'
import { prefixes } from './prefixes.ts'
import { messages as dialect } from './dialects/messages/messages.ts'

const mark = { cache_control: { type: 'ephemeral' } }
const request = (messages: object[], more: object = {}) => {
  const body = { model: 'claude-sonnet-5', max_tokens: 10, system: 's'.repeat(1000), messages, ...more }
  const result = dialect.screen(Buffer.from(JSON.stringify(body)), { path: '', costs: true }, { allow: new Set(), denied: null })
  if (!result.ok) throw new Error(result.answer.message)
  return result.request
}
const first = { role: 'user', content: 'a'.repeat(1000) }
const answer = { role: 'assistant', content: 'b'.repeat(100) }

test('prefixes() knows the beginning of a prompt that was measured, and weighs only the rest', () => {
  const known = prefixes(dialect.remembered)
  known.weigh(request([first])).measured(500)
  const { prompt } = known.weigh(request([first, answer]))
  expect(prompt.knownPrefixTokens).toBe(500)
  expect(prompt.restBytes).toBe(JSON.stringify(answer).length)
})

test('prefixes() is not misled when marks move or a lone text becomes a string', () => {
  const known = prefixes(dialect.remembered)
  known.weigh(request([{ role: 'user', content: [{ type: 'text', text: first.content, ...mark }] }])).measured(500)
  expect(known.weigh(request([first, answer])).prompt.knownPrefixTokens).toBe(500)
  expect(
    known.weigh(
      request([
        { role: 'user', content: [{ type: 'text', text: first.content }] },
        { ...answer, content: [{ type: 'text', text: 'x', ...mark }] },
      ]),
    ).prompt.knownPrefixTokens,
  ).toBe(500)
})

test('prefixes() counts what hides in a mark', () => {
  const known = prefixes(dialect.remembered)
  known.weigh(request([first])).measured(500)
  const hidden = {
    role: 'user',
    content: [{ type: 'text', text: first.content, cache_control: { type: 'ephemeral', x: 'y'.repeat(5000) } }],
  }
  expect(known.weigh(request([hidden])).prompt.restBytes).toBeGreaterThan(5000)
})

test.each([
  ['another system prompt', request([first, answer], { system: 'other' })],
  ['another model', request([first, answer], { model: 'claude-opus-4-8' })],
  ['another first message', request([{ ...first, content: 'c' }, answer])],
  ['other tools', request([first, answer], { tools: [{ name: 'x', input_schema: {} }] })],
])('prefixes() knows nothing of a prompt with %s', (_, asked) => {
  const known = prefixes(dialect.remembered)
  known.weigh(request([first])).measured(500)
  expect(known.weigh(asked).prompt.knownPrefixTokens).toBe(0)
})

test('prefixes() weighs an image by its size, not by its bytes', () => {
  const png = Buffer.alloc(30_000)
  png.writeUInt32BE(0x89504e47, 0)
  png.write('IHDR', 12, 'latin1')
  png.writeUInt32BE(750, 16)
  png.writeUInt32BE(100, 20)
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png.toString('base64') } }
  const { prompt } = prefixes(dialect.remembered).weigh(request([{ role: 'user', content: [image] }]))
  expect(prompt.imageTokens).toBe(101)
  expect(prompt.restBytes).toBeLessThan(2000)
})

const pdf = (bytes: number) => ({
  type: 'document',
  source: { type: 'base64', media_type: 'application/pdf', data: Buffer.alloc(bytes).toString('base64') },
})
test.each([
  ['in a message', [pdf(30_000)]],
  ['in the result of a tool', [{ type: 'tool_result', tool_use_id: 'x', content: [pdf(30_000)] }]],
])('prefixes() weighs a document %s by the pages that it may have, not by its bytes', (_, content) => {
  const known = prefixes(dialect.remembered)
  const asked = request([{ role: 'user', content }])
  const { prompt, measured } = known.weigh(asked)
  expect(prompt).toMatchObject({ documents: 1 })
  expect(prompt.restBytes).toBeLessThan(2000)
  measured(5000)
  expect(known.weigh(request([{ role: 'user', content }, answer])).prompt).toMatchObject({
    knownPrefixTokens: 5000,
    documents: 0,
  })
})
test('prefixes() weighs a document that is a text by its bytes', () => {
  const content = [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x'.repeat(5000) } }]
  const { prompt } = prefixes(dialect.remembered).weigh(request([{ role: 'user', content }]))
  expect(prompt.documents).toBe(0)
  expect(prompt.restBytes).toBeGreaterThan(5000)
})
