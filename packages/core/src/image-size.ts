export type ImageSize = { readonly width: number; readonly height: number }

/** Enough of an image to find its size in, also behind a JPEG's camera data. */
const headBytes = 256 * 1024

/** The size that a PNG, GIF, WebP or JPEG says it has; null when it cannot be told. */
export function base64ImageSize(data: string): ImageSize | null {
  const bytes = Buffer.from(data.slice(0, Math.ceil(headBytes / 3) * 4), 'base64')
  const size = sizeIn(bytes)
  return size !== null && size.width > 0 && size.height > 0 ? size : null
}

function sizeIn(bytes: Buffer): ImageSize | null {
  if (bytes.length < 30) return bytes.length >= 10 && isGif(bytes) ? gif(bytes) : null
  if (bytes.readUInt32BE(0) === 0x89504e47 && bytes.toString('latin1', 12, 16) === 'IHDR') {
    return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) }
  }
  if (isGif(bytes)) return gif(bytes)
  if (bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.toString('latin1', 8, 12) === 'WEBP') return webp(bytes)
  return bytes.readUInt16BE(0) === 0xffd8 ? jpeg(bytes) : null
}

const isGif = (bytes: Buffer) => bytes.toString('latin1', 0, 4) === 'GIF8'
const gif = (bytes: Buffer): ImageSize => ({ width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) })

/** https://developers.google.com/speed/webp/docs/riff_container */
function webp(bytes: Buffer): ImageSize | null {
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8 ':
      return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff }
    case 'VP8L': {
      const bits = bytes.readUInt32LE(21)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 }
    default:
      return null
  }
}

/** Walks the segments up to the frame header (SOF0 to SOF15 without DHT, JPG and DAC). */
function jpeg(bytes: Buffer): ImageSize | null {
  for (let at = 2; at + 9 < bytes.length;) {
    if (bytes[at] !== 0xff) return null
    const marker = bytes[at + 1]!
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) }
    }
    at += marker === 0xff ? 1 : 2 + bytes.readUInt16BE(at + 2)
  }
  return null
}
