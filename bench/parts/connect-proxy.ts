// The floors for the net window: the least that a CONNECT proxy on a unix socket can do, and one that ends TLS in between.
//   node connect-proxy.ts SOCKET PORT
//   node connect-proxy.ts SOCKET PORT KEY CERT
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Agent, request } from 'node:https'
import { createConnection } from 'node:net'
import { createSecureContext, TLSSocket } from 'node:tls'

const [socketPath, port, key, cert] = process.argv.slice(2)
const server = createServer()
server.keepAliveTimeout = 60_000
if (key === undefined || cert === undefined)
  server.on('connect', (_, client) => {
    const upstream = createConnection({ host: '127.0.0.1', port: Number(port), noDelay: true }, () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n')
      client.pipe(upstream)
      upstream.pipe(client)
    })
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      one.on('error', () => other.destroy())
  })
else {
  const secureContext = createSecureContext({ key: readFileSync(key), cert: readFileSync(cert) })
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 64, ca: readFileSync(cert) })
  server.on('connect', (_, client) => {
    client.write('HTTP/1.1 200 OK\r\n\r\n')
    const secure = new TLSSocket(client, { isServer: true, secureContext })
    secure.on('error', () => client.destroy())
    server.emit('connection', secure)
  })
  server.on('request', (incoming, response) => {
    const { url: path, method, headers } = incoming
    const outgoing = request({ agent, host: '127.0.0.1', port, servername: 'open.test', path, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    incoming.pipe(outgoing)
  })
}
server.listen(socketPath)
