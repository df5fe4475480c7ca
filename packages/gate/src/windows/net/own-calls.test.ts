import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { createConnection } from 'node:net'
import { accessPath, FetchAnswer, fetchPath } from '@anchorhold/protocol/net-calls'
import { expect, test } from 'vitest'
import { listener, publicAddress, selfSigned, testNet, trap } from './test-net.ts'

const certificate = selfSigned('allowed.test', 'other.test')
const serve = (answer: RequestListener) => listener(createServer(answer))
const page = (answer: unknown) => {
  const got = FetchAnswer.parse(answer)
  return got.answer === 'page' ? { ...got, text: Buffer.from(got.body, 'base64').toString() } : got
}

test('a page is read over plain HTTP and TLS, by the way that a call out of the cell goes', async () => {
  const answer: RequestListener = (asked, response) =>
    void response.writeHead(200, { 'content-type': 'text/plain' }).end(`${asked.url} ${JSON.stringify(asked.headers)}`)
  await using plain = await serve(answer)
  await using secure = await listener(createTlsServer(certificate, answer))
  await using net = await testNet({
    trusted: [certificate.cert],
    dial: {
      connect: (_, port) =>
        createConnection({ host: '127.0.0.1', port: port === 443 ? secure.port : plain.port, allowHalfOpen: true }),
    },
  })
  const first = page((await net.own(fetchPath, { url: 'http://allowed.test/a b?c=ü#d' })).body)
  expect(first).toMatchObject({ answer: 'page', status: 200, type: 'text/plain', url: 'http://allowed.test/a%20b?c=%C3%BC' })
  expect(first).toMatchObject({ truncated: false, text: expect.stringMatching(/^\/a%20b\?c=%C3%BC .*"host":"allowed.test"/) })
  const second = page((await net.own(fetchPath, { url: 'https://allowed.test/x' })).body)
  expect(second).toMatchObject({ answer: 'page', url: 'https://allowed.test/x', text: expect.stringContaining('/x ') })
  expect(net.judged).toEqual([
    { kind: 'net', host: 'allowed.test', port: 80, method: 'GET', path: '/a%20b?c=%C3%BC' },
    { kind: 'net', host: 'allowed.test', port: 443, method: 'GET', path: '/x' },
  ])
  expect(net.net()).toMatchObject([{ connections: 1 }, { connections: 1 }])
})

test('a certificate of nobody’s, or for another host, is not trusted', async () => {
  await using secure = await listener(createTlsServer(certificate, (_, response) => void response.end('reached')))
  await using unknown = await testNet({ upstream: secure.port })
  const read = async (net: typeof unknown, url: string) => page((await net.own(fetchPath, { url })).body)
  expect(await read(unknown, 'https://allowed.test/')).toMatchObject({
    answer: 'failed',
    why: expect.stringContaining('trusted'),
  })
  await using known = await testNet({ upstream: secure.port, trusted: [certificate.cert], allow: ['third.test', publicAddress] })
  for (const host of ['third.test', publicAddress])
    expect(await read(known, `https://${host}/`)).toMatchObject({ answer: 'failed', why: expect.stringContaining('trusted') })
})

test.each([
  ['a host that no rule opens', 'http://evil.test/', 'blocked'],
  ['loopback', 'http://127.0.0.1:PORT/', 'blocked'],
  ['loopback as a number', 'http://2130706433:PORT/', 'failed'],
  ['a name on loopback', 'http://inside.test:PORT/', 'blocked'],
  ['the metadata of a cloud', 'http://169.254.169.254/latest', 'blocked'],
  ['a user and a password', 'http://allowed.test@127.0.0.1:PORT/', 'failed'],
  ['a file', 'file:///etc/passwd', 'failed'],
  ['no scheme', '//127.0.0.1:PORT/', 'failed'],
])('%s is not read, neither at once nor by way of a redirect', async (_, url, answer) => {
  await using never = await trap()
  const forbidden = url.replace('PORT', String(never.port))
  await using server = await serve((_, response) => void response.writeHead(302, { location: forbidden }).end())
  await using net = await testNet({
    allow: ['allowed.test', 'inside.test', '127.0.0.1', '169.254.169.254'],
    upstream: server.port,
    dial: { resolve: async (host) => [host === 'inside.test' ? '127.0.0.1' : publicAddress] },
  })
  expect(page((await net.own(fetchPath, { url: forbidden })).body).answer).toBe(answer)
  expect(net.dialled).toEqual([])
  const led = page((await net.own(fetchPath, { url: 'http://allowed.test/' })).body)
  // A browser would read a number as an address, and then it is one that no cell is led to.
  expect(['blocked', 'failed']).toContain(led.answer)
  expect(net.dialled).toEqual([`${publicAddress} 80`])
  expect(never.connections).toBe(0)
})

test('each redirect is judged, and there is an end to them', async () => {
  await using server = await serve((asked, response) => {
    const left = Number(asked.url?.slice(1))
    if (left === 0) return void response.end('there')
    response.writeHead(307, { location: left % 2 === 1 ? `/${left - 1}` : `http://allowed.test/${left - 1}` }).end()
  })
  await using net = await testNet({ upstream: server.port })
  const read = async (path: string) => page((await net.own(fetchPath, { url: `http://allowed.test${path}` })).body)
  expect(await read('/5')).toMatchObject({ answer: 'page', text: 'there', url: 'http://allowed.test/0' })
  expect(net.judged.map(({ path }) => path)).toEqual(['/5', '/4', '/3', '/2', '/1', '/0'])
  expect(await read('/6')).toMatchObject({ answer: 'failed', why: expect.stringContaining('more than 5 times') })
})

test('a page is read as far as its limit, and one that is packed or never ends is not', async () => {
  await using server = await serve((asked, response) => {
    if (asked.url === '/packed') return void response.writeHead(200, { 'content-encoding': 'gzip' }).end('x')
    const more = () => {
      while (response.write(Buffer.alloc(65_536, 'x')));
      response.once('drain', more)
    }
    more()
  })
  await using net = await testNet({ upstream: server.port })
  const long = page((await net.own(fetchPath, { url: 'http://allowed.test/long' })).body)
  expect(long).toMatchObject({ answer: 'page', truncated: true })
  expect('text' in long && long.text.length).toBe(1024 * 1024)
  const packed = page((await net.own(fetchPath, { url: 'http://allowed.test/packed' })).body)
  expect(packed).toMatchObject({ answer: 'failed', why: expect.stringContaining('packed') })
})

test('access is asked for as the call itself will be judged', async () => {
  const open = { on: 'net', match: { host: 'open.test' }, effect: 'ask', how: 'open' } as const
  await using net = await testNet({ rules: [{ ...open, effect: 'allow' }] })
  const ask = (more: object) => net.own(accessPath, { why: 'to see', ...more })
  expect(await ask({ host: 'allowed.test', method: 'POST', path: '/x' })).toEqual({
    status: 200,
    body: { answer: 'allowed', why: 'a rule' },
  })
  const evil = { host: 'Evil.test', port: 80, method: 'GET', path: '/' }
  expect((await ask(evil)).body).toEqual({ answer: 'denied', why: 'no rule covers it' })
  // What would never be the call that follows is asked of nobody.
  for (const unsaid of [
    { host: 'evil.test', port: 80 },
    { host: 'open.test', method: 'POST' },
  ])
    expect((await ask(unsaid)).body).toMatchObject({
      answer: 'denied',
      why: expect.stringContaining('method and path') as unknown,
    })
  await ask({ host: 'open.test', method: 'POST', path: '/x' })
  expect(net.ahead).toEqual([
    { action: { kind: 'net', host: 'allowed.test', port: 443, method: null, path: null }, said: 'to see' },
    { action: { kind: 'net', host: 'evil.test', port: 80, method: 'GET', path: '/' }, said: 'to see' },
    { action: { kind: 'net', host: 'open.test', port: 443, method: 'POST', path: '/x' }, said: 'to see' },
  ])
  expect([net.resolved, net.dialled]).toEqual([[], []])
})

test('nobody is asked for what is never led to, or for what cannot be read', async () => {
  await using net = await testNet({})
  for (const host of ['127.0.0.1', '::1', '[::1]', 'localhost', '169.254.169.254', 'a@b', 'evil.test.', '0x7f.1', 'a b'])
    expect((await net.own(accessPath, { host, why: 'x' })).body).toMatchObject({ answer: 'denied' })
  for (const body of ['', '{', '[]', { host: 'a' }, { host: 'a', why: '', port: 0 }, 'x'.repeat(100_000)])
    expect((await net.own(accessPath, body)).status).toBe(400)
  expect(net.ahead).toEqual([])
})
