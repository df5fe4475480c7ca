import { runs } from '@anchorhold/protocol/test-runs'
import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { requestHeadersMax } from '@anchorhold/protocol/http-limits'
import { expect, test, vi } from 'vitest'
import { createToken } from '../../app/people/access.ts'
import { owner } from '../../app/test-parts.ts'
import { testDoor } from './test-door.ts'

/** Says something, and gives all that comes back until the door ends it. */
async function say(port: number, words: string): Promise<string> {
  const socket = createConnection(port, '127.0.0.1')
  let said = ''
  socket.on('data', (chunk: Buffer) => (said += chunk.toString('latin1'))).on('error', () => {})
  socket.write(words)
  await new Promise((done) => socket.once('close', done))
  return said
}
const terminal = '/api/v1/sessions/ses_0000000000000001/terminal?cols=80&rows=24'
const upgrading =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
const own = 'Host: localhost:7777\r\n'

test.each([
  ['two hosts', `GET /api/v1/sessions HTTP/1.1\r\n${own}Host: evil.example\r\nConnection: close\r\n\r\n`],
  ['the same host twice', `GET / HTTP/1.1\r\n${own}${own}Connection: close\r\n\r\n`],
  ['two hosts in an upgrade', `GET ${terminal} HTTP/1.1\r\n${own}Host: evil.example\r\n${upgrading}\r\n`],
  ['an upgrade of HTTP/1.0', `GET ${terminal} HTTP/1.0\r\n${own}${upgrading}\r\n`],
  ['an upgrade by POST', `POST ${terminal} HTTP/1.1\r\n${own}${upgrading}\r\n`],
  ['an upgrade without a key', `GET ${terminal} HTTP/1.1\r\n${own}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`],
  ['a path that is no URL', `GET // HTTP/1.1\r\n${own}Connection: close\r\n\r\n`],
  ['a target that is no URL', `GET http://[/ HTTP/1.1\r\n${own}Connection: close\r\n\r\n`],
  ['a name in the path that cannot be read', `GET /api/v1/sessions/%zz HTTP/1.1\r\n${own}AUTHConnection: close\r\n\r\n`],
  ['a path with a character that has no place there', `GET /\u0001 HTTP/1.1\r\n${own}Connection: close\r\n\r\n`],
  ['two lengths', `POST /api/v1/sessions HTTP/1.1\r\n${own}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`],
])('the door answers %s with 400, and takes it for no bug', async (_, words) => {
  await using door = await testDoor()
  const { secret } = createToken(door.parts, owner, { name: 'phone' })
  const answer = await say(door.port, words.replace('AUTH', `Authorization: Bearer ${secret}\r\n`))
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(door.logged).toEqual([])
})

test('an upgrade to a path that is no URL is answered by 400, and takes it for no bug', async () => {
  await using door = await testDoor()
  const { secret } = createToken(door.parts, owner, { name: 'phone' })
  const answer = await say(door.port, `GET // HTTP/1.1\r\n${own}Authorization: Bearer ${secret}\r\n${upgrading}\r\n`)
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(door.logged).toEqual([])
})

test.each([
  ['too many headers', (room: number) => 'a:\r\n'.repeat(room)],
  ['too many bytes of headers', () => `a: ${'x'.repeat(200_000)}\r\n`],
])('the door answers %s with 431, also in an upgrade', async (_, headers) => {
  await using door = await testDoor()
  for (const kind of ['Connection: close\r\n', upgrading]) {
    const said = await say(door.port, `GET / HTTP/1.1\r\n${own}${kind}${headers(requestHeadersMax)}\r\n`)
    expect(said).toMatch(/^HTTP\/1\.1 431 /)
  }
  // As many as there may be.
  const most = await say(door.port, `GET / HTTP/1.1\r\n${own}Connection: close\r\n${'a:\r\n'.repeat(requestHeadersMax - 2)}\r\n`)
  expect(most).toMatch(/^HTTP\/1\.1 404 /)
  expect(door.logged).toEqual([])
})

test('thousands of upgrades of which one half was said take no place from others', async () => {
  const batches = runs(100)
  await using door = await testDoor()
  const { secret } = createToken(door.parts, owner, { name: 'phone' })
  const all = new Set<Socket>()
  let ended = 0
  const half = `GET ${terminal} HTTP/1.1\r\n${own}${upgrading}`
  for (let batch = 0; batch < batches; batch++) {
    const made = Array.from({ length: 100 }, () => {
      const socket = createConnection(door.port, '127.0.0.1')
      all.add(socket)
      socket.on('error', () => {}).resume()
      socket.once('close', () => {
        all.delete(socket)
        ended++
      })
      socket.write(half)
      return socket
    })
    await Promise.all(made.map((socket) => once(socket, 'connect').catch(() => {})))
    if (batch % 10 === 9) expect((await door.ask('/sessions', { token: secret })).status).toBe(200)
  }
  // What is held of them is bounded, however long they wait.
  await vi.waitUntil(() => all.size <= 256, 20_000)
  expect(ended).toBeGreaterThanOrEqual(100 * batches - 256)
  for (const socket of all) socket.destroy()
}, 60_000)

test('whoever is silent between two requests is let go before one who is heard', async () => {
  await using door = await testDoor()
  const { secret } = createToken(door.parts, owner, { name: 'phone' })
  let seen = ''
  const heard = Promise.withResolvers<void>()
  void door.stream('/events', secret, (text) => {
    seen += text
    heard.resolve()
  })
  await heard.promise
  const idle = createConnection(door.port, '127.0.0.1')
  idle.on('error', () => {}).write(`GET / HTTP/1.1\r\n${own}\r\n`)
  await once(idle, 'data')
  const gone = once(idle, 'close')
  const others = Array.from({ length: 300 }, () =>
    createConnection(door.port, '127.0.0.1')
      .on('error', () => {})
      .resume(),
  )
  await gone
  await vi.waitUntil(() => others.filter(({ destroyed }) => destroyed).length >= 300 - 256, 10_000)
  // A stream that is being told is none of the silent.
  expect((await door.ask('/sessions', { token: secret })).status).toBe(200)
  expect(seen).not.toBe('')
  for (const socket of others) socket.destroy()
})
