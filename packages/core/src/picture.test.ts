import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isPicturePath, pictureOf } from './picture.ts'

const bytes = (...parts: readonly (string | readonly number[])[]) =>
  Uint8Array.from(parts.flatMap((part) => (typeof part === 'string' ? Array.from(part, (c) => c.charCodeAt(0)) : [...part])))
const zeros = (count: number): number[] => Array.from({ length: count }, () => 0)

test.each([
  ['a PNG', bytes('\x89PNG\r\n\x1a\n', [0, 0, 0, 13], 'IHDR', [0, 0, 1, 44, 0, 0, 0, 200]), 'image/png', 300, 200],
  ['a GIF', bytes('GIF89a', [44, 1, 200, 0]), 'image/gif', 300, 200],
  ['a JPEG', bytes([0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc2, 0, 17, 8, 0, 200, 1, 44, 3, 0, 0]), 'image/jpeg', 300, 200],
  ['a WebP', bytes('RIFF', zeros(4), 'WEBPVP8 ', zeros(10), [44, 1, 200, 0]), 'image/webp', 300, 200],
  ['a lossless WebP', bytes('RIFF', zeros(4), 'WEBPVP8L', zeros(4), [0x2f, 43, 193, 49, 0], zeros(9)), 'image/webp', 300, 200],
  ['a long WebP', bytes('RIFF', zeros(4), 'WEBPVP8X', zeros(8), [43, 1, 0, 199, 0, 0]), 'image/webp', 300, 200],
])('pictureOf() knows %s by its first bytes, and how large it is', (_, content, type, width, height) => {
  expect(pictureOf(content)).toEqual({ type, width, height })
})

test.each([
  ['an SVG', bytes('<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>')],
  ['a page', bytes('<!doctype html><script>1</script>')],
  ['a page behind a comment', bytes('GIF<script>1</script>')],
  ['a JPEG without a frame', bytes([0xff, 0xd8, 0xff, 0xd9], zeros(40))],
  ['nothing', bytes()],
])('pictureOf() takes %s for no picture', (_, content) => {
  expect(pictureOf(content)).toBeNull()
})

test('pictureOf() reads nothing beyond the end of what it is given', () => {
  const heads = [bytes('\x89PNG\r\n\x1a\n'), bytes('GIF89a'), bytes('RIFF    WEBPVP8X'), bytes([0xff, 0xd8, 0xff, 0xc0])]
  fc.assert(
    fc.property(fc.constantFrom(...heads), fc.uint8Array({ maxLength: 60 }), (head, rest) => {
      pictureOf(Uint8Array.from([...head, ...rest]))
    }),
  )
})

test('isPicturePath() goes by the ending, and never for SVG', () => {
  expect(['a.png', 'b/c.JPG', 'd.jpeg', 'e.webp', 'f.gif'].every(isPicturePath)).toBe(true)
  expect(['a.svg', 'png', 'a.png.txt', 'a.png?x'].some(isPicturePath)).toBe(false)
})
