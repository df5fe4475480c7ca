import type { Duplex } from 'node:stream'
import { serverName, type Target } from '@anchorhold/core/net/target'
import { type ClientHello, helloBytesMax, readClientHello } from './client-hello.ts'

/** The first bytes of a connection: they are looked at before any goes on. */
export type FirstBytes = {
  /** What the client begins with: TLS, with its first message; something else; or nothing, when it went or was slow. */
  read(signal: AbortSignal): Promise<{ readonly tls: ClientHello } | 'other' | 'nothing'>
  /** Gives the connection back as if nothing had been read. */
  release(): void
}

/** Pieces that a first message may come in. */
const chunksMax = 64

/** Reads ahead, so that it is noticed when the client goes away; no more than a first message can have. */
export function firstBytes(client: Duplex, head: Buffer): FirstBytes {
  let bytes = head
  let chunks = 0
  let isOver = false
  let wake = () => {}
  const take = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    if (++chunks >= chunksMax || bytes.length > helloBytesMax) client.pause()
    wake()
  }
  const end = () => {
    isOver = true
    wake()
  }
  client.on('data', take).once('end', end).once('close', end)

  return {
    async read(signal) {
      for (;;) {
        if (bytes.length > 0) {
          const hello = readClientHello(bytes)
          if (hello === null) return 'other'
          if (hello !== 'more') return { tls: hello }
        }
        if (isOver || signal.aborted || client.isPaused()) return 'nothing'
        await new Promise<void>((resolve) => {
          wake = resolve
          signal.addEventListener('abort', () => resolve(), { once: true })
        })
      }
    },
    release() {
      client.pause()
      client.off('data', take).off('end', end).off('close', end)
      if (bytes.length > 0) client.unshift(bytes)
      bytes = Buffer.alloc(0)
    },
  }
}

/** Why a TLS client that was to be led to `target` asks for something else; null when it asks for just that. */
export function notFor(target: Target, { serverName: name, isHidden }: ClientHello): string | null {
  if (isHidden) return 'The server name of the TLS connection is encrypted, so nobody can tell whether it may be reached'
  if (target.isAddress) return name === null ? null : 'The TLS connection names a server, but an address was asked for'
  if (name === null) return `The TLS connection does not name "${target.host}"`
  return serverName(name) === target.host ? null : `The TLS connection names another server than "${target.host}"`
}
