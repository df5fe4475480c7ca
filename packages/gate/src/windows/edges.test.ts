import { once } from 'node:events'
import { createConnection } from 'node:net'
import { requestHeadersMax } from '@anchorhold/protocol/http-limits'
import { expect, test } from 'vitest'
import { fakeUpstream } from '../fake-upstream.ts'
import { local, small, testGate } from '../test-gate.ts'
import { gathered } from './gathered.ts'
import { testNet } from './net/test-net.ts'

// What a cell says to its windows is read in one way, or answered with why not.

/** What a window answers to these words. */
async function say(socketPath: string, words: string): Promise<string> {
  const socket = createConnection(socketPath)
  socket.on('error', () => {}).write(words)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  socket.destroy()
  return answer.toString('latin1')
}
const own = 'Host: allowed.test\r\n'
const upgrading = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
const call = JSON.stringify(small())
const headers = (count: number) => 'a:\r\n'.repeat(count)

test.each([
  ['two hosts', `GET http://allowed.test/ HTTP/1.1\r\n${own}Host: evil.test\r\n\r\n`, 400],
  ['two hosts in a CONNECT', 'CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\nHost: evil.test:443\r\n\r\n', 400],
  ['an upgrade of HTTP/1.0', `GET http://allowed.test/ HTTP/1.0\r\n${own}${upgrading}\r\n`, 400],
  ['a path that cannot be read', `GET http://allowed.test/\\a HTTP/1.1\r\n${own}\r\n`, 400],
  ['too many headers', `GET http://allowed.test/ HTTP/1.1\r\n${own}${headers(requestHeadersMax)}\r\n`, 431],
  ['too many headers in a CONNECT', `CONNECT allowed.test:443 HTTP/1.1\r\n${headers(requestHeadersMax + 1)}\r\n`, 431],
  [
    'too many headers in an upgrade',
    `GET http://allowed.test/ HTTP/1.1\r\n${own}${upgrading}${headers(requestHeadersMax)}\r\n`,
    431,
  ],
  ['headers that are too long', `GET http://allowed.test/ HTTP/1.1\r\n${own}a: ${'x'.repeat(70_000)}\r\n\r\n`, 431],
])('netWindow() answers %s by itself', async (_, words, status) => {
  await using net = await testNet({ upstream: 1 })
  expect(await say(net.socketPath, words)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  expect([net.judged, net.resolved, net.dialled]).toEqual([[], [], []])
  expect(net.net()).toMatchObject([{ blocked: 1 }])
})

test.each([
  ['two hosts', `POST /v1/messages HTTP/1.1\r\n${own}Host: evil.test\r\nContent-Length: ${call.length}\r\n\r\n${call}`, 400],
  ['too many headers', `POST /v1/messages HTTP/1.1\r\n${own}${headers(requestHeadersMax)}Content-Length: 2\r\n\r\n{}`, 431],
  ['headers that are too long', `POST /v1/messages HTTP/1.1\r\n${own}a: ${'x'.repeat(70_000)}\r\n\r\n`, 431],
])('modelWindow() answers %s by itself', async (_, words, status) => {
  await using upstream = await fakeUpstream((response) => void response.end())
  await using it = await testGate({ provider: local(upstream.url) })
  expect(await say(it.socketPath, words)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  expect(upstream.received).toEqual([])
})

const most = 32 * 1024 * 1024 - 200
test.each([
  [
    'nested as deep as its bytes allow',
    (room: number) => `${'['.repeat(room / 2)}${']'.repeat(room / 2)}`,
    'nested deeper than 200 levels, or has more than 500000 parts',
  ],
  ['of as many parts as its bytes allow', (room: number) => `[${'{},'.repeat(room / 3)}1]`, 'or has more than 500000 parts'],
  [
    'of names alone',
    (room: number) => `{${Array.from({ length: room / 12 }, (_, at) => `"${at}":0`).join(',')}}`,
    'or has more than 500000 parts',
  ],
])('modelWindow() refuses the largest body that is %s before it is parsed', async (_, written, why) => {
  await using upstream = await fakeUpstream((response) => void response.end())
  await using it = await testGate({ provider: local(upstream.url) })
  const answer = await it.call('/v1/messages', JSON.stringify(small()).replace('{', `{"output_config":${written(most)},`))
  expect([answer.status, answer.body]).toEqual([400, expect.stringContaining(why)])
  expect(upstream.received).toEqual([])
})

test('gathered() holds what comes in pieces of one byte in little more than its bytes', () => {
  const body = gathered()
  const piece = Buffer.from('x')
  for (let at = 0; at < 8_000_000; at++) body.add(piece)
  expect([body.length, body.see().length, body.take().length, body.length]).toEqual([8_000_000, 8_000_000, 8_000_000, 0])
})
