// A server that answers at once over TLS: a few bytes, or as many as the path says.
//   node tls-origin.ts PORT_FILE KEY CERT
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'

const [portFile, key, cert] = process.argv.slice(2)
const block = Buffer.alloc(1024 * 1024, 'x')
const server = createServer({ key: readFileSync(key!), cert: readFileSync(cert!) }, (request, response) => {
  let left = Number(/^\/(\d+)$/.exec(request.url ?? '')?.[1] ?? 0)
  if (left === 0) return void response.writeHead(200, { 'content-length': '5' }).end('hello')
  response.writeHead(200, { 'content-length': String(left) })
  const more = (): void => {
    while (left > 0) {
      const part = block.subarray(0, left)
      left -= part.length
      if (!response.write(part)) return void response.once('drain', more)
    }
    response.end()
  }
  more()
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  writeFileSync(portFile!, String(typeof address === 'object' && address !== null ? address.port : 0))
})
