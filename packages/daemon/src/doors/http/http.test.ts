import { api } from '@anchorhold/protocol/api/api'
import { addresses, type ApiName, apiRoot, apiAddress } from '@anchorhold/protocol/api/addresses'
import type { Event } from '@anchorhold/protocol/events'
import { newSessionId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createLoginLink, createToken, logDeviceIn, revokeToken } from '../../app/people/access.ts'
import { createSession } from '../../app/sessions/create-session.ts'
import { whoIs } from '../../app/people/access.ts'
import { owner, record, type TestParts, testParts } from '../../app/test-parts.ts'
import { calls } from './calls.ts'
import { addressOf } from './guard.ts'
import { httpApi } from './api.ts'
import { httpDoor } from './http.ts'
import { readWeb } from './web.ts'
import { transaction } from '../../transaction.ts'

let parts: TestParts
let server: Server
let base: { readonly port: number }
let token = ''
let logged: string[]
const shutdown = vi.fn(async () => ({ left_running: 0 }))
const web = mkdtempSync(join(tmpdir(), 'ah-web-'))
mkdirSync(join(web, 'assets'))
writeFileSync(join(web, 'index.html'), '<!doctype html>')
writeFileSync(join(web, 'assets/main-1a2b3c.js'), '// plain')
writeFileSync(join(web, 'assets/main-1a2b3c.js.br'), 'compressed')
writeFileSync(join(web, 'secret.txt'), 'not served')
mkdirSync(join(web, '.vite'))
const built = {
  'index.html': { file: 'assets/main-1a2b3c.js', imports: ['_base.js'] },
  '_base.js': { file: 'assets/base-0d0e0f.js' },
  'src/session/SessionPage.tsx': { file: 'assets/session-4d5e6f.js', imports: ['index.html', '_base.js', '_cards.js'] },
  '_cards.js': { file: 'assets/cards-7a8b9c.js', imports: ['_base.js'] },
}
writeFileSync(join(web, '.vite/manifest.json'), JSON.stringify(built))
afterAll(() => rmSync(web, { recursive: true }))
beforeEach(async () => {
  parts = testParts()
  logged = []
  const address = () => ({ port: 7777, publicUrl: 'https://agents.example' })
  const api = httpApi({
    address,
    version: '1.2.3',
    whoIs: (secret, role, from) => whoIs(parts, secret, role, from),
    trustedProxies: 0,
    calls: calls({ parts, about: { version: '1.2.3', startedAt: 0, url: () => 'https://agents.example' }, shutdown }),
  })
  const door = httpDoor({
    address,
    api: async () => api,
    web: readWeb(web),
    log: (message) => void logged.push(message),
  })
  token = createToken(parts, owner, { name: 'test' }).secret
  server = createServer(door)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  base = server.address() as AddressInfo
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  parts[Symbol.dispose]()
})

type Call = {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Record<string, string>
  readonly raw?: string
}
/** As a client sends it that may say anything in its headers, the Host too. */
function ask(path: string, { method = 'GET', body, headers = {}, raw }: Call = {}): Promise<Response> {
  const sent = raw ?? (body === undefined ? '' : JSON.stringify(body))
  return new Promise((resolve, reject) => {
    const one = request(
      {
        port: base.port,
        path,
        method,
        agent: false,
        headers: {
          host: '127.0.0.1:7777',
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(sent === '' ? {} : { 'content-length': String(Buffer.byteLength(sent)) }),
          ...headers,
        },
      },
      (answer) => {
        const given = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
          values.map((value) => [name, value] as [string, string]),
        )
        resolve(new Response(Readable.toWeb(answer) as ReadableStream, { status: answer.statusCode!, headers: given }))
      },
    )
    one.once('error', reject)
    one.end(sent)
  })
}
const call = (path: string, options: Call = {}) => ask(`${apiRoot}${path}`, options)
const codeOf = async (response: Response | Promise<Response>) => {
  const { status, body } = await problemOf(response)
  return `${status} ${body.error.code}`
}
async function problemOf(response: Response | Promise<Response>) {
  const answer = await response
  return {
    status: answer.status,
    body: (await answer.json()) as { error: { code: string; message: string; hint?: string; id?: string } },
  }
}

test.each([
  ['a foreign Host, as DNS rebinding sends it', { host: 'evil.example:7777' }, '403 foreign_host'],
  ['a Host of another port', { host: '127.0.0.1:80' }, '403 foreign_host'],
  ['a Host that only begins like ours', { host: 'localhost:7777.evil.example' }, '403 foreign_host'],
  ['a foreign Origin', { origin: 'https://evil.example' }, '403 foreign_origin'],
  ['an opaque Origin', { origin: 'null' }, '403 foreign_origin'],
  ['an Origin of another port', { origin: 'http://localhost:8888' }, '403 foreign_origin'],
  ['a request of a foreign page without Origin', { 'sec-fetch-site': 'cross-site' }, '403 foreign_origin'],
  ['no token', { authorization: '' }, '401 unauthenticated'],
  ['a wrong token', { authorization: 'Bearer anchor_0000000000000000000000' }, '401 unauthenticated'],
  ['a token that is none', { authorization: 'Bearer x' }, '401 unauthenticated'],
  ['a token as cookie', { authorization: '', cookie: 'anchorhold=TOKEN' }, '401 unauthenticated'],
])('httpDoor() refuses %s', async (_, headers, code) => {
  const sent = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.replace('TOKEN', token)]))
  expect(await codeOf(call('/sessions', { headers: sent }))).toBe(code)
})

test.each([
  [{ host: 'localhost:7777', origin: 'http://localhost:7777' }],
  [{ host: '[::1]:7777' }],
  [{ host: 'agents.example', origin: 'https://agents.example' }],
])('httpDoor() takes a request that is meant for it: %j', async (headers) => {
  expect((await call('/sessions', { headers })).status).toBe(200)
})

test.each([
  ['our own page', 'POST', { 'sec-fetch-site': 'same-origin' }, 201],
  ['our own page in an old browser', 'POST', { origin: 'https://agents.example' }, 201],
  ['an address that somebody typed', 'GET', { 'sec-fetch-site': 'none' }, 200],
  ['a link that somebody opens in an old browser', 'GET', {}, 200],
  ['a page of another host of the same site', 'GET', { 'sec-fetch-site': 'same-site' }, 403],
  ['a page of another host of the same site, as a form', 'POST', { 'sec-fetch-site': 'same-site' }, 403],
  ['a link on a page of another site', 'GET', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }, 403],
  ['nobody can tell where', 'POST', {}, 403],
  ['no page at all, to change something', 'POST', { 'sec-fetch-site': 'none' }, 403],
])('httpDoor() takes a cookie or not with a request of %s: %s', async (_, method, more, status) => {
  const user = parts.store.people.list()[0]!
  const { secret } = transaction(parts, (tx) => logDeviceIn(tx, user, 'link', { address: null, agent: '', door: 'web' }))
  const headers = { authorization: '', host: 'agents.example', cookie: `__Host-anchorhold=${secret}`, ...more }
  expect((await call('/sessions', { method, headers, ...(method === 'POST' ? { body: {} } : {}) })).status).toBe(status)
})

test('httpDoor() has no answer of the API kept, and under HTTPS no other way used', async () => {
  const { headers } = await call('/sessions')
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('strict-transport-security')).toBe('max-age=31536000')
  expect((await call('/sessions', { headers: { authorization: '' } })).headers.get('cache-control')).toBe('no-store')
})

test('httpDoor() asks who it is for everything but the page and the login', async () => {
  const open = new Set<string>()
  for (const name of Object.keys(addresses) as ApiName[]) {
    const { method, path } = apiAddress(name)
    const response = await call(path.replace(/:\w+/g, 'x'), { method, headers: { authorization: '' } })
    if (response.status !== 401) open.add(name)
  }
  expect([...open]).toEqual(['login', 'loginWays', 'loginByPassword', 'loginByCode', 'askPasskey', 'loginByPasskey', 'reach'])
  expect(await codeOf(call('/openapi.json', { headers: { authorization: '' } }))).toBe('401 unauthenticated')
  expect((await ask('/', { headers: { authorization: '' } })).status).toBe(200)
})

test.each([
  [0, '203.0.113.9', '127.0.0.1'],
  [1, '203.0.113.9', '203.0.113.9'],
  // What the client itself wrote stands in front.
  [1, '10.0.0.1, 203.0.113.9', '203.0.113.9'],
  [2, '198.51.100.1, 203.0.113.9, 192.0.2.7', '203.0.113.9'],
  [2, '203.0.113.9', '127.0.0.1'],
  [1, 'unknown', '127.0.0.1'],
  [1, '', '127.0.0.1'],
])('addressOf() with %i proxies believes of "%s" just %s', (proxies, said, address) => {
  const request = { headers: { 'x-forwarded-for': said }, socket: { remoteAddress: '::ffff:127.0.0.1' } }
  expect(addressOf(request as unknown as IncomingMessage, proxies)).toBe(address)
})

test.each([
  ['malformed JSON', '/sessions', { method: 'POST', raw: '{', headers: { 'content-type': 'application/json' } }],
  ['a body that is not JSON', '/sessions', { method: 'POST', raw: 'name=x', headers: { 'content-type': 'text/plain' } }],
  ['an unknown field', '/sessions', { method: 'POST', body: { nonsense: 1 } }],
  ['a wrong type', '/sessions', { method: 'POST', body: { name: 7 } }],
  ['a number that is none', '/sessions?limit=many', {}],
  ['an unknown query', '/sessions?nonsense=1', {}],
  ['an id that is none', '/sessions/..%2f..%2fetc', {}],
])('httpDoor() refuses %s', async (_, path, options) => {
  expect(await codeOf(call(path, options))).toBe('400 bad_request')
})

test('httpDoor() says that there is nothing under an unknown id or path', async () => {
  expect(await codeOf(call(`/sessions/${newSessionId(randomBytes)}`))).toBe('404 not_found')
  expect(await codeOf(call('/nothing'))).toBe('404 not_found')
  expect(await codeOf(ask('/../etc/passwd'))).toBe('404 not_found')
})

test('httpDoor() says which methods a path has where it is asked by another', async () => {
  const told = async (path: string, options: Call) => {
    const answer = await ask(path, options)
    return [answer.headers.get('allow'), await codeOf(answer)]
  }
  const session = `${apiRoot}/sessions/${newSessionId(randomBytes)}`
  expect(await told(session, { method: 'POST', body: {} })).toEqual(['GET, HEAD, PATCH, DELETE', '405 wrong_method'])
  expect(await told(`${session}/interrupt`, {})).toEqual(['POST', '405 wrong_method'])
  expect(await told(`${apiRoot}/openapi.json`, { method: 'OPTIONS' })).toEqual(['GET, HEAD', '405 wrong_method'])
  expect(await told('/inbox', { method: 'POST' })).toEqual(['GET, HEAD', '405 wrong_method'])
  for (const path of [`${apiRoot}/nothing`, '/nothing'])
    expect(await told(path, { method: 'POST', headers: { accept: 'text/html' } })).toEqual([null, '404 not_found'])
  // A stranger hears the same of every method.
  const headers = { authorization: '' }
  for (const method of ['GET', 'PUT']) expect(await told(session, { method, headers })).toEqual([null, '401 unauthenticated'])
  expect(await told(`${apiRoot}/login`, { method: 'PUT', headers })).toEqual(['GET, HEAD, POST', '405 wrong_method'])
})

test('httpDoor() reads no more of a body than its limit, and little of a stranger’s', async () => {
  const raw = JSON.stringify({ secret: 'x'.repeat(20_000) })
  const headers = { authorization: '', 'content-type': 'application/json' }
  expect(await codeOf(call('/login', { method: 'POST', raw, headers }))).toBe('413 too_large')
  const claimed = { 'content-type': 'application/json', 'content-length': String(2 ** 40) }
  expect(await codeOf(call('/sessions', { method: 'POST', raw: '{}', headers: claimed }))).toBe('413 too_large')
})

test('httpDoor() tells nothing of a bug but where the log has the rest', async () => {
  parts.gate.handle = () => {
    throw new Error('the key is sk-secret')
  }
  parts.keepers.standing = () => Promise.reject(new Error('not now'))
  const provider = { kind: 'anthropic', credential: { from: 'key', key: 'sk-secret' } }
  const { status, body } = await problemOf(call('/providers/mine', { method: 'PUT', body: provider }))
  expect(status).toBe(500)
  expect(JSON.stringify(body)).not.toContain('secret')
  expect(logged.join('\n')).toContain(body.error.id)
})

test('httpDoor() sends the headers that keep other pages out, with failures too', async () => {
  for (const path of ['/', `${apiRoot}/sessions`, `${apiRoot}/nothing`]) {
    const { headers } = await ask(path)
    expect(headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('access-control-allow-origin')).toBeNull()
  }
})

test('httpDoor() serves the app: its page on every screen and never kept, its files for good, nothing else', async () => {
  for (const path of ['/', '/new', '/inbox', '/usage', `/sessions/${newSessionId(randomBytes)}`]) {
    const { status, headers } = await ask(path)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(headers.get('cache-control')).toBe('no-store')
    expect(headers.get('content-security-policy')).toContain("require-trusted-types-for 'script'")
  }
  const plain = await ask('/assets/main-1a2b3c.js')
  expect(plain.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  expect(await plain.text()).toBe('// plain')
  const packed = await ask('/assets/main-1a2b3c.js', { headers: { 'accept-encoding': 'gzip, br' } })
  expect(packed.headers.get('content-encoding')).toBe('br')
  for (const path of ['/secret.txt', '/assets/main-1a2b3c.js.br', '/assets/../secret.txt', '/assets', '/sessions/x', '/page.js'])
    expect(await codeOf(ask(path)), path).toBe('404 not_found')
})

test('httpDoor() has a browser ask for a session and the code that shows it along with the page', async () => {
  const id = newSessionId(randomBytes)
  const { headers } = await ask(`/sessions/${id}`)
  expect(headers.get('link')?.split(', ')).toEqual([
    `<${apiRoot}/sessions/${id}/events?before=9007199254740991&limit=200>; rel=preload; as=fetch; crossorigin`,
    `<${apiRoot}/sessions/${id}>; rel=preload; as=fetch; crossorigin`,
    '</assets/session-4d5e6f.js>; rel=modulepreload',
    '</assets/cards-7a8b9c.js>; rel=modulepreload',
  ])
  expect((await ask('/')).headers.get('link')).toBeNull()
  expect(await codeOf(ask('/.vite/manifest.json'))).toBe('404 not_found')
})

test('the log can tell the command line, the web app and other programs apart, and only by a label', async () => {
  const doorOf = async (headers: Record<string, string>) =>
    ((await (await call('/whoami', { headers })).json()) as { door: string }).door
  const user = parts.store.people.list()[0]!
  const { secret } = transaction(parts, (tx) => logDeviceIn(tx, user, 'link', { address: null, agent: '', door: 'web' }))
  const cookie = { authorization: '', cookie: `__Host-anchorhold=${secret}` }
  expect(await doorOf({})).toBe('http')
  expect(await doorOf({ 'user-agent': 'anchorhold-cli' })).toBe('cli')
  expect(await doorOf(cookie)).toBe('web')
  expect(await doorOf({ ...cookie, 'user-agent': 'anchorhold-cli' })).toBe('web')
})

test('a login link is good for one cookie, which is no bearer token and ends with the logout', async () => {
  const { url } = createLoginLink(parts, owner, 'http://localhost:7777')
  const secret = new URL(url).hash.slice('#login='.length)
  const log = () => call('/login', { method: 'POST', body: { secret }, headers: { authorization: '' } })
  const cookie = (await log()).headers.get('set-cookie') ?? ''
  expect(cookie).toMatch(/^__Host-anchorhold=anchor_[\w-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+; Secure$/)
  expect(await codeOf(log())).toBe('401 unauthenticated')
  const [pair = ''] = cookie.split(';')
  const headers = { authorization: '', cookie: pair }
  expect((await call('/sessions', { headers })).status).toBe(200)
  expect(await codeOf(call('/sessions', { headers: { authorization: `Bearer ${pair.split('=')[1]}` } }))).toBe(
    '401 unauthenticated',
  )
  await call('/logout', { method: 'POST', headers: { ...headers, 'sec-fetch-site': 'same-origin' } })
  expect(await codeOf(call('/sessions', { headers }))).toBe('401 unauthenticated')
})

test('a token is good until it expires or is revoked', async () => {
  const { token: made, secret } = createToken(parts, owner, { name: 'short', days: 1 })
  const headers = { authorization: `Bearer ${secret}` }
  expect((await call('/sessions', { headers })).status).toBe(200)
  parts.at += 25 * 60 * 60 * 1000
  expect(await codeOf(call('/sessions', { headers }))).toBe('401 unauthenticated')
  revokeToken(parts, owner, made.id)
  expect(() => revokeToken(parts, owner, made.id)).toThrow(expect.objectContaining({ code: 'not_found' }))
})

test('httpDoor() answers as the contract says, for every state that a session passes through', async () => {
  const created = await call('/sessions', { method: 'POST', body: { name: 'Roof' } })
  expect(created.status).toBe(201)
  const session = api.createSession.response.parse(await created.json())
  const under = (path: string) => `/sessions/${session.id}${path}`
  expect((await call(under('/prompts'), { method: 'POST', body: { text: 'Hello' } })).status).toBe(202)
  const page = api.sessionEvents.response.parse(await (await call(under('/events?limit=2'))).json())
  expect([page.events.map(({ seq }) => seq), page.more]).toEqual([[1, 2], false])
  for (const [path, state] of [
    ['/stop', 'stopped'],
    ['/start', 'ready'],
    ['/pause', 'paused'],
    ['/resume', 'ready'],
    ['/archive', 'archived'],
  ])
    expect(await (await call(under(path!), { method: 'POST' })).json()).toMatchObject({ state })
  expect(await codeOf(call(under('/prompts'), { method: 'POST', body: { text: 'Hello' } }))).toBe('409 wrong_state')
  expect((await call(under('/purge'), { method: 'POST', body: { confirm: session.id } })).status).toBe(200)
  expect(await codeOf(call(under('')))).toBe('404 not_found')
})

const decoder = new TextDecoder()
/** Reads the stream until it holds this many messages. */
async function messages(response: Response, count: number): Promise<{ readonly text: string; end(): Promise<void> }> {
  const reader = response.body!.getReader()
  let text = ''
  while ((text.match(/^data: /gm) ?? []).length < count) {
    const { value, done } = await reader.read()
    if (done) break
    text += decoder.decode(value)
  }
  return { text, end: () => reader.cancel() }
}

test('a stream begins after the last event that was seen, with its number as id', async () => {
  const { id } = await createSession(parts, owner, {})
  for (const message of ['one', 'two']) record(parts, id, { type: 'notice', body: { level: 'info', code: 'x', message } })
  const headers = { accept: 'text/event-stream' }
  const path = `/sessions/${id}/events`
  const fresh = await messages(await call(`${path}?after=1`, { headers }), 2)
  const ids = [...fresh.text.matchAll(/^id: (\d+)$/gm)].map(([, number]) => number)
  expect(ids).toEqual(['2', '3'])
  const again = await messages(await call(path, { headers: { ...headers, 'last-event-id': '2' } }), 1)
  const [, data = ''] = /^data: (.*)$/m.exec(again.text) ?? []
  expect((JSON.parse(data) as Event).seq).toBe(3)
  await fresh.end()
  await again.end()
})

test('a stream of all events is refused behind an event that never was, and not behind one that is gone', async () => {
  const headers = { accept: 'text/event-stream' }
  const last = parts.store.events.lastPos()
  const refused = await call(`/events?after=${last + 1}`, { headers })
  expect(refused.status).toBe(409)
  expect(await refused.json()).toMatchObject({ error: { code: 'conflict' } })
  const { id } = await createSession(parts, owner, {})
  const gone = parts.store.events.lastPos()
  expect(gone).toBeGreaterThan(last)
  parts.store.sessions.purge(id)
  const stream = await call(`/events?after=${gone}`, { headers })
  expect(stream.status).toBe(200)
  await stream.body!.cancel()
})

test('a stream ends when the token that opened it is revoked', async () => {
  const { token: made, secret } = createToken(parts, owner, { name: 'watcher' })
  const headers = { accept: 'text/event-stream', authorization: `Bearer ${secret}` }
  const stream = await call('/events', { headers })
  const reader = stream.body!.getReader()
  await reader.read()
  expect((await call(`/tokens/${made.id}`, { method: 'DELETE' })).status).toBe(200)
  await expect(reader.read()).rejects.toThrow()
})

test('a stream whose reader went away leaves nothing running', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] })
  const headers = { accept: 'text/event-stream' }
  const { end } = await messages(await call('/events', { headers }), 0)
  expect(vi.getTimerCount()).toBe(1)
  await end()
  while (vi.getTimerCount() > 0) await new Promise((resolve) => setImmediate(resolve))
  vi.useRealTimers()
})

test('a stream that nobody reads is cut off', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] })
  const { id } = await createSession(parts, owner, {})
  for (let index = 0; index < 200; index++) record(parts, id, { type: 'text', body: { block: 'b', text: 'x'.repeat(100_000) } })
  const stream = await call('/events', { headers: { accept: 'text/event-stream' } })
  await vi.advanceTimersByTimeAsync(90_000)
  expect(vi.getTimerCount()).toBe(0)
  await expect(stream.text()).rejects.toThrow()
  vi.useRealTimers()
})

test('a token that is taken away while its request is being sent does nothing with it any more', async () => {
  const { secret, token: held } = createToken(parts, owner, { name: 'stolen' })
  const body = JSON.stringify({ name: 'another' })
  const headers = {
    ...{ host: '127.0.0.1:7777', authorization: `Bearer ${secret}` },
    ...{ 'content-type': 'application/json', 'content-length': String(body.length) },
  }
  const one = request({ port: base.port, path: `${apiRoot}/tokens`, method: 'POST', agent: false, headers })
  const heard = Promise.withResolvers<void>()
  server.once('request', () => heard.resolve())
  one.write(body.slice(0, -1))
  await heard.promise
  revokeToken(parts, owner, held.id)
  one.end(body.slice(-1))
  const [answer] = (await once(one, 'response')) as [IncomingMessage]
  expect(answer.statusCode).toBe(401)
})

test('a call that carries no images may not be as large as one that does', async () => {
  const raw = JSON.stringify({ name: 'x'.repeat(5 * 1024 * 1024) })
  expect(await codeOf(call('/tokens', { method: 'POST', raw, headers: { 'content-type': 'application/json' } }))).toBe(
    '413 too_large',
  )
})

test('the head of a stream is all that is sent of it', async () => {
  const { id } = await createSession(parts, owner, {})
  const answer = await call(`/sessions/${id}/events`, { method: 'HEAD', headers: { accept: 'text/event-stream' } })
  expect(answer.headers.get('content-type')).toBe('text/event-stream')
  expect(await answer.text()).toBe('')
})
