import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'

/** How a TLS server is reached: by itself, or through a proxy that takes CONNECT on a socket. */
export type Way = { readonly port: number } | { readonly socketPath: string; readonly authority: string }

export async function connectSecurely(way: Way, servername: string, ca: string): Promise<TLSSocket> {
  const socket = 'port' in way ? createConnection({ host: '127.0.0.1', port: way.port, noDelay: true }) : await connectBy(way)
  const secure = connectTls({ socket, servername, ca })
  await once(secure, 'secureConnect')
  return secure
}

async function connectBy({ socketPath, authority }: Extract<Way, { socketPath: string }>): Promise<Socket> {
  const socket = createConnection(socketPath)
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  if (!/^HTTP\/1\.1 200 [^\r]*\r\n\r\n$/.test(answer.toString('latin1')))
    throw new Error(`Not connected: ${answer.toString('latin1')}`)
  return socket
}

/** Asks for a path on an open connection, and gives how many bytes came back, head and all. */
export function ask(secure: TLSSocket, host: string, path: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let [bytes, whole] = [0, Infinity]
  let head = ''
  const hear = (chunk: Buffer) => {
    bytes += chunk.length
    if (whole === Infinity) {
      head += chunk.toString('latin1')
      const end = head.indexOf('\r\n\r\n')
      if (end === -1) return
      if (!head.startsWith('HTTP/1.1 200 ')) return reject(new Error(head.slice(0, 300)))
      whole = end + 4 + Number(/content-length: (\d+)/i.exec(head)?.[1])
    }
    if (bytes < whole) return
    secure.off('data', hear)
    resolve(bytes)
  }
  secure.on('data', hear).once('error', reject)
  secure.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  return promise.finally(() => secure.off('error', reject))
}
