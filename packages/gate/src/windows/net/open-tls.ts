import type { Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'

/** Speaks TLS with a client in the server's place; null when the two do not come to terms, and the connection is gone then. Only
 *  HTTP/1.1 is spoken inside. */
export async function openTls(client: Socket, secureContext: SecureContext, signal: AbortSignal): Promise<TLSSocket | null> {
  if (client.destroyed || signal.aborted) {
    client.destroy()
    return null
  }
  const { promise, resolve } = Promise.withResolvers<TLSSocket | null>()
  const secure = new TLSSocket(client, { isServer: true, secureContext, ALPNProtocols: ['http/1.1'] })
  const give = () => {
    secure.destroy()
    client.destroy()
    resolve(null)
  }
  signal.addEventListener('abort', give, { once: true })
  secure.on('error', give).once('close', give)
  secure.once('secure', () => {
    signal.removeEventListener('abort', give)
    resolve(secure)
  })
  return promise
}
