import { runs } from '@anchorhold/protocol/test-runs'
import fc from 'fast-check'
import { createServer } from 'node:http'
import { createConnection } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { listener, publicAddress, testNet } from './test-net.ts'

const limitMs = 6000
/** What a client may say within a moment; then it goes. */
async function say(socketPath: string, pieces: readonly string[]): Promise<void> {
  const socket = createConnection(socketPath)
  socket.on('error', () => {}).resume()
  for (const piece of pieces) {
    socket.write(Buffer.from(piece, 'latin1'))
    await new Promise((resolve) => setImmediate(resolve))
  }
  await wait(4)
  socket.destroy()
}

const host = fc.constantFrom(
  'allowed.test',
  'allowed.test:80',
  'evil.test',
  'allowed.test@evil.test',
  '127.0.0.1',
  '[::1]',
  'allowed.test.',
  'ALLOWED.test',
  'evil.test#allowed.test',
  'allowed.test\u0000evil.test',
  '',
)
const odd = fc.string({ unit: fc.constantFrom('\r', '\n', ' ', '\t', '\0', ':', ',', '/', 'a', '\u0085', '0'), maxLength: 4 })
const line = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('GET', 'POST', 'CONNECT', 'OPTIONS', 'get', 'PRI'),
      fc.constantFrom('http://', 'https://', '', '//', 'http:/'),
      host,
      fc.constantFrom('/', '/x?y=http://evil.test/', ':443', ':80', '*', ''),
    )
    .map(([method, scheme, where, rest]) => `${method} ${scheme}${where}${rest} HTTP/1.1`),
  fc.tuple(host).map(([where]) => `Host: ${where}`),
  fc.constantFrom(
    'Content-Length: 5',
    'Content-Length: 0',
    'Content-Length: +5',
    'Transfer-Encoding: chunked',
    'Transfer-Encoding: xchunked',
    'Transfer-Encoding:\tchunked',
  ),
  fc.constantFrom(
    'Connection: host',
    'Connection: close, content-length',
    'Upgrade: websocket',
    'Connection: upgrade',
    'Expect: 100-continue',
  ),
  fc.constantFrom('', '0', '5', 'hello', 'X: y', ' folded'),
  odd,
)
const said = fc
  .array(fc.tuple(line, fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '\r', '')), { minLength: 1, maxLength: 12 })
  .map((lines) => lines.map((parts) => parts.join('')))

test('whatever is said to the window, nothing but the allowed host is looked up, dialled or spoken to', async () => {
  const hosts = new Set<string>()
  await using server = await listener(
    createServer((asked, response) => {
      hosts.add(`${asked.headers.host} ${asked.url?.slice(0, 1)}`)
      response.end('fine')
    }),
  )
  await using net = await testNet({ upstream: server.port })
  const whole = fc.constant(['GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'])
  await fc.assert(
    fc.asyncProperty(fc.oneof({ weight: 12, arbitrary: said }, { weight: 1, arbitrary: whole }), async (pieces) => {
      await say(net.socketPath, pieces)
    }),
    { numRuns: runs(1500), interruptAfterTimeLimit: limitMs },
  )
  expect((await net.get('http://allowed.test/')).status).toBe(200)
  expect([...new Set(net.resolved)]).toEqual(['allowed.test'])
  expect(net.dialled.filter((one) => !one.startsWith(publicAddress))).toEqual([])
  for (const one of hosts) expect(one).toMatch(/^allowed\.test(:443)? \/$/)
})
