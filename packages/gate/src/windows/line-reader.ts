import { gathered } from './gathered.ts'

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

export function lineReader(lineBytesMax: number): LineReader {
  const begun = gathered()
  let isTooLong = false
  let isFirst = true
  let isAfterCr = false

  /** The line that these bytes end. */
  function line(piece: Buffer, endBytes: number): Line {
    let bytes = piece
    if (begun.length > 0) {
      begun.add(piece)
      bytes = begun.take()
    }
    let content: Buffer | null = isTooLong ? null : bytes.subarray(0, bytes.length - endBytes)
    if (isFirst && content?.subarray(0, mark.length).equals(mark) === true) content = content.subarray(mark.length)
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
      begun.add(rest)
      if (isTooLong || begun.length > lineBytesMax) {
        isTooLong = true
        lines.push({ bytes: begun.take(), content: null })
      }
      return lines
    },
    rest: () => (begun.length === 0 ? [] : [line(Buffer.alloc(0), 0)]),
  }
}

const field = Buffer.from('data:')
const blank = 32

/** What a line of data says; null for every other line. */
export function dataIn({ content }: Line): Buffer | null {
  if (content === null || !content.subarray(0, field.length).equals(field)) return null
  return content.subarray(field.length + (content[field.length] === blank ? 1 : 0))
}
