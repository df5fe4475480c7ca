import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { expect, test } from 'vitest'
import { testNet } from './test-net.ts'

type Net = Awaited<ReturnType<typeof testNet>>
const asProgram = { 'user-agent': 'a program' }

async function within(net: Net, place: string): Promise<TLSSocket> {
  const { status, socket } = await net.connect(place, asProgram)
  expect(status).toBe(200)
  const secure = connectTls({ socket, servername: place.replace(/:\d+$/, ''), ca: net.certificate })
  await once(secure, 'secureConnect')
  return secure
}

async function ask(secure: TLSSocket, headers: Record<string, string> = {}, method = 'GET') {
  const agent = Object.assign(new Agent(), { createConnection: () => secure })
  const asking = request({ method, path: '/x', headers: { host: 'denied.test', ...headers }, agent })
  asking.on('error', () => {}).end()
  const [response] = (await once(asking, method === 'CONNECT' ? 'connect' : 'response')) as [IncomingMessage]
  return { status: response.statusCode, reason: response.statusMessage, type: response.headers['content-type'], response }
}

/** What comes until the window ends the connection. */
async function rest(socket: Socket): Promise<string> {
  return text(socket).catch(() => '')
}

test('who may not be connected reads why in the answer of the server that it asked for, and nothing is looked up', async () => {
  await using net = await testNet({})
  const { status, reason, response } = await ask(await within(net, 'denied.test:443'))
  expect({ status, reason }).toEqual({ status: 403, reason: 'Blocked by Anchorhold: no rule covers it' })
  const body = JSON.parse(await text(response)) as { message: string; anchorhold: Record<string, unknown> }
  expect(body.message).toBe('Blocked by Anchorhold: no rule covers it')
  expect(body.anchorhold).toMatchObject({
    blocked: { host: 'denied.test', port: 443, method: null, path: null },
    why: 'no rule covers it',
    how_to_ask: expect.stringContaining('request_access') as string,
  })
  expect([net.judged.length, net.resolved, net.dialled]).toEqual([1, [], []])
  expect(net.net()).toMatchObject([{ host: 'denied.test', blocked: 1 }])
})

test('git is told in plain text, which is all that it shows of an answer', async () => {
  await using net = await testNet({})
  const { type, response } = await ask(await within(net, 'denied.test:443'), { 'user-agent': 'git/2.39.5' })
  expect(type).toBe('text/plain; charset=utf-8')
  expect(await text(response)).toMatch(/^Blocked by Anchorhold: no rule covers it\nAsk for it with the tool /)
})

test.each([
  ['a request with another Host', { host: 'allowed.test' }, 'GET'],
  ['a WebSocket', { upgrade: 'websocket', connection: 'Upgrade' }, 'GET'],
  ['a CONNECT to what is allowed', { host: 'allowed.test:443' }, 'CONNECT'],
])('%s within it is refused like the rest, and leads nowhere', async (_, headers, method) => {
  await using net = await testNet({})
  expect(await ask(await within(net, 'denied.test:443'), headers as Record<string, string>, method)).toMatchObject({
    status: 403,
  })
  expect([net.judged.length, net.resolved, net.dialled]).toEqual([1, [], []])
})

test('what is no TLS, or TLS for another server, ends there', async () => {
  await using net = await testNet({})
  const plain = await net.connect('denied.test:8080', asProgram)
  plain.socket.write('GET / HTTP/1.1\r\nHost: denied.test:8080\r\n\r\n')
  expect(await rest(plain.socket)).toBe('')
  const { socket } = await net.connect('denied.test:443', asProgram)
  const other = connectTls({ socket, servername: 'allowed.test', rejectUnauthorized: false })
  await new Promise((resolve) => other.on('error', () => {}).once('close', resolve))
  expect([net.resolved, net.dialled]).toEqual([[], []])
})

test('a client that shows the words of a refused CONNECT itself is given them there', async () => {
  await using net = await testNet({})
  for (const line of [
    'CONNECT denied.test:443 HTTP/1.0\r\n\r\n',
    'CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n',
  ])
    expect(await net.raw(line)).toMatch(/^HTTP\/1\.1 403 Blocked by Anchorhold: no rule covers it\r\n/)
})

test('the wait for a person comes first: who is denied then reads that', async () => {
  const answer = Promise.withResolvers<{ allow: false; why: string }>()
  await using net = await testNet({ judge: () => answer.promise })
  const connecting = within(net, 'asked.test:443')
  await expect.poll(() => net.judged.length).toBe(1)
  answer.resolve({ allow: false, why: 'Not today — ask Ada' })
  const secure = await connecting
  const { reason, response } = await ask(secure, { host: 'asked.test' })
  expect(reason).toBe('Blocked by Anchorhold: Not today ? ask Ada')
  expect(await text(response)).toContain('Not today — ask Ada')
  expect(net.dialled).toEqual([])
})
