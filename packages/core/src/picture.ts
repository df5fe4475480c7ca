/** The kinds of pictures that a page shows. SVG is none of them: it is a document, with scripts and links of its own. */
export type Picture = { readonly type: PictureType; readonly width: number; readonly height: number }
type PictureType = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'

/** What is bigger takes a browser more memory than a picture is worth, however small its file. */
export const picturePixelsMax = 50_000_000

/** Whether a path is called as a picture is; what the file really is only its first bytes tell. */
export const isPicturePath = (path: string): boolean => /\.(?:png|jpe?g|gif|webp)$/i.test(path)

/** What picture these bytes are, by how they begin and never by what they are called; null for anything else. */
export function pictureOf(bytes: Uint8Array): Picture | null {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const word = (at: number, length: number) => String.fromCharCode(...bytes.subarray(at, at + length))
  if (bytes.length >= 24 && word(0, 8) === '\x89PNG\r\n\x1a\n' && word(12, 4) === 'IHDR')
    return { type: 'image/png', width: view.getUint32(16), height: view.getUint32(20) }
  if (bytes.length >= 10 && /^GIF8[79]a$/.test(word(0, 6)))
    return { type: 'image/gif', width: view.getUint16(6, true), height: view.getUint16(8, true) }
  if (bytes.length >= 30 && word(0, 4) === 'RIFF' && word(8, 4) === 'WEBP') {
    const size = webpSize(view, word(12, 4))
    return size === null ? null : { type: 'image/webp', ...size }
  }
  if (bytes.length >= 4 && bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff) {
    const size = jpegSize(view)
    return size === null ? null : { type: 'image/jpeg', ...size }
  }
  return null
}

type Size = { readonly width: number; readonly height: number }

/** https://developers.google.com/speed/webp/docs/riff_container */
function webpSize(view: DataView, kind: string): Size | null {
  if (kind === 'VP8X') return { width: 1 + uint24(view, 24), height: 1 + uint24(view, 27) }
  if (kind === 'VP8L') {
    const bits = view.getUint32(21, true)
    return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) }
  }
  return kind === 'VP8 ' ? { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff } : null
}
const uint24 = (view: DataView, at: number) => view.getUint16(at, true) | (view.getUint8(at + 2) << 16)

/** A JPEG's size stands in the first frame that it begins: https://www.w3.org/Graphics/JPEG/itu-t81.pdf B.2.2 */
function jpegSize(view: DataView): Size | null {
  for (let at = 2; at + 9 <= view.byteLength;) {
    if (view.getUint8(at) !== 0xff) return null
    const marker = view.getUint8(at + 1)
    if (marker === 0xff) {
      at++
      continue
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
    if (isFrame) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) }
    at += 2 + view.getUint16(at + 2)
  }
  return null
}
