import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { scrubberOf } from './scrub.ts'

const secret = 'ghp_Xy"7/secret+value=AbC123'

/** What comes out when a text comes in pieces of this length. */
function through(text: string, length: number): string {
  const scrub = scrubberOf([secret]).body('bytes')
  const bytes = Buffer.from(text, 'latin1')
  const out: Buffer[] = []
  for (let at = 0; at < bytes.length; at += length) out.push(scrub.chunk(bytes.subarray(at, at + length)))
  return Buffer.concat([...out, scrub.end()]).toString('latin1')
}

const guises: readonly (readonly [string, string])[] = [
  ['as it is', secret],
  ['in JSON', JSON.stringify({ token: secret })],
  ['in a URL', `?a=${encodeURIComponent(secret)}&b`],
  ['in a URL with small letters', `?a=${encodeURIComponent(secret).replaceAll(/%../g, (code) => code.toLowerCase())}&b`],
  ['in JSON with escaped slashes', JSON.stringify({ token: secret }).replaceAll('/', '\\/')],
  ['in hexadecimal', Buffer.from(secret).toString('hex')],
  ['twice', `${secret}${secret}`],
  ...[0, 1, 2, 3, 4].map((before): [string, string] => [
    `in base64, after ${before} bytes`,
    Buffer.from(`${'u'.repeat(before)}${secret}!tail`).toString('base64'),
  ]),
  ['in base64 of URLs', Buffer.from(`u:${secret}`).toString('base64url')],
]

test.each(guises)('scrubberOf() strikes a secret out that is said %s, wherever the pieces are cut', (_, said) => {
  const text = `before ${said} after`
  for (const length of [1, 2, 3, 5, 7, 16, 1000]) {
    const out = through(text, length)
    expect(out).toHaveLength(text.length)
    expect(out).toMatch(/^before .*\*{8}.* after$/s)
    // No more of it is left than one or two characters that something else is in as well.
    for (let at = 0; at + 6 <= said.length; at++) {
      const part = said.slice(at, at + 6)
      if (secret.includes(part)) expect(out).not.toContain(part)
    }
  }
})

test('scrubberOf() passes everything else on as it is and holds nothing back that cannot be the beginning of one', () => {
  const noise = randomBytes(100_000).toString('latin1')
  for (const length of [1, 999, 65_536]) expect(through(noise, length)).toBe(noise)
  const scrub = scrubberOf([secret]).body('bytes')
  expect(scrub.chunk(Buffer.from('data: one\n\n')).toString()).toBe('data: one\n\n')
  expect(scrub.chunk(Buffer.from(`data: ${secret.slice(0, 9)}`)).toString()).toBe('data: ')
  expect(scrub.chunk(Buffer.from('another')).toString()).toBe(`${secret.slice(0, 9)}another`)
})

test('scrubberOf() strikes out a secret that goes on where another ends, wherever it is cut', () => {
  const [short, long] = ['abcdefghij', 'abcdefghij.signature']
  for (const cut of [1, 5, 10, 11, 15, 19]) {
    const scrub = scrubberOf([short, long]).body('bytes')
    const said = Buffer.from(`<${long}>`)
    const out = Buffer.concat([scrub.chunk(said.subarray(0, cut)), scrub.chunk(said.subarray(cut)), scrub.end()]).toString()
    expect(out).toBe(`<${'*'.repeat(long.length)}>`)
  }
})

test('scrubberOf() strikes out of events what comes in pieces, in every dialect, and passes on as it is what holds none', () => {
  const shapes: readonly ((text: string) => object)[] = [
    (text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } }),
    (text) => ({ type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: text } }),
    (text) => ({ choices: [{ index: 0, delta: { content: text } }] }),
    (text) => ({ type: 'response.output_text.delta', delta: text }),
    (text) => ({ candidates: [{ content: { parts: [{ text }] } }] }),
  ]
  for (const shape of shapes)
    for (const end of ['\n\n', '\r\n\r\n', '\r\r'])
      for (const length of [1, 3, 1000]) {
        const line = (text: string) => `data: ${JSON.stringify(shape(text))}${end}`
        const run = (texts: readonly string[]) => {
          const scrub = scrubberOf([secret]).body('events')
          const bytes = Buffer.from(`: hello${end}${texts.map(line).join('')}`)
          const out: Buffer[] = []
          for (let at = 0; at < bytes.length; at += length) out.push(scrub.chunk(bytes.subarray(at, at + length)))
          return Buffer.concat([...out, scrub.end()]).toString()
        }
        const stars = (text: string) => '*'.repeat(JSON.stringify(text).length - 2)
        const [a, b, c] = [secret.slice(0, 5), secret.slice(5, 6), secret.slice(6)]
        const lines = (texts: readonly string[]) => `: hello${end}${texts.map(line).join('')}`
        expect(run(['say ', a, b, c, ' so'])).toBe(lines(['say ', stars(a), stars(b), stars(c), ' so']))
        expect(run(['say ', a, 'else', b])).toBe(lines(['say ', a, 'else', b]))
      }
})

test('scrubberOf() lets go what waits for the rest of a secret when too much comes in between', () => {
  const scrub = scrubberOf([secret]).body('events')
  const event = (text: string) => `data: ${JSON.stringify({ delta: { text } })}\n\n`
  const ping = Buffer.from(`data: ${'x'.repeat(1000)}\n\n`)
  let out = scrub.chunk(Buffer.from(event(secret.slice(0, 12)))).toString()
  expect(out).toBe('data: {"delta":{"text":"')
  for (let pings = 0; pings < 1200; pings++) out += scrub.chunk(ping).toString()
  expect(out.startsWith(event('*'.repeat(JSON.stringify(secret.slice(0, 12)).length - 2)))).toBe(true)
})

test('scrubberOf() is not slow with the largest secret and what looks like its beginning everywhere', () => {
  const large = `${'ab'.repeat(8000)}c`
  const scrub = scrubberOf([large]).body('bytes')
  const piece = Buffer.from('ab'.repeat(32_768))
  let bytes = 0
  for (let pieces = 0; pieces < 64; pieces++) bytes += scrub.chunk(piece).length
  expect(bytes + scrub.end().length).toBe(64 * piece.length)
})
