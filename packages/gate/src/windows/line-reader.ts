/** One line of a stream of events, or a piece of a line that is too long to be read. */
export type Line = {
  /** As it came, with its end. The bytes of all lines are those of the stream. */
  readonly bytes: Buffer
  /** What it says; null for what is no line of its own, or too long. */
  readonly content: Buffer | null
}

/** Cuts a stream of events into lines, wherever its pieces are cut (https://html.spec.whatwg.org/#parsing-an-event-stream): a line ends
 *  in CRLF, LF or CR, and a byte order mark may stand in front of the first. A line is read as soon as its end has begun. */
export type LineReader = {
  feed(chunk: Uint8Array): Line[]
  /** The last line, which has no end. */
  rest(): Line[]
}

const [lf, cr] = [10, 13]
const mark = Buffer.from([0xef, 0xbb, 0xbf])
const roomBytesFirst = 1024

export function lineReader(lineBytesMax: number): LineReader {
  /** The beginning of a line. It is copied together: a piece may be one byte, and what keeps it hundreds. */
  let begun = Buffer.alloc(0)
  let begunBytes = 0
  let isTooLong = false
  let isFirst = true
  let isAfterCr = false

  function keep(piece: Buffer): void {
    if (begunBytes + piece.length > begun.length) {
      const room = Buffer.allocUnsafeSlow(Math.max(roomBytesFirst, 2 * (begunBytes + piece.length)))
      begun.copy(room, 0, 0, begunBytes)
      begun = room
    }
    piece.copy(begun, begunBytes)
    begunBytes += piece.length
  }
  /** The line that these bytes end. */
  function line(piece: Buffer, endBytes: number): Line {
    const isWhole = begunBytes === 0
    if (!isWhole) keep(piece)
    const bytes = isWhole ? piece : begun.subarray(0, begunBytes)
    let content: Buffer | null = isTooLong ? null : bytes.subarray(0, bytes.length - endBytes)
    if (isFirst && content?.subarray(0, mark.length).equals(mark) === true) content = content.subarray(mark.length)
    if (!isWhole) begun = Buffer.alloc(0)
    begunBytes = 0
    isTooLong = false
    isFirst = false
    return { bytes, content }
  }

  return {
    feed(chunk) {
      const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      const lines: Line[] = []
      let from = 0
      if (isAfterCr && bytes.length > 0) {
        isAfterCr = false
        // The other half of an end that was cut in two.
        if (bytes[0] === lf) lines.push({ bytes: bytes.subarray(0, (from = 1)), content: null })
      }
      let nextLf = bytes.indexOf(lf, from)
      let nextCr = bytes.indexOf(cr, from)
      while (nextLf !== -1 || nextCr !== -1) {
        const at = nextLf === -1 ? nextCr : nextCr === -1 ? nextLf : Math.min(nextLf, nextCr)
        const isPair = bytes[at] === cr && bytes[at + 1] === lf
        isAfterCr = bytes[at] === cr && at + 1 === bytes.length
        const to = at + (isPair ? 2 : 1)
        lines.push(line(bytes.subarray(from, to), to - at))
        from = to
        if (nextLf !== -1 && nextLf < to) nextLf = bytes.indexOf(lf, to)
        if (nextCr !== -1 && nextCr < to) nextCr = bytes.indexOf(cr, to)
      }
      const rest = bytes.subarray(from)
      if (rest.length === 0) return lines
      keep(rest)
      if (isTooLong || begunBytes > lineBytesMax) {
        isTooLong = true
        lines.push({ bytes: begun.subarray(0, begunBytes), content: null })
        begun = Buffer.alloc(0)
        begunBytes = 0
      }
      return lines
    },
    rest: () => (begunBytes === 0 ? [] : [line(Buffer.alloc(0), 0)]),
  }
}

const field = Buffer.from('data:')
const blank = 32

/** What a line of data says; null for every other line. */
export function dataIn({ content }: Line): Buffer | null {
  if (content === null || !content.subarray(0, field.length).equals(field)) return null
  return content.subarray(field.length + (content[field.length] === blank ? 1 : 0))
}
