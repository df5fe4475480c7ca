import { Failure } from '@anchorhold/protocol/failures'
import type { LiveFrame } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { FromDaemon, linkVersion, type SourceName, type ToDaemon } from '@anchorhold/protocol/link'
import type { Outbox } from './outbox.ts'
import { type Connection, unixWire, type Wire } from './wire.ts'

/** The keeper's or the gate's end of a link: it listens, and a daemon attaches whenever one is there. */
export interface Source extends AsyncDisposable {
  /** Shown to those who watch now; dropped when nobody does or the reader lags. */
  live(session: SessionId, frame: LiveFrame): void
  /** Sends what reached the disk and is being gathered: somebody waits for it. */
  tell(): void
}

export type SourceOptions = {
  readonly wire?: Wire
  /** This process, as the other end may have to end it. */
  readonly pid?: number
  readonly socketPath: string
  readonly source: SourceName
  readonly outbox: Outbox
  readonly handle: (command: unknown) => Promise<unknown>
  /** When records that reached the disk are sent: at once, unless more of them are to go together. */
  readonly gather?: (send: () => void) => void
  /** What a daemon that attaches is shown first: what is being said right now. */
  readonly saying?: () => { readonly session: SessionId; readonly frames: readonly LiveFrame[] }
}

const liveBacklogBytesMax = 1024 * 1024
/** How many records go out at a time: that many are sent in one write, and more only when the other end took them. */
const recordsPerRead = 500
const bytesPerRead = 4 * 1024 * 1024
const farewellMs = 1000

export async function listenAsSource({
  wire = unixWire,
  pid = process.pid,
  socketPath,
  source,
  outbox,
  handle,
  gather = (send) => send(),
  saying,
}: SourceOptions): Promise<Source> {
  const attached = new Map<Connection, () => void>()
  const send = (connection: Connection, ...frames: ToDaemon[]) => connection.send(...frames)

  function attach(connection: Connection, after: number): void {
    let sent = after
    let pumping = false
    async function pumpAll(): Promise<void> {
      while (sent < outbox.last && connection.open) {
        const upTo = outbox.last
        const records = await outbox.read(sent, recordsPerRead, bytesPerRead)
        // A daemon whose memory is older than what is kept here (a backup was restored) gets what there is.
        sent = records.at(-1)?.n ?? upTo
        send(connection, ...records.map((record) => ({ t: 'record', record }) as const))
        await connection.drained()
      }
    }
    function pump(): void {
      if (pumping) return
      pumping = true
      void pumpAll()
        .catch(() => connection.close())
        .finally(() => {
          pumping = false
          if (sent < outbox.last && connection.open) pump()
        })
    }
    attached.set(connection, pump)
    send(connection, { t: 'hello', version: linkVersion, source, pid, last: outbox.last })
    // The daemon has heard by this that there is less here than it has. What is told from now on must be new to it.
    if (after > outbox.last) void outbox.goOnBehind(after).then(pump, () => connection.close())
    else pump()
    const said = saying?.()
    for (const frame of said?.frames ?? []) send(connection, { t: 'live', session: said!.session, frame })
  }

  async function answer(connection: Connection, id: number, command: unknown): Promise<void> {
    try {
      send(connection, { t: 'done', id, ok: true, result: (await handle(command)) ?? null })
    } catch (error) {
      const code = error instanceof Failure ? error.code : 'internal'
      const message = error instanceof Error ? error.message : String(error)
      const hint = error instanceof Failure && error.hint !== undefined ? { hint: error.hint } : {}
      send(connection, { t: 'done', id, ok: false, code, message, ...hint })
    }
  }

  const listening = await wire.listen(socketPath, (connection) => ({
    frame(raw) {
      const frame = FromDaemon.parse(raw)
      switch (frame.t) {
        case 'hello':
          return attach(connection, frame.after)
        case 'ack':
          // A segment that cannot be removed now is removed with a later one.
          return void outbox.trim(frame.n).catch(() => {})
        case 'do':
          return void answer(connection, frame.id, frame.command)
      }
    },
    closed: () => void attached.delete(connection),
  }))
  let gathering = false
  const pumpEach = () => {
    gathering = false
    for (const pump of attached.values()) pump()
  }
  outbox.onDurable(() => {
    if (gathering) return
    gathering = true
    gather(pumpEach)
  })

  return {
    tell: pumpEach,
    live(session, frame) {
      for (const connection of attached.keys())
        if (connection.backlogBytes < liveBacklogBytesMax) send(connection, { t: 'live', session, frame })
    },
    // A daemon that does not read is not waited for: it finds the rest in the outbox.
    [Symbol.asyncDispose]: () => listening.close(farewellMs),
  }
}
