import { type Duplex, Readable, Writable } from 'node:stream'
import {
  BadFrame,
  frame,
  type Frame,
  frameReader,
  type Lane,
  laneCreditBytes,
  laneKinds,
  laneOf,
  payloadBytesMax,
} from './frames.ts'

/** Many streams over one transport. Each lane has a credit of its own, so that one that nobody reads holds up no other, and
 *  what is held in memory for it has a bound. Both ends of a channel stand on this. */
export interface Multiplex {
  send(id: number, kind: number, payload?: Buffer | string): void
  /** Bytes that go to the other side. Ending it says so; destroying it as well. */
  outgoing(id: number, lane: Lane): Writable
  /** Bytes that come. Destroying it tells the other side that nobody reads them. */
  incoming(id: number, lane: Lane): Readable
  /** No frame of this stream is expected any more: its lanes have ended. What has come can still be read. */
  forget(id: number): void
  /** Ends everything. The first reason is the one that is told. */
  close(why: string): void
  /** Settles with the reason. By then every lane has ended. */
  readonly closed: Promise<string>
}

export type MultiplexOptions = {
  /** Frames that concern a stream as a whole. It may throw `BadFrame`. */
  readonly hear: (frame: Frame) => void
  /** What a frame means whose lane is not known: the end, or nothing because this side has forgotten it first. */
  readonly strays: 'end' | 'ignore'
}

/** What may wait in the transport for an other side that does not read. Lanes wait by themselves; this is for the rest. */
const unsentBytesMax = 16 * 2 ** 20

interface Outgoing {
  credit(bytes: number): void
  stop(): void
  over(): void
}
interface Incoming {
  data(bytes: Buffer): void
  eof(): void
}

export function multiplex(transport: Duplex, { hear, strays }: MultiplexOptions): Multiplex {
  const sending = new Map<number, Map<Lane, Outgoing>>()
  const receiving = new Map<number, Map<Lane, Incoming>>()
  /** Lanes that have something to send and wait for the transport, in the order in which they get their turn. */
  const waiting = new Set<() => void>()
  const closed = Promise.withResolvers<string>()
  let isClosed = false

  function close(why: string): void {
    if (isClosed) return
    isClosed = true
    transport.destroy()
    for (const lanes of sending.values()) for (const lane of lanes.values()) lane.over()
    for (const lanes of receiving.values()) for (const lane of lanes.values()) lane.eof()
    sending.clear()
    receiving.clear()
    waiting.clear()
    closed.resolve(why)
  }

  function send(id: number, kind: number, payload: Buffer | string = ''): void {
    if (isClosed) return
    const bytes = typeof payload === 'string' ? Buffer.from(payload) : payload
    transport.cork()
    transport.write(frame(id, kind, bytes.length))
    if (bytes.length > 0) transport.write(bytes)
    transport.uncork()
    if (transport.writableLength > unsentBytesMax) close('the other side does not read what it is sent')
  }

  function outgoing(id: number, lane: Lane): Writable {
    let credit = laneCreditBytes
    let pending: Buffer | null = null
    let done: (() => void) | null = null
    let isOver = false
    function pump(): void {
      waiting.delete(pump)
      while (pending !== null && credit > 0) {
        if (transport.writableNeedDrain) return void waiting.add(pump)
        const piece: Buffer = pending.subarray(0, Math.min(credit, payloadBytesMax))
        credit -= piece.length
        pending = piece.length === pending.length ? null : pending.subarray(piece.length)
        send(id, laneKinds.data + lane, piece)
      }
      if (pending !== null) return
      const sent = done
      done = null
      sent?.()
    }
    function over(): void {
      if (isOver) return
      isOver = true
      pending = null
      waiting.delete(pump)
      send(id, laneKinds.eof + lane)
      const given = done
      done = null
      given?.()
    }
    const stream = new Writable({
      highWaterMark: payloadBytesMax,
      write(bytes: Buffer, _, sent) {
        if (isOver) return sent()
        pending = bytes
        done = sent
        pump()
      },
      final(ended) {
        over()
        ended()
      },
      destroy(error, destroyed) {
        over()
        destroyed(error)
      },
    })
    keep(sending, id, lane, {
      credit(bytes) {
        credit += bytes
        if (credit > laneCreditBytes) throw new BadFrame('a lane was given more credit than there is')
        pump()
      },
      stop: () => stream.destroy(),
      over: () => stream.destroy(),
    })
    if (isClosed) stream.destroy()
    return stream
  }

  function incoming(id: number, lane: Lane): Readable {
    const queue = joined()
    let unread = 0
    let owed = 0
    let isWanted = false
    let hasEnded = false
    function flow(): void {
      while (isWanted && queue.length > 0) {
        const bytes = queue.shift()
        unread -= bytes.length
        owed += bytes.length
        isWanted = stream.push(bytes)
      }
      if (owed >= laneCreditBytes / 4) {
        const payload = Buffer.allocUnsafe(4)
        payload.writeUInt32BE(owed)
        owed = 0
        if (!hasEnded) send(id, laneKinds.credit + lane, payload)
      }
      if (hasEnded && queue.length === 0 && !stream.readableEnded) stream.push(null)
    }
    const stream = new Readable({
      // One piece at a time: it would keep each as it came, where the queue joins them.
      highWaterMark: 1,
      read() {
        isWanted = true
        flow()
      },
      destroy(error, destroyed) {
        queue.clear()
        if (!hasEnded) send(id, laneKinds.stop + lane)
        destroyed(error)
      },
    })
    keep(receiving, id, lane, {
      data(bytes) {
        if (hasEnded) throw new BadFrame('data came after the end of its lane')
        unread += bytes.length
        if (unread + owed > laneCreditBytes) throw new BadFrame('more came than there was credit for')
        if (stream.destroyed) return
        queue.push(bytes)
        flow()
      },
      eof() {
        if (hasEnded) return
        hasEnded = true
        if (!stream.destroyed) flow()
      },
    })
    if (isClosed) stream.push(null)
    return stream
  }

  function take(received: Frame): void {
    if (isClosed) return
    const about = laneOf(received.kind)
    if (about === null) return hear(received)
    const { does, lane } = about
    if (does === 'data' || does === 'eof') {
      const known = receiving.get(received.id)?.get(lane)
      if (known === undefined) return stray(received)
      if (does === 'data') known.data(received.payload)
      else known.eof()
    } else {
      const known = sending.get(received.id)?.get(lane)
      if (known === undefined) return stray(received)
      if (does === 'credit') known.credit(received.payload.readUInt32BE(0))
      else known.stop()
    }
  }

  function stray({ id, kind }: Frame): void {
    if (strays === 'end') throw new BadFrame(`a frame of kind ${kind} came for stream ${id}, which has no such lane`)
  }

  const read = frameReader(take)
  transport.on('data', (bytes: Buffer) => {
    try {
      if (!isClosed) read(bytes)
    } catch (error) {
      if (!(error instanceof BadFrame)) throw error
      close(error.message)
    }
  })
  transport.on('drain', () => {
    // A lane that fills the transport again goes to the end of the line.
    for (const pump of [...waiting]) {
      if (transport.writableNeedDrain) break
      pump()
    }
  })
  transport.once('end', () => close('the other side has gone'))
  transport.once('close', () => close('the other side has gone'))
  transport.on('error', (error: Error) => close(`the channel broke: ${error.message}`))

  return {
    send,
    outgoing,
    incoming,
    forget(id) {
      const left = [sending.get(id), receiving.get(id)] as const
      sending.delete(id)
      receiving.delete(id)
      for (const lane of left[0]?.values() ?? []) lane.over()
      for (const lane of left[1]?.values() ?? []) lane.eof()
    },
    close,
    closed: closed.promise,
  }
}

/** What waits to be read. Credit counts bytes, and a byte that comes alone would take up a hundred more and keep the whole of what it
 *  was read with: small ones are put together in memory of their own. */
function joined() {
  const pieces: { bytes: Buffer; used: number }[] = []
  return {
    get length() {
      return pieces.length
    },
    push(bytes: Buffer): void {
      const last = pieces.at(-1)
      if (last !== undefined && last.bytes.length - last.used >= bytes.length) {
        last.used += bytes.copy(last.bytes, last.used)
        return
      }
      if (bytes.length * 2 >= bytes.buffer.byteLength) return void pieces.push({ bytes, used: bytes.length })
      const own = Buffer.allocUnsafeSlow(Math.max(joinedBytes, bytes.length))
      pieces.push({ bytes: own, used: bytes.copy(own) })
    },
    /** The first one. There must be one. */
    shift(): Buffer {
      const { bytes, used } = pieces.shift()!
      return bytes.subarray(0, used)
    },
    clear: () => void (pieces.length = 0),
  }
}
const joinedBytes = 16 * 1024

function keep<T>(all: Map<number, Map<Lane, T>>, id: number, lane: Lane, one: T): void {
  const known = all.get(id)
  if (known === undefined) all.set(id, new Map([[lane, one]]))
  else known.set(lane, one)
}
