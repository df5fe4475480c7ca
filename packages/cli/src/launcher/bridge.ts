import { Failure } from '@anchorhold/protocol/failures'
import { chmodSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { once } from 'node:events'

export type Bridge = { readonly host: string; readonly port: number }

/** The address of a bridge on this machine. One elsewhere would be a way out of the cell. */
export function bridgeOf(url: string): Bridge {
  const parsed = URL.canParse(url) ? new URL(url) : null
  const hint = 'Give the address of a bridge on this machine, as http://localhost:3000'
  if (parsed === null || parsed.protocol !== 'http:')
    throw new Failure('bad_request', `"${url}" is not an http address`, { hint })
  if (!['localhost', '127.0.0.1', '[::1]'].includes(parsed.hostname))
    throw new Failure('bad_request', `The bridge "${url}" is not on this machine`, { hint })
  return { host: parsed.hostname.replace(/^\[|\]$/g, ''), port: Number(parsed.port || 80) }
}

/** Carries what comes in at a socket to the bridge and nowhere else. */
export async function relayTo({ host, port }: Bridge, socketPath: string): Promise<AsyncDisposable> {
  const server = createServer((inner) => {
    const outer = createConnection({ host, port })
    inner.pipe(outer)
    outer.pipe(inner)
    inner.on('error', () => outer.destroy())
    outer.on('error', () => inner.destroy())
  })
  server.listen(socketPath)
  await once(server, 'listening')
  // Its folder is for the cell alone.
  chmodSync(socketPath, 0o666)
  return { [Symbol.asyncDispose]: async () => void server.close() }
}
