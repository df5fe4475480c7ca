import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { serverName, type Target } from '@anchorhold/core/net/target'
import { asksAgain, type ClientHello, helloBytesMax, readClientHello, readHelloAgain } from './client-hello.ts'

/** The next bytes of a connection: they are looked at before any goes on. */
export type NextBytes = {
  /** What they are, as soon as that can be told; null when the other side went, was slow, or sent more than it takes to tell. */
  read<T>(tell: (bytes: Buffer) => T | 'more', signal: AbortSignal): Promise<T | null>
  /** Takes so many of them out. */
  take(length: number): Buffer
  /** Gives the connection back as if the rest had not been read. */
  release(): void
}

/** Pieces that a first message may come in. */
const chunksMax = 64

/** Reads ahead, so that it is noticed when the other side goes away; no more than a first message can have. */
export function nextBytes(from: Duplex, head: Buffer = Buffer.alloc(0)): NextBytes {
  let bytes = head
  let chunks = 0
  let isOver = false
  let wake = () => {}
  const keep = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    if (++chunks >= chunksMax || bytes.length > 2 * helloBytesMax) from.pause()
    wake()
  }
  const end = () => {
    isOver = true
    wake()
  }
  from.on('data', keep).once('end', end).once('close', end)
  from.resume()

  return {
    async read(tell, signal) {
      for (;;) {
        const told = bytes.length === 0 ? 'more' : tell(bytes)
        if (told !== 'more') return told
        if (isOver || signal.aborted || from.isPaused()) return null
        await new Promise<void>((resolve) => {
          wake = resolve
          signal.addEventListener('abort', () => resolve(), { once: true })
        })
      }
    },
    take(length) {
      const taken = bytes.subarray(0, length)
      bytes = bytes.subarray(length)
      return taken
    },
    release() {
      from.pause()
      from.off('data', keep).off('end', end).off('close', end)
      if (bytes.length > 0 && !from.readableEnded) from.unshift(bytes)
      bytes = Buffer.alloc(0)
    },
  }
}

/** What a client begins with: TLS, with its first message; something else; or nothing. */
export async function beginning(
  client: NextBytes,
  signal: AbortSignal,
): Promise<{ readonly tls: ClientHello } | 'other' | 'nothing'> {
  const told = await client.read((bytes) => {
    const hello = readClientHello(bytes)
    return hello === 'more' ? hello : hello === null ? 'other' : { tls: hello }
  }, signal)
  return told ?? 'nothing'
}

/** Whether a server wants the client's first message said again; null when it says nothing. What it sent is still to be read. */
export async function wantsItAgain(upstream: Socket, signal: AbortSignal): Promise<boolean | null> {
  const answer = nextBytes(upstream)
  const again = await answer.read(asksAgain, signal)
  answer.release()
  return again
}

/** Why a first message that was said again is none that may go on; null when it is. */
export async function notAgainFor(target: Target, client: NextBytes, signal: AbortSignal): Promise<string | null> {
  const hello = await client.read(readHelloAgain, signal)
  return hello === null ? 'The TLS connection does not begin as it should' : notFor(target, hello)
}

/** Why a TLS client that was to be led to `target` asks for something else; null when it asks for just that. */
export function notFor(target: Target, { serverName: name, isHidden }: ClientHello): string | null {
  if (isHidden) return 'The server name of the TLS connection is encrypted, so nobody can tell whether it may be reached'
  if (target.isAddress) return name === null ? null : 'The TLS connection names a server, but an address was asked for'
  if (name === null) return `The TLS connection does not name "${target.host}"`
  return serverName(name) === target.host ? null : `The TLS connection names another server than "${target.host}"`
}
