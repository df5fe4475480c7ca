import { runs } from '@anchorhold/protocol/test-runs'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readAnswer, readGreeting, readWanted } from './socks.ts'

const name = (text: string, port = 443) =>
  Buffer.from([5, 1, 0, 3, text.length, ...Buffer.from(text, 'latin1'), port >> 8, port & 255])

test('readGreeting() takes a client that needs no password', () => {
  expect(readGreeting(Buffer.from([5, 2, 0, 2, 9]))).toEqual({ length: 4, isOpen: true })
  expect(readGreeting(Buffer.from([5, 1, 2]))).toEqual({ length: 3, isOpen: false })
  expect(readGreeting(Buffer.from([5, 2, 0]))).toBe('more')
  expect(readGreeting(Buffer.from([4, 1, 0]))).toBeNull()
  expect(readGreeting(Buffer.from('GET '))).toBeNull()
})

test('readWanted() reads names and addresses as an authority', () => {
  expect(readWanted(name('allowed.test'))).toEqual({ length: 19, authority: 'allowed.test:443' })
  expect(readWanted(Buffer.from([5, 1, 0, 1, 127, 0, 0, 1, 0, 80]))).toEqual({ length: 10, authority: '127.0.0.1:80' })
  const six = Buffer.from([5, 1, 0, 4, ...Array.from({ length: 15 }, () => 0), 1, 1, 187])
  expect(readWanted(six)).toEqual({ length: 22, authority: '[0:0:0:0:0:0:0:1]:443' })
  expect(readWanted(name('allowed.test').subarray(0, 10))).toBe('more')
})

test.each([
  ['BIND', [5, 2, 0, 1, 1, 1, 1, 1, 0, 80], 7],
  ['UDP', [5, 3, 0, 1, 1, 1, 1, 1, 0, 80], 7],
  ['an unknown kind of address', [5, 1, 0, 2, 1, 1, 1, 1, 0, 80], 8],
  ['no name', [5, 1, 0, 3, 0, 0, 80], 8],
  ['no port', [...name('a', 0)], 8],
  ['a line break in a name', [...name('a\r\nX: y')], 8],
  ['an address with colons as a name', [...name('::1')], 8],
  ['a user', [...name('a@b')], 8],
  ['a null byte', [...name('allowed.test\0evil')], 8],
  ['a letter beyond ASCII', [...name('\u00e4')], 8],
  ['another version', [4, 1, 0, 80, 1, 1, 1, 1, 0], 1],
  ['something in the reserved byte', [5, 1, 1, 1, 1, 1, 1, 1, 0, 80], 1],
])('readWanted() refuses %s', (_, bytes, refusal) => {
  expect(readWanted(Buffer.from(bytes))).toEqual({ refusal })
})

test('whatever is read, an authority stays on its line and within its bounds', () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 600 }),
    fc.uint8Array({ maxLength: 300 }).map((rest) => Uint8Array.from([5, 1, 0, 3, ...rest])),
    fc.string({ maxLength: 255 }).map((text) => name(text)),
  )
  fc.assert(
    fc.property(bytes, (given) => {
      const said = Buffer.from(given)
      const greeting = readGreeting(said)
      if (greeting !== null && greeting !== 'more') expect(greeting.length).toBeLessThanOrEqual(said.length)
      const answer = readAnswer(said)
      if (answer !== null && answer !== 'more') expect(answer.length).toBeLessThanOrEqual(said.length)
      const wanted = readWanted(said)
      if (wanted === 'more' || 'refusal' in wanted) return
      expect(wanted.authority).toMatch(/^([A-Za-z0-9.-]{1,255}|\[[0-9a-f:]+\]):[1-9]\d{0,4}$/)
      expect(wanted.length).toBeLessThanOrEqual(said.length)
    }),
    { numRuns: runs(2000), seed: 5 },
  )
})
