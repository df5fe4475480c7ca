import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { scrubOf } from './scrub.ts'

const secret = 'ghp_Xy"7/secret+value=AbC123'

/** What comes out when a text comes in pieces of this length. */
function through(text: string, length: number): string {
  const scrub = scrubOf([secret])
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

test.each(guises)('scrubOf() strikes a secret out that is said %s, wherever the pieces are cut', (_, said) => {
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

test('scrubOf() passes everything else on as it is and holds nothing back that cannot be the beginning of one', () => {
  const noise = randomBytes(100_000).toString('latin1')
  for (const length of [1, 999, 65_536]) expect(through(noise, length)).toBe(noise)
  const scrub = scrubOf([secret])
  expect(scrub.chunk(Buffer.from('data: one\n\n')).toString()).toBe('data: one\n\n')
  expect(scrub.chunk(Buffer.from(`data: ${secret.slice(0, 9)}`)).toString()).toBe('data: ')
  expect(scrub.chunk(Buffer.from('another')).toString()).toBe(`${secret.slice(0, 9)}another`)
})
