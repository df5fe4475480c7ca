import fc from 'fast-check'
import { expect, test } from 'vitest'
import { formatUsd, microsUp, nanosOfMicros, parseUsd, whyNotUsd } from './money.ts'

test.each([
  ['0.05', 50_000_000],
  ['$5', 5_000_000_000],
  ['5.00', 5_000_000_000],
  [' 0.000001 ', 1000],
  ['0', 0],
  ['999999.999999', 999_999_999_999_000],
])('parseUsd() reads %j', (text, nanos) => {
  expect(parseUsd(text)).toBe(nanos)
})

test.each(['', '$', '-1', '1,5', '1e3', '.5', '0.0000001', '1000000', 'NaN', '0x10', '1.'])('parseUsd() refuses %j', (text) => {
  expect(parseUsd(text)).toBeNull()
})

test('whyNotUsd() tells what is too large and too fine from what is no amount', () => {
  expect(['99999999999999999999', '0.0000001', 'lots'].map(whyNotUsd)).toEqual([
    'is more than can be counted, which is less than a million dollars',
    'is finer than can be counted, which is six decimals',
    'is not an amount in dollars',
  ])
})

test('microsUp() never shows less than was spent, nor a whole micro-dollar more', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (nanos) => {
      const back = nanosOfMicros(microsUp(nanos))
      expect(back >= nanos && back < nanos + 1000).toBe(true)
    }),
  )
})

test('parseUsd() reads what was written exactly', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 999_999_999_999 }), (micros) => {
      const text = `${Math.floor(micros / 1e6)}.${String(micros % 1e6).padStart(6, '0')}`
      expect(parseUsd(text)).toBe(micros * 1000)
    }),
  )
})

test.each([
  [0, '$0.00'],
  [1, '$0.000001'],
  [12_300, '$0.0123'],
  [1_000_000, '$1.00'],
  [12_345_678, '$12.35'],
])('formatUsd() shows %d micro-dollars as %s', (micros, text) => {
  expect(formatUsd(micros)).toBe(text)
})
