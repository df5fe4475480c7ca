/** What travels between a keeper and the program inside a cell, over one stream of bytes. A frame is a stream's id (u32), a kind
 *  (u8), the length of its payload (u32), all big-endian, and the payload. */
export type Frame = { readonly id: number; readonly kind: number; readonly payload: Buffer }

/** Frames that concern a stream as a whole. Their payload is JSON or nothing. */
export const kinds = {
  /** Host: what to relay. Inside: ready. On stream 0, once from each. */
  hello: 1,
  /** Host: run a process, after as many `part`s of the same JSON as it takes. */
  start: 2,
  part: 3,
  /** Host: bring a signal to the process. */
  signal: 4,
  /** Inside: the process has ended. */
  exit: 5,
  /** Inside: someone has connected to a relayed socket. */
  open: 6,
  /** Either: the connection broke. */
  reset: 7,
  /** Inside: the last frame of a stream. Its id never comes again. */
  end: 8,
} as const

/** Frames that concern one lane of a stream, which carries bytes one way. The lane's number is added to these. */
export const laneKinds = {
  data: 16,
  /** Nothing more comes. */
  eof: 32,
  /** So many bytes more may be sent (u32). */
  credit: 48,
  /** Nobody reads this lane any more. */
  stop: 64,
} as const

/** To the process or connection inside, from it, and what a process says on its standard error. */
export const lanes = { in: 0, out: 1, err: 2 } as const
export type Lane = (typeof lanes)[keyof typeof lanes]

export const protocolVersion = 1
export const payloadBytesMax = 64 * 1024
/** What `start` and its parts may be together. Linux takes about this much of arguments and environment. */
export const startBytesMax = 2 * 2 ** 20
/** How much of a lane may be under way and unread. Both sides begin with this credit. */
export const laneCreditBytes = 256 * 1024
/** Connections through the relays at a time. The program inside has further ones wait; the host refuses them. */
export const connectionsMax = 256

const headerBytes = 9

export function frame(id: number, kind: number, payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(headerBytes)
  header.writeUInt32BE(id, 0)
  header.writeUInt8(kind, 4)
  header.writeUInt32BE(payloadBytes, 5)
  return header
}

/** What came is no frame, or not one that may come now. It ends the channel. */
export class BadFrame extends Error {}

/** Takes bytes in whatever pieces they come, and gives whole frames on. Throws `BadFrame`. */
export function frameReader(hear: (frame: Frame) => void): (bytes: Buffer) => void {
  let pieces: Buffer[] = []
  let have = 0
  let need = headerBytes
  return (bytes) => {
    pieces.push(bytes)
    have += bytes.length
    if (have < need) return
    let all = pieces.length === 1 ? bytes : Buffer.concat(pieces)
    for (;;) {
      need = headerBytes
      if (all.length < need) break
      need += checkedLength(all)
      if (all.length < need) break
      const payload = all.subarray(headerBytes, need)
      const [id, kind] = [all.readUInt32BE(0), all.readUInt8(4)]
      all = all.subarray(need)
      hear({ id, kind, payload })
    }
    pieces = all.length === 0 ? [] : [all]
    have = all.length
  }
}

/** The lane that a kind speaks of, or null for one that speaks of a whole stream. */
export function laneOf(kind: number): { readonly does: keyof typeof laneKinds; readonly lane: Lane } | null {
  return laneTable.get(kind) ?? null
}

const laneTable = new Map(
  Object.entries(laneKinds).flatMap(([does, base]) =>
    Object.values(lanes).map((lane) => [base + lane, { does: does as keyof typeof laneKinds, lane }] as const),
  ),
)
const wholeKinds: ReadonlySet<number> = new Set(Object.values(kinds))

function checkedLength(header: Buffer): number {
  const kind = header.readUInt8(4)
  const length = header.readUInt32BE(5)
  const lane = laneTable.get(kind)
  const [least, most] =
    lane === undefined
      ? [0, payloadBytesMax]
      : lane.does === 'data'
        ? [1, payloadBytesMax]
        : lane.does === 'credit'
          ? [4, 4]
          : [0, 0]
  if (lane === undefined && !wholeKinds.has(kind)) throw new BadFrame(`there is no kind ${kind}`)
  if (length < least || length > most) throw new BadFrame(`a frame of kind ${kind} cannot have ${length} bytes`)
  return length
}
