import fc from 'fast-check'
import { expect, test } from 'vitest'
import { sse, streamed } from '../../../../fake-upstream.ts'
import { meter } from './meter.ts'

const read = (text: string) => {
  const one = meter('stream')
  one.feed(Buffer.from(text))
  return one.read()
}

test('meter() reads the same whatever way the stream is cut', () => {
  const whole = Buffer.from(streamed('grüße 👍🏽', 1234, 567))
  fc.assert(
    fc.property(fc.array(fc.nat({ max: whole.length }), { maxLength: 20 }), (cuts) => {
      const one = meter('stream')
      const at = [0, ...cuts.toSorted((a, b) => a - b), whole.length]
      for (const [index, from] of at.slice(0, -1).entries()) one.feed(whole.subarray(from, at[index + 1]))
      const { used, whole: complete } = one.read()
      expect(used).toMatchObject({ input: 1234, output: 567 })
      expect(complete).toBe(true)
    }),
  )
})

test('meter() takes the last word for each count, and the first where there is no other', () => {
  const start = { input_tokens: 10, output_tokens: 1, cache_read_input_tokens: 20, cache_creation_input_tokens: 30 }
  const end = { output_tokens: 40, input_tokens: 11, cache_read_input_tokens: null }
  const { used } = read(sse('message_start', { message: { usage: start } }) + sse('message_delta', { usage: end }))
  expect(used).toMatchObject({ input: 11, output: 40, cache_read: 20, cache_write: 30 })
})

test('meter() adds up the iterations of a call that ran the model several times', () => {
  const iterations = [
    { input_tokens: 100, output_tokens: 10, cache_read_input_tokens: 1 },
    { input_tokens: 200, output_tokens: 20, cache_creation_input_tokens: 2 },
  ]
  const { used } = read(sse('message_delta', { usage: { input_tokens: 200, output_tokens: 20, iterations } }))
  expect(used).toMatchObject({ input: 300, output: 30, cache_read: 1, cache_write: 2 })
})

test('meter() estimates an answer that was cut from the length of its deltas', () => {
  const { used, whole, started } = read(
    sse('message_start', { message: { usage: { input_tokens: 5, output_tokens: 1 } } }) +
      sse('content_block_delta', { delta: { type: 'text_delta', text: 'x'.repeat(10) } }) +
      sse('content_block_delta', { delta: { type: 'thinking_delta', thinking: 'x'.repeat(10) } }) +
      sse('content_block_delta', { delta: { type: 'input_json_delta', partial_json: 'x'.repeat(10) } }),
  )
  expect({ used, whole, started }).toMatchObject({ used: { input: 5, output: 15 }, whole: false, started: true })
})

test('meter() finds the same length of a cut answer, whatever is in it and whatever way it comes', () => {
  const delta = fc.record({
    kind: fc.constantFrom('text', 'thinking', 'partial_json', 'signature'),
    text: fc.string({ unit: 'grapheme' }),
  })
  const deltas = fc.array(delta, { maxLength: 8 })
  const line = ({ kind, text }: { kind: string; text: string }, index: number) =>
    sse('content_block_delta', { index, delta: { type: `${kind}_delta`, [kind]: text } }).replaceAll(
      '\n',
      index % 2 === 0 ? '\n' : '\r\n',
    )
  fc.assert(
    fc.property(deltas, fc.nat({ max: 200 }), (all, step) => {
      const bytes = Buffer.from(all.map(line).join(''))
      const one = meter('stream')
      for (let at = 0; at < bytes.length; at += step + 1) one.feed(bytes.subarray(at, at + step + 1))
      const said = all.filter(({ kind }) => kind !== 'signature').reduce((sum, { text }) => sum + Buffer.byteLength(text), 0)
      expect(one.read()).toMatchObject({ used: { output: Math.ceil(said / 2) }, whole: false })
    }),
  )
})

test.each([
  ['lines that are not JSON', 'data: {"type":"message_delta","usage":\n\ndata:\n\n: comment\n\n'],
  ['counts that cannot be', sse('message_delta', { usage: { input_tokens: -5, output_tokens: 1.5 } })],
  ['a usage of another shape', sse('message_start', { message: null }) + sse('message_delta', { usage: 'lots' })],
  ['values instead of events', 'data: null\n\ndata: 5\n\ndata: []\n\n'],
])('meter() is not misled by %s', (_, text) => {
  expect(read(text)).toMatchObject({ used: { input: 0, output: 0 }, whole: false })
})

test('meter() reads on behind a line without end, and counts it with an answer that breaks off', () => {
  const long = () => {
    const one = meter('stream')
    for (let mebibyte = 0; mebibyte < 34; mebibyte += 1) one.feed(Buffer.alloc(1024 * 1024, 0x20))
    return one
  }
  const cut = long()
  expect(cut.read()).toMatchObject({ whole: false })
  expect(cut.read().used.output).toBeGreaterThan(14 * 1024 * 1024)
  const ended = long()
  ended.feed(Buffer.from(`\n${streamed('ok', 12, 34)}`))
  expect(ended.read()).toMatchObject({ whole: true, used: { input: 12, output: 34 } })
})

/** The same stream, written in the ways that the standard knows (https://html.spec.whatwg.org/#parsing-an-event-stream). */
const written: readonly (readonly [string, (text: string) => string])[] = [
  ['line feeds', (text) => text],
  ['carriage returns', (text) => text.replaceAll('\n', '\r')],
  ['both', (text) => text.replaceAll('\n', '\r\n')],
  ['all of them', (text) => text.replaceAll('\n\n', '\r\n\r')],
  ['a byte order mark', (text) => `\ufeff${text.replace(/^event: .*\n/, '')}`],
  ['no blank behind the colon', (text) => text.replaceAll('data: ', 'data:')],
  ['several lines of data', (text) => text.replaceAll(',"usage"', '\ndata: ,"usage"').replaceAll('"usage":', '"usage":\ndata: ')],
  [
    'comments between lines',
    (text) => text.replaceAll('\n', '\n: keep alive {"usage":1}\n').replaceAll('\n: keep alive {"usage":1}\n\n', '\n\n'),
  ],
  ['other fields', (text) => text.replaceAll('data:', 'id: 1\nretry: 5\nfoo\ndata:')],
  ['no empty line at its end', (text) => text.trimEnd()],
  [
    'a very long line before what was used',
    (text) => text.replace('event: message_delta', `: ${'x'.repeat(5_000_000)}\nevent: message_delta`),
  ],
]
test.each(written)('meter() reads a stream with %s, wherever it is cut', (_, write) => {
  const bytes = Buffer.from(write(streamed('hi', 1234, 567)))
  for (const step of [1, 2, 3, 7, 100_000]) {
    if (bytes.length / step > 1_000_000) continue
    const one = meter('stream')
    for (let at = 0; at < bytes.length; at += step) one.feed(bytes.subarray(at, at + step))
    expect(one.read()).toMatchObject({ whole: true, started: true, used: { input: 1234, output: 567 } })
  }
})

test('meter() is not slow with a line of the largest size in pieces of one byte, nor with nothing but ends of lines', () => {
  const one = meter('stream')
  const byte = Buffer.from('[')
  for (let at = 0; at < 500_000; at++) one.feed(byte)
  one.feed(Buffer.from('\r'.repeat(200_000)))
  one.feed(Buffer.from(`data: ${'['.repeat(4_000_000)}\n\n`))
  one.feed(Buffer.from('data:\n'.repeat(200_000)))
  one.feed(Buffer.from(`\n${streamed('ok', 1, 2)}`))
  expect(one.read()).toMatchObject({ whole: true, used: { output: 2 } })
})
