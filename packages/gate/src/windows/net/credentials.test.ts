import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { createServer } from 'node:https'
import { createServer as createPlainServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import type { BoundCredential } from '@anchorhold/protocol/credentials'
import { fetchPath } from '@anchorhold/protocol/net-calls'
import { expect, test } from 'vitest'
import { NetTerms } from '@anchorhold/protocol/gate-commands'
import { fillBy } from './credentials.ts'
import { listener, selfSigned, testNet } from './test-net.ts'

const secret = 'ghp_the-real-$&-$$-secret-of-the-owner'
const placeholder = 'anchorhold-placeholder-github'
const certificate = selfSigned('allowed.test', 'other.test', 'api.anthropic.com')
const common = { host: 'allowed.test', port: 443, secret: 'github', placeholder, box: secret }
const bearer: BoundCredential = {
  ...common,
  path: '/repos/mine/*',
  method: ['GET', 'POST'],
  put: { as: 'header', name: 'Authorization', format: 'Bearer {}' },
}
const basic = (secretText: string) => `Basic ${Buffer.from(`x-token:${secretText}`).toString('base64')}`

type Said = { readonly url: string; readonly headers: IncomingMessage['headers'] }

/** A window before a server that answers with what it was sent, packed as its path says. */
async function setUp(credentials: readonly BoundCredential[], rules: Parameters<typeof testNet>[0]['rules'] = []) {
  const seen: Said[] = []
  const server = await listener(
    createServer(certificate, (asked, response) => {
      seen.push({ url: asked.url!, headers: asked.headers })
      const body = Buffer.from(JSON.stringify({ url: asked.url, headers: asked.headers }))
      response.setHeader('x-echo', asked.headers.authorization ?? 'none')
      if (asked.url!.includes('gzip')) response.setHeader('content-encoding', 'gzip').end(gzipSync(body))
      else if (asked.url!.includes('brotli')) response.setHeader('content-encoding', 'br').end(brotliCompressSync(body))
      else if (asked.url!.includes('zstd')) response.setHeader('content-encoding', 'zstd').end(body)
      else if (asked.headers['x-packed'] !== undefined)
        response.setHeader('content-encoding', asked.headers['x-packed']).end(body)
      else if (asked.headers.range !== undefined || asked.url!.includes('pieces'))
        response.writeHead(206).end(
          body.subarray(
            ...(/\d+-\d+/
              .exec(asked.headers.range ?? '0-5')![0]
              .split('-')
              .map(Number) as [number, number]),
          ),
        )
      else response.setHeader('content-length', body.length).end(body)
    }),
  )
  const net = await testNet({
    upstream: server.port,
    allow: ['allowed.test', 'other.test', 'api.anthropic.com'],
    trusted: [certificate.cert],
    rules,
    net: { credentials: [...credentials], model_hosts: ['api.anthropic.com'] },
  })
  async function ask(path: string, headers: Record<string, string> = {}, host = 'allowed.test', method = 'GET') {
    const secure = await net.tls(`${host}:443`, undefined, { ca: net.certificate, rejectUnauthorized: true })
    const agent = Object.assign(new Agent(), { createConnection: () => secure })
    const asking = request({ method, path, headers: { host, ...headers }, agent })
    asking.end()
    const [response] = (await once(asking, 'response')) as [IncomingMessage]
    return { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) }
  }
  return {
    net,
    seen,
    ask,
    async [Symbol.asyncDispose]() {
      await net[Symbol.asyncDispose]()
      await server[Symbol.asyncDispose]()
    },
  }
}

test('a credential is put where none is sent and in a placeholder’s place, and what echoes it is struck out', async () => {
  await using it = await setUp([bearer])
  const answers = [
    await it.ask('/repos/mine/a'),
    await it.ask('/repos/mine/b', { authorization: `token ${placeholder}` }),
    await it.ask('/repos/mine/c', { authorization: basic(placeholder) }),
    await it.ask('/repos/mine/gzip', { 'accept-encoding': 'gzip, br' }),
    await it.ask('/repos/mine/brotli'),
  ]
  expect(it.seen.map(({ headers }) => headers.authorization)).toEqual([
    `Bearer ${secret}`,
    `token ${secret}`,
    basic(secret),
    `Bearer ${secret}`,
    `Bearer ${secret}`,
  ])
  expect(it.seen.every(({ headers }) => headers['accept-encoding'] === 'identity')).toBe(true)
  for (const { status, body, headers } of answers) {
    expect(status).toBe(200)
    const all = `${body}${JSON.stringify(headers)}`
    for (const guise of [secret, Buffer.from(`x-token:${secret}`).toString('base64')]) expect(all).not.toContain(guise)
    expect(body).toContain('****')
    expect(headers['x-echo']).toContain('****')
  }
  // Packed in a way that cannot be looked into: not passed on.
  expect(await it.ask('/repos/mine/zstd')).toMatchObject({ status: 502 })
  expect(it.net.net()).toMatchObject([{ host: 'allowed.test', connections: 6, secrets: [{ name: 'github', count: 6 }] }])
})

test('an answer without a body is passed on, however packed the body would have been', async () => {
  await using it = await setUp([bearer])
  const { status, body, headers } = await it.ask('/repos/mine/gzip', {}, 'allowed.test', 'HEAD')
  expect({ status, body, coding: headers['content-encoding'] }).toEqual({ status: 200, body: '', coding: 'gzip' })
})

test('what a secret was put into is answered whole: no range takes it out in pieces', async () => {
  await using it = await setUp([bearer])
  const range = { range: 'bytes=0-5', 'if-range': '"x"' }
  const whole = await it.ask('/repos/mine/a', range)
  expect(whole.status).toBe(200)
  expect(whole.body).toContain('****')
  expect(it.seen[0]!.headers).not.toMatchObject({ range: expect.anything() })
  expect(it.seen[0]!.headers).not.toMatchObject({ 'if-range': expect.anything() })
  // In pieces though nobody asked for that: not passed on.
  expect(await it.ask('/repos/mine/pieces')).toMatchObject({ status: 502 })
})

test('where its secret is not stored, an endpoint is not called, and every other one is', async () => {
  await using it = await setUp([
    { ...bearer, box: null },
    { ...common, path: '/git/*', put: { as: 'basic', user: 'x-token' } },
  ])
  const refused = await it.ask('/repos/mine/a')
  expect(refused.status).toBe(403)
  expect(refused.body).toContain('is not stored: anchorhold secret add github')
  expect((await it.ask('/git/a')).status).toBe(200)
  expect((await it.ask('/elsewhere')).status).toBe(200)
  expect(it.seen.map(({ url }) => url)).toEqual(['/git/a', '/elsewhere'])
})

test('a secret goes by a user and a password, or in the query, where the owner says so', async () => {
  await using it = await setUp([
    { ...common, path: '/git/*', put: { as: 'basic', user: 'x-token' } },
    { ...common, path: '/maps/*', put: { as: 'query', name: 'key' } },
  ])
  await it.ask('/git/repo')
  await it.ask('/git/repo', { authorization: basic(placeholder) })
  const { body } = await it.ask('/maps/tile?z=1')
  await it.ask(`/maps/tile?key=${placeholder}`)
  expect(it.seen.map(({ headers, url }) => headers.authorization ?? url)).toEqual([
    basic(secret),
    basic(secret),
    `/maps/tile?z=1&key=${encodeURIComponent(secret)}`,
    `/maps/tile?key=${encodeURIComponent(secret)}`,
  ])
  for (const guise of [secret, encodeURIComponent(secret)]) expect(body).not.toContain(guise)
})

test('a placeholder in the query is exchanged in its own parameter, in whatever form, and nowhere else', async () => {
  await using it = await setUp([{ ...common, path: '/maps/*', put: { as: 'query', name: 'key' } }])
  await it.ask(`/maps/tile?a=1&k%65y=${placeholder.replaceAll('-', '%2D')}&b=2`)
  expect(it.seen.map(({ url }) => url)).toEqual([`/maps/tile?a=1&key=${encodeURIComponent(secret)}&b=2`])
  for (const path of [
    `/maps/notes/${placeholder}`,
    `/maps/notes/${placeholder}?key=${placeholder}`,
    `/maps/tile?title=${placeholder}`,
    `/maps/tile?title=${placeholder}&key=${placeholder}`,
    `/maps/tile?${placeholder}=1&key=${placeholder}`,
    `/maps/tile?key=mine&key=${placeholder}`,
    `/maps/tile?title=anchorhold%2Dplaceholder%2Dgithub&key=${placeholder}`,
  ]) {
    const refused = await it.ask(path)
    expect([path, refused.status]).toEqual([path, 403])
    expect(refused.body).toContain('does not belong where it stands')
  }
  expect(await it.ask('/maps/tile', { 'x-title': placeholder })).toMatchObject({ status: 403 })
  expect(it.seen).toHaveLength(1)
})

test('a host that was sent a secret is listened to everywhere: what it says of it elsewhere is struck out too', async () => {
  await using it = await setUp([bearer])
  const said = await it.ask('/elsewhere', { 'x-said': `${secret} ${basic(secret)}`, range: 'bytes=0-5' })
  expect(said.status).toBe(200)
  expect(said.body).not.toContain(secret)
  expect(said.body).toContain('****')
  expect(await it.ask('/elsewhere/constructor', { 'x-packed': 'constructor' })).toMatchObject({ status: 502 })
})

test('what was struck out of an answer stands for the secret where it is shown again, and nowhere else', async () => {
  await using it = await setUp([bearer, { ...common, path: '/git/*', put: { as: 'basic', user: 'x-token' } }])
  const echoes = [await it.ask('/repos/mine/a'), await it.ask('/git/repo')].map(({ headers }) => String(headers['x-echo']))
  expect(echoes.every((echo) => /^(Bearer|Basic) \*+$/.test(echo))).toBe(true)
  it.seen.length = 0
  await it.ask('/repos/mine/b', { authorization: echoes[0]! })
  await it.ask('/git/objects', { authorization: echoes[1]! })
  await it.ask('/repos/other/b', { authorization: echoes[0]! })
  expect(it.seen.map(({ headers }) => headers.authorization)).toEqual([`Bearer ${secret}`, basic(secret), echoes[0]])
})

test.each([
  ['another path', '/repos/other/a', {}, 'allowed.test', 'GET'],
  ['a path that a server may read as another', '/repos/mine%2f%2f/a/%2frepos/other', {}, 'allowed.test', 'GET'],
  ['another method', '/repos/mine/a', {}, 'allowed.test', 'DELETE'],
])('a credential is not put into a call for %s', async (_, path, headers, host, method) => {
  await using it = await setUp([bearer])
  await it.ask(path, headers, host, method)
  expect(it.seen.map(({ headers: sent }) => sent.authorization)).toEqual([undefined])
  // With the placeholder in it, it goes nowhere at all.
  const refused = await it.ask(path, { authorization: `Bearer ${placeholder}` }, host, method)
  expect(refused).toMatchObject({ status: 403 })
  expect(refused.body).toContain('stands for a secret that is not for this endpoint')
  expect(it.seen).toHaveLength(1)
})

test.each([
  '/repos/mine/../other/a',
  '/repos/mine/%2e%2e/other',
  '/repos/mine/..;/other/a',
  '/repos/mine/..;x=y/..;/user/keys',
  '/repos/mine/../other/%252e%252e/mine/a',
  '/repos/mine/../../admin/%2e%2e/repos/mine/a',
])('a call for %s, in which servers may see another path, is sent to nobody', async (path) => {
  await using it = await setUp([bearer])
  const refused = await it.ask(path)
  expect(it.seen).toEqual([])
  expect(refused).toMatchObject({ status: 400 })
  expect(refused.body).toContain('the path has a part of nothing but dots')
})

test.each([
  'x-http-method-override',
  'X-HTTP-Method',
  'x-method-override',
  'x-original-url',
  'X-Rewrite-URL',
  'x_http_method_override',
])('a request with a header %s, which may name another method or path than was judged, is sent to nobody', async (header) => {
  await using it = await setUp([bearer])
  const refused = await it.ask('/repos/mine/a', { [header]: 'DELETE' }, 'allowed.test', 'POST')
  expect(it.seen).toEqual([])
  expect(refused.status).toBe(400)
  expect(refused.body).toContain('may name another method or path')
  const plain = await it.net.get('http://allowed.test/', { headers: { [header]: '/admin' } })
  expect([plain.status, it.net.judged, it.net.dialled]).toEqual([400, [], []])
})

test.each([
  ['a header', '/', { 'x-other': placeholder }],
  ['the query', `/?a=${placeholder}`, {}],
  ['the query, encoded', `/?a=anchorhold%2Dplaceholder%2Dgithub`, {}],
  ['a password', '/', { authorization: basic(placeholder) }],
  ['the name of a header’s user', '/', { authorization: `Basic ${Buffer.from(`${placeholder}:x`).toString('base64')}` }],
])('a placeholder in %s of a call to another host is refused', async (_, path, headers) => {
  const rule = { on: 'net', match: { host: 'other.test' }, effect: 'allow', how: 'open' } as const
  await using it = await setUp([bearer], [rule])
  expect(await it.ask(path, headers, 'other.test')).toMatchObject({ status: 403 })
  expect(it.seen).toEqual([])
})

test('over plain HTTP no secret is put in, and no placeholder goes out', async () => {
  const seen: string[] = []
  await using server = await listener(
    createPlainServer(({ headers }, response) => {
      seen.push(headers.authorization ?? 'none')
      response.end(`${seen.at(-1)} ${String(headers['x-said'])}`)
    }),
  )
  await using net = await testNet({ upstream: server.port, net: { credentials: [{ ...bearer, port: 80 }] } })
  const said = await net.get('http://allowed.test/repos/mine/a', { headers: { 'x-said': secret } })
  expect([said.status, said.body]).toEqual([200, `none ${'*'.repeat(secret.length)}`])
  const refused = await net.get('http://allowed.test/repos/mine/a', { headers: { authorization: `Bearer ${placeholder}` } })
  expect(refused.status).toBe(403)
  expect(seen).toEqual(['none'])
})

test.each([
  ['a key of somebody’s at a provider', 'api.anthropic.com', '/v1/files', { 'x-api-key': 'sk-ant-api03-evil' }],
  ['a login of somebody’s at a provider', 'api.anthropic.com', '/v1/files', { authorization: 'Bearer evil' }],
  ['no key at a provider', 'api.anthropic.com', '/v1/messages', {}],
  ['a key at another host', 'other.test', '/', { authorization: 'Bearer sk-ant-api03-evil' }],
  ['a key as a password', 'other.test', '/', { authorization: basic('sk-ant-api03-evil') }],
  ['a key in the query', 'other.test', '/?key=sk%2Dant-api03-evil', {}],
  ['the API of a model at another host', 'other.test', '/v1/files', { 'x-api-key': 'evil', 'anthropic-version': '2023-06-01' }],
])('what carries %s is refused, although the host is allowed', async (_, host, path, headers) => {
  // Said to be passed on unread, which a provider of models never is.
  const tunnel = { on: 'net', match: { host: 'api.anthropic.com' }, effect: 'allow', how: 'tunnel' } as const
  const open = { on: 'net', match: { host: 'other.test' }, effect: 'allow', how: 'open' } as const
  await using it = await setUp([], [tunnel, open])
  expect(await it.ask(path, headers as Record<string, string>, host)).toMatchObject({ status: 403 })
  expect(it.seen).toEqual([])
  expect(it.net.dialled).toEqual([])
})

test('web_fetch carries no key and no placeholder anywhere, reads no model, and shows no secret', async () => {
  const open = { on: 'net', match: { host: 'other.test' }, effect: 'allow', how: 'open' } as const
  await using it = await setUp([bearer], [open])
  for (const [url, why] of [
    ['https://other.test/?k=sk-ant-api03-evil', 'a key to a model that is not yours'],
    [`https://other.test/?k=${placeholder}`, 'is not for this endpoint'],
    [`https://allowed.test/repos/mine/${placeholder}`, 'is not for this endpoint'],
    ['https://api.anthropic.com/v1/models', 'through the model window'],
  ])
    expect((await it.net.own(fetchPath, { url })).body).toMatchObject({ answer: 'blocked', why: expect.stringContaining(why!) })
  expect([it.seen, it.net.judged, it.net.dialled]).toEqual([[], [], []])
  const { body } = await it.net.own(fetchPath, { url: `https://allowed.test/repos/mine/${secret}` })
  expect(body).toMatchObject({ answer: 'page', status: 200 })
  expect(Buffer.from((body as { body: string }).body, 'base64').toString()).toMatch(/"url":"\/repos\/mine\/\*+"/)
  expect(it.seen[0]!.headers.authorization).toBeUndefined()
})

test('fillBy() fills a call by what is in force when it goes on, not by what was when it came', () => {
  let terms = NetTerms.parse({ credentials: [bearer] })
  const fill = fillBy(
    () => terms,
    (box) => box,
    () => false,
  )
  const target = { host: 'allowed.test', port: 443, isAddress: false }
  const call = { target, method: 'GET', path: '/repos/mine/a', rawHeaders: [], secure: true }
  expect(fill.putInto(call)).toMatchObject({ used: ['github'] })
  terms = NetTerms.parse({ credentials: [{ ...bearer, box: null }] })
  expect(fill.putInto(call)).toMatchObject({ refused: expect.stringContaining('is not stored') })
  terms = NetTerms.parse({})
  expect(fill.putInto(call)).toEqual({ path: call.path, rawHeaders: [], used: [], scrub: null })
})

test('an owner’s own credential for a provider of models is put in like any other', async () => {
  const put = { as: 'header', name: 'x-api-key', format: '{}' } as const
  await using it = await setUp([{ ...common, host: 'api.anthropic.com', path: '/v1/models', method: ['GET'], put }])
  expect(await it.ask('/v1/models', { 'x-api-key': placeholder }, 'api.anthropic.com')).toMatchObject({ status: 200 })
  expect(it.seen[0]!.headers['x-api-key']).toBe(secret)
  expect(await it.ask('/v1/models', { 'x-api-key': 'sk-ant-evil' }, 'api.anthropic.com')).toMatchObject({ status: 403 })
  expect(await it.ask('/v1/files', {}, 'api.anthropic.com')).toMatchObject({ status: 403 })
})

const own = { ...common, host: 'allowed.test', put: { as: 'query', name: 'key' } } as const
test.each([
  ['another login', '/repos/mine/a', { authorization: 'Bearer mine' }],
  ['another login elsewhere', '/elsewhere', { authorization: basic('mine') }],
  ['a cookie', '/repos/mine/a', { cookie: 'session=mine' }],
  ['a token of a forge', '/repos/mine/a', { 'private-token': 'mine' }],
  ['an API key', '/repos/mine/a', { 'x-api-key': 'mine' }],
  ['a parameter', '/repos/mine/a?access_token=mine', {}],
  ['a parameter in percent form', '/repos/mine/a?b=1&%61pi_key=mine', {}],
  [
    'the user of a placeholder',
    '/repos/mine/a',
    { authorization: `Basic ${Buffer.from(`ghp_${'m'.repeat(36)}:${placeholder}`).toString('base64')}` },
  ],
  ['a placeholder and more', '/repos/mine/a', { authorization: `Bearer mine, Bearer ${placeholder}` }],
])('to a host with a credential goes none of the cell: %s is refused', async (_, path, headers) => {
  await using it = await setUp([bearer])
  const refused = await it.ask(path, headers)
  expect(refused.status).toBe(403)
  expect(refused.headers['x-anchorhold-blocked']).toBe('allowed.test:443')
  const { anchorhold } = JSON.parse(refused.body) as { anchorhold: { blocked: object; why: string; how_to_ask: string } }
  expect(anchorhold.blocked).toMatchObject({ host: 'allowed.test', port: 443 })
  expect([anchorhold.why, refused.body.includes('Bearer mine')]).toEqual([
    expect.stringMatching(/of the cell's own|does not belong/),
    false,
  ])
  expect([it.seen, it.net.judged, it.net.dialled]).toEqual([[], [], []])
})

test('what a cell is told of its own credential says what to send in its place', async () => {
  await using it = await setUp([bearer])
  const { body } = await it.ask('/repos/mine/a', { 'private-token': 'mine' })
  expect(body).toContain('Send it without the header \\"private-token\\"')
  expect(body).not.toContain('request_access')
})

test('a placeholder goes on with one word in front of it, and with a user whose name is no token', async () => {
  await using it = await setUp([
    bearer,
    { ...common, path: '/git/*', put: { as: 'basic', user: 'x-token' } },
    { ...own, path: '/maps/*' },
  ])
  const user = (name: string) => `Basic ${Buffer.from(`${name}:${placeholder}`).toString('base64')}`
  for (const [path, authorization] of [
    ['/repos/mine/a', placeholder],
    ['/repos/mine/a', `token ${placeholder}`],
    ['/repos/mine/a', user('git')],
    ['/repos/mine/a', `Basic ${Buffer.from(`${placeholder}:x-oauth-basic`).toString('base64')}`],
    ['/git/a', user('somebody-whose-name-is-long')],
  ])
    expect([path, (await it.ask(path!, { authorization: authorization! })).status]).toEqual([path, 200])
  expect((await it.ask(`/maps/a?key=${placeholder}`)).status).toBe(200)
  expect((await it.ask(`/maps/a?key=mine-${placeholder}`)).status).toBe(403)
  expect(it.seen.map(({ headers, url }) => headers.authorization ?? url)).toEqual([
    secret,
    `token ${secret}`,
    `Basic ${Buffer.from(`git:${secret}`).toString('base64')}`,
    `Basic ${Buffer.from(`${secret}:x-oauth-basic`).toString('base64')}`,
    // The owner's word for the user.
    basic(secret),
    `/maps/a?key=${encodeURIComponent(secret)}`,
  ])
})

test('a host with a credential gives the cell no cookie, which it could not send', async () => {
  await using server = await listener(
    createServer(certificate, (_, response) => void response.setHeader('set-cookie', 'session=derived').end('ok')),
  )
  await using net = await testNet({ upstream: server.port, trusted: [certificate.cert], net: { credentials: [bearer] } })
  const secure = await net.tls('allowed.test:443', undefined, { ca: net.certificate })
  secure.write('GET / HTTP/1.1\r\nhost: allowed.test\r\nconnection: close\r\n\r\n')
  expect(await text(secure)).not.toContain('derived')
})

test('user info in a URL, and a credential over plain HTTP, go to no host with a credential', async () => {
  await using net = await testNet({ upstream: 1, net: { credentials: [bearer] } })
  const raw = await net.raw('GET http://me:mine@allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  expect(raw).toContain('400 Bad Request')
  expect((await net.own(fetchPath, { url: 'https://me:mine@allowed.test/' })).body).toMatchObject({ answer: 'failed' })
  expect((await net.own(fetchPath, { url: 'https://allowed.test/?token=mine' })).body).toMatchObject({
    answer: 'blocked',
    how_to_ask: expect.stringContaining('Send it without the parameter "token"'),
  })
  expect((await net.get('http://allowed.test/', { headers: { authorization: 'Bearer mine' } })).status).toBe(403)
  expect(net.dialled).toEqual([])
})

test('a rule with only_ours keeps the cell’s own credentials from any host, and has its TLS opened', async () => {
  const rule = { on: 'net', match: { host: 'other.test', port: 443 }, effect: 'allow', only_ours: true } as const
  await using it = await setUp([], [rule])
  expect(await it.ask('/', { authorization: 'Bearer mine' }, 'other.test')).toMatchObject({ status: 403 })
  expect(await it.ask('/?token=mine', {}, 'other.test')).toMatchObject({ status: 403 })
  expect(await it.ask('/?page=2', {}, 'other.test')).toMatchObject({ status: 200 })
  expect(await it.net.own(fetchPath, { url: 'https://other.test/?token=mine' })).toMatchObject({ body: { answer: 'blocked' } })
  expect(it.seen.map(({ url }) => url)).toEqual(['/?page=2'])
})

test('where nothing says otherwise, a cell sends what credentials it has', async () => {
  const open = { on: 'net', match: { host: 'other.test' }, effect: 'allow', how: 'open' } as const
  await using it = await setUp([bearer], [open])
  expect(await it.ask('/?token=mine', { authorization: 'Bearer mine' }, 'other.test')).toMatchObject({ status: 200 })
})
