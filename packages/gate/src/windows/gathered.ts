/** Bytes that come in pieces, copied together as they come: a piece may be one byte, and the object that stands for it is a hundred. */
export type Gathered = {
  readonly length: number
  add(piece: Uint8Array): void
  /** All of them, which are forgotten here. */
  take(): Buffer
  /** All of them; what is added later does not change this. */
  see(): Buffer
}

const roomBytesFirst = 1024

/** @param roomBytes how many there will be, where that is known */
export function gathered(roomBytes = 0): Gathered {
  let room: Buffer = Buffer.alloc(0)
  let length = 0
  return {
    get length() {
      return length
    },
    add(piece) {
      if (length + piece.length > room.length) {
        // Twice as much each time, so that each byte is copied about twice however many pieces there are.
        const next = Buffer.allocUnsafeSlow(Math.max(roomBytesFirst, roomBytes, 2 * (length + piece.length)))
        room.copy(next, 0, 0, length)
        room = next
      }
      room.set(piece, length)
      length += piece.length
    },
    take() {
      const taken = room.subarray(0, length)
      room = Buffer.alloc(0)
      length = 0
      return taken
    },
    see: () => room.subarray(0, length),
  }
}
