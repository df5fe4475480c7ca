import { Failure } from '@anchorhold/protocol/failures'
import type { LiveFrame } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { FromDaemon, linkVersion, type SourceName, type ToDaemon } from '@anchorhold/protocol/link'
import { chmod, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { readFrames, writeFrame } from './frames.ts'
import type { Outbox } from './outbox.ts'

/** The keeper's or the gate's end of a link: it listens, and a daemon attaches whenever one is there. */
export interface Source extends AsyncDisposable {
  /** Shown to those who watch now; dropped when nobody does or the reader lags. */
  live(session: SessionId, frame: LiveFrame): void
}

export type SourceOptions = {
  readonly socketPath: string
  readonly source: SourceName
  readonly outbox: Outbox
  readonly handle: (command: unknown) => Promise<unknown>
  /** What a daemon that attaches is shown first: what is being said right now. */
  readonly saying?: () => { readonly session: SessionId; readonly frames: readonly LiveFrame[] }
}

const liveBacklogBytesMax = 1024 * 1024
const recordsPerRead = 500
const farewellMs = 1000

export async function listenAsSource({ socketPath, source, outbox, handle, saying }: SourceOptions): Promise<Source> {
  const attached = new Set<{ readonly socket: Socket; pump(): void }>()
  const sockets = new Set<Socket>()
  const send = (socket: Socket, frame: ToDaemon) => writeFrame(socket, frame)

  function attach(socket: Socket, after: number): void {
    let sent = after
    let pumping = false
    async function pumpAll(): Promise<void> {
      while (sent < outbox.last && !socket.destroyed) {
        const records = await outbox.read(sent, recordsPerRead)
        // One write for all of them, unless they are more than the other end takes at once.
        socket.cork()
        for (const record of records) {
          sent = record.n
          if (send(socket, { t: 'record', record }) || socket.destroyed) continue
          socket.uncork()
          await new Promise((resolve) => socket.once('drain', resolve).once('close', resolve))
          socket.cork()
        }
        socket.uncork()
      }
    }
    const end = {
      socket,
      pump() {
        if (pumping) return
        pumping = true
        void pumpAll()
          .catch((error: unknown) => socket.destroy(error instanceof Error ? error : new Error(String(error))))
          .finally(() => {
            pumping = false
            if (sent < outbox.last && !socket.destroyed) end.pump()
          })
      },
    }
    attached.add(end)
    socket.once('close', () => attached.delete(end))
    send(socket, { t: 'hello', version: linkVersion, source, pid: process.pid, last: outbox.last })
    end.pump()
    const said = saying?.()
    for (const frame of said?.frames ?? []) send(socket, { t: 'live', session: said!.session, frame })
  }

  const server = createServer((socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    readFrames(socket, (raw) => {
      const frame = FromDaemon.parse(raw)
      switch (frame.t) {
        case 'hello':
          return attach(socket, frame.after)
        case 'ack':
          // A segment that cannot be removed now is removed with a later one.
          return void outbox.trim(frame.n).catch(() => {})
        case 'do':
          return void handle(frame.command).then(
            (result) => send(socket, { t: 'done', id: frame.id, ok: true, result: result ?? null }),
            (error: unknown) =>
              send(socket, {
                t: 'done',
                id: frame.id,
                ok: false,
                code: error instanceof Failure ? error.code : 'internal',
                message: error instanceof Error ? error.message : String(error),
                ...(error instanceof Failure && error.hint !== undefined ? { hint: error.hint } : {}),
              }),
          )
      }
    })
  })
  await rm(socketPath, { force: true })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socketPath, resolve))
  await chmod(socketPath, 0o600)
  outbox.onDurable(() => {
    for (const end of attached) end.pump()
  })

  return {
    live(session, frame) {
      for (const { socket } of attached) {
        if (socket.writableLength < liveBacklogBytesMax) send(socket, { t: 'live', session, frame })
      }
    },
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve))
      await rm(socketPath, { force: true })
      for (const socket of sockets) socket.destroySoon()
      // A daemon that does not read is not waited for: it finds the rest in the outbox.
      const cut = setTimeout(() => sockets.forEach((socket) => socket.destroy()), farewellMs)
      await closed
      clearTimeout(cut)
    },
  }
}
