import { expect, test } from 'vitest'
import { base64ImageSize } from './image-size.ts'

const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const gif = 'R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs='
const jpegHead = Buffer.concat([
  Buffer.from([0xff, 0xd8, 0xff, 0xe1, 0x00, 0x10]),
  Buffer.alloc(14),
  Buffer.from([0xff, 0xc0, 0x00, 0x11, 0x08, 0x01, 0x2c, 0x02, 0x58]),
  Buffer.alloc(20),
]).toString('base64')
const webp = Buffer.concat([Buffer.from('RIFF----WEBPVP8X'), Buffer.alloc(8), Buffer.from([0xff, 0, 0, 0x7f, 0, 0])]).toString(
  'base64',
)

test.each([
  ['PNG', png, { width: 1, height: 1 }],
  ['GIF', gif, { width: 1, height: 1 }],
  ['JPEG behind camera data', jpegHead, { width: 600, height: 300 }],
  ['WebP', webp, { width: 256, height: 128 }],
  ['text', Buffer.from('not an image at all, just words that go on').toString('base64'), null],
  ['nothing', '', null],
  ['a cut JPEG', Buffer.from([0xff, 0xd8, ...Array<number>(40).fill(0xff)]).toString('base64'), null],
])('base64ImageSize() of %s', (_, data, size) => {
  expect(base64ImageSize(data)).toEqual(size)
})
