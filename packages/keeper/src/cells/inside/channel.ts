import { createConnection } from 'node:net'
import type { Duplex } from 'node:stream'
import { z } from 'zod'
import type { CellProcess, SpawnOptions } from '../cell.ts'
import { BadFrame, connectionsMax, type Frame, kinds, lanes, payloadBytesMax, protocolVersion, startBytesMax } from './frames.ts'
import { multiplex } from './multiplex.ts'

/** The host's end of the stream to the program inside a cell (`inside.ts`).
 *  Invariant: everything that comes is hostile. What is no frame, or more than was allowed, or about a stream that is not open,
 *  ends the channel, and the cell with it; never the keeper. */
export interface InsideChannel {
  /** Settles when the program inside has answered and its relays stand, with what it sees of how it is held: its own
   *  /proc/self/status, mountinfo and limits, and /proc/version. Rejects when the channel closes first. */
  readonly ready: Promise<string>
  /** Settles when the channel is over, with the reason in words. Every process is told as ended by then. */
  readonly closed: Promise<string>
  spawn(argv: readonly [string, ...string[]], options: SpawnOptions): CellProcess
  /** Settles when nothing is under way: no process, no connection, no frame of either. */
  quiet(): Promise<void>
  close(): void
}

/** Sockets that the cell is to see in a folder of its own, each a window of the host's. For cells that cannot mount them. */
export type Relays = {
  /** Where the cell sees them. */
  readonly folder: string
  /** The host's socket behind each name. */
  readonly sockets: Readonly<Record<string, string>>
}

export type ChannelOptions = { readonly relays?: Relays }

/** As a process that was killed: nobody knows what became of it. */
const lostCode = 137

const Hello = z.object({ version: z.literal(protocolVersion), report: z.string() })
const Exit = z.object({ code: z.int().min(0).max(255) })
const Open = z.object({ name: z.string().max(100) })

interface Stream {
  exited(code: number): void
  /** The other side broke it. */
  reset(): void
  end(): void
  lost(): void
}

export function insideChannel(transport: Duplex, { relays }: ChannelOptions = {}): InsideChannel {
  const streams = new Map<number, Stream>()
  const ready = Promise.withResolvers<string>()
  ready.promise.catch(() => {}) // whoever cares awaits it
  let isReady = false
  let lastOwn = 1
  let lastOpened = 0
  let connections = 0
  let isClosed = false
  let quietOnes: (() => void)[] = []
  const tellIfQuiet = () => {
    if (streams.size > 0) return
    for (const tell of quietOnes) tell()
    quietOnes = []
  }

  const link = multiplex(transport, { hear, strays: 'end' })
  const closed = link.closed.then((why) => {
    isClosed = true
    ready.reject(new Error(`The program inside the cell does not answer: ${why}`))
    for (const stream of streams.values()) stream.lost()
    streams.clear()
    tellIfQuiet()
    return why
  })
  link.send(
    0,
    kinds.hello,
    JSON.stringify({
      version: protocolVersion,
      relays: relays === undefined ? null : { folder: relays.folder, names: Object.keys(relays.sockets) },
    }),
  )

  function hear({ id, kind, payload }: Frame): void {
    if (kind === kinds.hello) {
      if (id !== 0 || isReady) throw new BadFrame('a second greeting came')
      isReady = true
      return ready.resolve(parse(Hello, payload).report)
    }
    if (kind === kinds.open) return open(id, parse(Open, payload).name)
    const stream = streams.get(id)
    if (stream === undefined) throw new BadFrame(`a frame of kind ${kind} came for stream ${id}, which is not open`)
    if (kind === kinds.exit) return stream.exited(parse(Exit, payload).code)
    if (kind === kinds.reset) return stream.reset()
    if (kind !== kinds.end) throw new BadFrame(`kind ${kind} is not for this side`)
    stream.end()
    streams.delete(id)
    link.forget(id)
    tellIfQuiet()
  }

  function spawn(argv: readonly [string, ...string[]], { env, cwd }: SpawnOptions): CellProcess {
    const id = (lastOwn += 2)
    const exited = Promise.withResolvers<number>()
    let exitCode: number | null = null
    let killed = false
    const settle = (code: number) => exited.resolve((exitCode ??= code))
    if (!isClosed) streams.set(id, { exited: settle, reset() {}, end: () => settle(lostCode), lost: () => settle(lostCode) })
    else settle(lostCode)

    const stdin = link.outgoing(id, lanes.in)
    const [stdout, stderr] = [link.incoming(id, lanes.out), link.incoming(id, lanes.err)]
    // A process that has ended does not read what is still written to it; its exit says so.
    stdin.on('error', () => {})
    const whole = Buffer.from(JSON.stringify({ argv, env, cwd }))
    if (whole.length > startBytesMax) throw new Error(`Cannot run "${argv[0]}": its arguments and environment are too long`)
    let at = 0
    for (; whole.length - at > payloadBytesMax; at += payloadBytesMax)
      link.send(id, kinds.part, whole.subarray(at, at + payloadBytesMax))
    link.send(id, kinds.start, whole.subarray(at))

    return {
      stdin,
      stdout,
      stderr,
      exited: exited.promise,
      get exitCode() {
        return exitCode
      },
      get killed() {
        return killed
      },
      kill(signal) {
        if (exitCode !== null) return false
        link.send(id, kinds.signal, JSON.stringify({ signal }))
        return (killed = true)
      },
    }
  }

  function open(id: number, name: string): void {
    // Even ones are the other side's, in ascending order: none comes twice.
    if (id % 2 !== 0 || id <= lastOpened) throw new BadFrame(`stream ${id} cannot be opened`)
    lastOpened = id
    const path = relays !== undefined && Object.hasOwn(relays.sockets, name) ? relays.sockets[name] : undefined
    if (path === undefined) throw new BadFrame('a connection came to a window that there is not')
    // Not of one that was refused: the frames of those under way are still read, and dropped.
    if (connections >= connectionsMax * 2) throw new BadFrame('too many connections were opened')
    connections++

    const [from, to] = [link.incoming(id, lanes.out), link.outgoing(id, lanes.in)]
    to.on('error', () => {})
    const window = connections > connectionsMax ? null : createConnection({ path, allowHalfOpen: true })
    let isBroken = false
    // One that is over for the other side takes up a socket here until what it said has reached the window.
    const parted = () => void connections--
    const breakOff = () => {
      if (isBroken) return
      isBroken = true
      window?.destroy()
      from.destroy()
      to.destroy()
      link.send(id, kinds.reset)
    }
    streams.set(id, {
      exited() {
        throw new BadFrame('a connection has no exit code')
      },
      reset: breakOff,
      end() {
        if (window === null || window.closed) return parted()
        window.once('close', parted)
        if (window.writableFinished) window.destroy()
        else window.once('finish', () => window.destroy())
      },
      lost: breakOff,
    })
    if (window === null) return breakOff()
    window.once('error', breakOff)
    from.pipe(window)
    window.pipe(to)
  }

  const quiet = () =>
    new Promise<void>((resolve) => {
      quietOnes.push(resolve)
      tellIfQuiet()
    })
  return { ready: ready.promise, closed, spawn, quiet, close: () => link.close('it was closed') }
}

function parse<T>(schema: z.ZodType<T>, payload: Buffer): T {
  let value: unknown
  try {
    value = JSON.parse(payload.toString('utf8'))
  } catch {
    throw new BadFrame('a payload is not JSON')
  }
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw new BadFrame('a payload has not the form that it should have')
  return parsed.data
}
