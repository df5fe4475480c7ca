// The floor for the model window: the least that a node:http proxy on a unix socket can do.
//   node proxy.ts SOCKET PORT
import { Agent, createServer, request } from 'node:http'

const [socketPath, port] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true, maxFreeSockets: 64 })
const server = createServer((incoming, response) => {
  const outgoing = request(
    {
      agent,
      host: '127.0.0.1',
      port,
      path: incoming.url,
      method: incoming.method,
      headers: { ...incoming.headers, 'x-api-key': 'key' },
    },
    (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    },
  )
  incoming.pipe(outgoing)
})
server.keepAliveTimeout = 60_000
server.listen(socketPath)
