import { expect, test } from 'vitest'
import { base32, stepAt, stepOfCode, totp } from './totp.ts'

const seed = (length: number) => Buffer.from('1234567890'.repeat(7).slice(0, length))
const keys = { sha1: seed(20), sha256: seed(32), sha512: seed(64) } as const

// https://www.rfc-editor.org/rfc/rfc6238#appendix-B
test.each([
  [59, '94287082', '46119246', '90693936'],
  [1111111109, '07081804', '68084774', '25091201'],
  [1111111111, '14050471', '67062674', '99943326'],
  [1234567890, '89005924', '91819424', '93441116'],
  [2000000000, '69279037', '90698825', '38618901'],
  [20000000000, '65353130', '77737706', '47863826'],
])('totp() at %i s is what RFC 6238 says', (seconds, sha1, sha256, sha512) => {
  const step = stepAt(seconds * 1000)
  for (const [hash, code] of Object.entries({ sha1, sha256, sha512 }) as ['sha1' | 'sha256' | 'sha512', string][])
    expect(totp(keys[hash], step, { hash, digits: 8 })).toBe(code)
})

test('stepOfCode() takes a code one step off, no farther, and none of a step that was used', () => {
  const secret = keys.sha1
  const now = 1111111109_000
  const step = stepAt(now)
  for (const off of [-1, 0, 1]) expect(stepOfCode(secret, totp(secret, step + off), now, 0)).toBe(step + off)
  for (const off of [-2, 2]) expect(stepOfCode(secret, totp(secret, step + off), now, 0)).toBeNull()
  expect(stepOfCode(secret, totp(secret, step), now, step)).toBeNull()
  expect(stepOfCode(secret, totp(secret, step - 1), now, step)).toBeNull()
  for (const code of ['', '12345', '1234567', '12345x', '１２３４５６']) expect(stepOfCode(secret, code, now, 0)).toBeNull()
})

// https://www.rfc-editor.org/rfc/rfc4648#section-10, without padding
test.each([
  ['', ''],
  ['f', 'MY'],
  ['fo', 'MZXQ'],
  ['foo', 'MZXW6'],
  ['foob', 'MZXW6YQ'],
  ['fooba', 'MZXW6YTB'],
  ['foobar', 'MZXW6YTBOI'],
])('base32() of "%s"', (text, encoded) => {
  expect(base32(Buffer.from(text))).toBe(encoded)
})
