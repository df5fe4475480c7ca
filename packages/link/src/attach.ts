import { Failure, type FailureCode, failureCodes } from '@anchorhold/protocol/failures'
import type { LiveFrame } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { type FromDaemon, linkVersion, type OutboxRecord, type SourceName, ToDaemon } from '@anchorhold/protocol/link'
import { type Clock, systemClock } from './clock.ts'
import { unixWire, type Wire } from './wire.ts'

/** The daemon's end of a link. */
export interface Attachment {
  readonly source: SourceName
  readonly pid: number
  /** The last record that it had when this end attached. Below what is stored here, its files are not those that it had. */
  readonly last: number
  /** Whether the other end still lives. */
  readonly open: boolean
  /** Sends a command and gives its result, or throws the `Failure` it met. */
  do(command: unknown): Promise<unknown>
  /** Everything up to `n` is stored here. */
  ack(n: number): void
  close(): void
}

/** Whether nobody is at the other end any more, or nobody answered. */
export const isLost = (error: unknown): boolean => error instanceof Failure && error.code === 'keeper_unavailable'

export type AttachOptions = {
  readonly wire?: Wire
  readonly clock?: Clock
  readonly socketPath: string
  /** Who is meant to be there. A session's user can put anything where its keeper listens. */
  readonly source: SourceName
  /** The last record that is stored already. */
  readonly after: number
  readonly onRecord: (record: OutboxRecord) => void
  readonly onLive: (session: SessionId, frame: LiveFrame) => void
  readonly onClose: () => void
}

/** How long the other end may take to say who it is. */
const helloMs = 10_000
/** How long a command may take. The longest waits for a cell to start or to end. */
const doMs = 60_000

/** Attaches to a keeper or the gate. Throws when nobody listens there, or somebody else: then nothing that he says is heard. */
export async function attachTo({
  wire = unixWire,
  clock = systemClock,
  socketPath,
  source,
  after,
  onRecord,
  onLive,
  onClose,
}: AttachOptions): Promise<Attachment> {
  const waiting = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>()
  const hello = Promise.withResolvers<{ pid: number; last: number }>()
  hello.promise.catch(() => {})
  let lastId = 0
  let isKnown = false
  const connection = await wire.connect(socketPath, {
    closed() {
      const gone = new Failure('keeper_unavailable', `The process behind "${socketPath}" has gone`)
      hello.reject(gone)
      for (const { reject } of waiting.values()) reject(gone)
      waiting.clear()
      onClose()
    },
    frame(raw) {
      const frame = ToDaemon.parse(raw)
      if (!isKnown && frame.t !== 'hello') throw new Error('It speaks before it has said who it is')
      switch (frame.t) {
        case 'hello': {
          const refusal = refusalOf(frame, source, socketPath)
          if (refusal !== null) {
            hello.reject(refusal)
            throw refusal
          }
          isKnown = true
          return hello.resolve(frame)
        }
        case 'record':
          return onRecord(frame.record)
        case 'live':
          return onLive(frame.session, frame.frame)
        case 'done': {
          const one = waiting.get(frame.id)
          waiting.delete(frame.id)
          if (frame.ok) one?.resolve(frame.result)
          else one?.reject(failureFrom(frame))
        }
      }
    },
  })
  const send = (frame: FromDaemon) => connection.send(frame)
  send({ t: 'hello', version: linkVersion, after })
  const heardInTime = clock.after(helloMs, () => connection.close())
  const { pid, last } = await hello.promise
    .catch((error: unknown) => {
      connection.close()
      throw error
    })
    .finally(heardInTime)

  return {
    source,
    pid,
    last,
    get open() {
      return connection.open
    },
    do(command) {
      const id = ++lastId
      const { promise, resolve, reject } = Promise.withResolvers<unknown>()
      if (!connection.open) reject(new Failure('keeper_unavailable', `"${source}" has gone`))
      else {
        waiting.set(id, { resolve, reject })
        send({ t: 'do', id, command })
      }
      const answeredInTime = clock.after(doMs, () => {
        waiting.delete(id)
        reject(new Failure('keeper_unavailable', `"${source}" did not answer within ${doMs / 1000} s`))
      })
      return promise.finally(answeredInTime)
    },
    ack: (n) => send({ t: 'ack', n }),
    close: () => connection.close(),
  }
}

function refusalOf(hello: { source: SourceName; version: number }, source: SourceName, socketPath: string): Failure | null {
  if (hello.source !== source)
    return new Failure('keeper_unavailable', `"${hello.source}" answers at "${socketPath}", where "${source}" should`)
  if (hello.version === linkVersion || hello.version === linkVersion - 1) return null
  return new Failure(
    'keeper_unavailable',
    `"${source}" speaks version ${hello.version} of the link, and this daemon ${linkVersion} and the one before`,
    { hint: 'End it with the release that started it, or by its process id' },
  )
}

function failureFrom(frame: { code: string; message: string; hint?: string | undefined }): Error {
  if (!Object.hasOwn(failureCodes, frame.code) || frame.code === 'internal') return new Error(frame.message)
  return new Failure(frame.code as FailureCode, frame.message, frame.hint === undefined ? {} : { hint: frame.hint })
}
