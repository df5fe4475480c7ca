import { addresses, type ApiName, apiAddress } from '@anchorhold/protocol/api/addresses'
import { api } from '@anchorhold/protocol/api/api'
import { type Route } from '@anchorhold/protocol/api/route'
import { failureCodes, type FailureCode } from '@anchorhold/protocol/failures'
import type { SessionId } from '@anchorhold/protocol/ids'
import { mkdirSync, symlinkSync } from 'node:fs'
import { type IncomingHttpHeaders, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Installation, installation, script, until } from './installation.ts'

let it: Installation
beforeAll(async () => {
  it = await installation()
})
afterAll(() => it[Symbol.asyncDispose]())

type Told = {
  readonly status: number
  readonly code: string | undefined
  readonly message: string
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** A call with every header under the test's control. */
function call(
  path: string,
  options: { method?: string; headers?: Record<string, string>; body?: string | Buffer } = {},
): Promise<Told> {
  const { hostname, port } = new URL(it.url)
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { hostname, port, path, method: options.method ?? 'GET', headers: options.headers, agent: false },
      (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => (text += part))
        response.on('end', () => {
          let error: { code?: string; message?: string } | undefined
          try {
            error = (JSON.parse(text) as { error?: typeof error }).error
          } catch {}
          const { statusCode, headers } = response
          resolve({ status: statusCode ?? 0, code: error?.code, message: error?.message ?? '', headers, text })
        })
      },
    )
    request.on('error', reject)
    request.end(options.body)
  })
}
/** Writes these bytes to the door, and gives the beginning of its answer. */
function spoken(bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(it.url).port), '127.0.0.1', () => socket.write(bytes))
    socket.setEncoding('utf8').once('data', (part: string) => {
      socket.destroy()
      resolve(part)
    })
    socket.on('error', reject)
  })
}
const bearer = (token = it.token) => ({ authorization: `Bearer ${token}` })
const post = (path: string, body: unknown, headers: Record<string, string> = bearer()) =>
  call(`/api/v1${path}`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const refusal = (code: FailureCode) => ({ code, status: failureCodes[code].status })
const nobody = 'ses_0000000000000000' as SessionId

const apiNames = Object.keys(addresses) as ApiName[]

describe('who asks', () => {
  const sample = (path: string) =>
    path
      .replace('/requests/:id', '/requests/req_0000000000000000')
      .replace('/tokens/:id', '/tokens/tok_0000000000000000')
      .replace(':id', nobody)
      .replace(':name', 'anthropic')
  const guarded = apiNames.filter((name) => (api[name] as Route).open !== true)

  test.each(guarded)('%s without a token, with a wrong one or an empty one is 401', async (name) => {
    const { method, path: pattern } = apiAddress(name)
    const path = `/api/v1${sample(pattern)}`
    for (const headers of [
      {},
      { authorization: 'Bearer ' },
      { authorization: 'Bearer anchor_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
      { authorization: `Basic ${Buffer.from(`x:${it.token}`).toString('base64')}` },
      { cookie: 'anchorhold=' },
      { cookie: `anchorhold=${it.token}` },
    ] as Record<string, string>[]) {
      expect(await call(path, { method, headers })).toMatchObject(refusal('unauthenticated'))
    }
  })

  test('the description of the API is for those who are logged in, and has every route', async () => {
    expect(await call('/api/v1/openapi.json')).toMatchObject(refusal('unauthenticated'))
    const document = JSON.parse((await call('/api/v1/openapi.json', { headers: bearer() })).text) as {
      openapi: string
      info: { title: string; version: string }
      paths: Record<
        string,
        Record<string, { summary: string; responses: Record<string, unknown>; parameters?: { name: string; in: string }[] }>
      >
    }
    expect(document.openapi).toMatch(/^3\.1\./)
    expect(document.info.version).toBe((await it.api.status()).version)
    for (const one of apiNames) {
      const { method, path } = apiAddress(one)
      const operation = document.paths[`/api/v1${path.replaceAll(/:(\w+)/g, '{$1}')}`]?.[method.toLowerCase()]
      expect(operation, `${method} ${path}`).toMatchObject({ summary: api[one].summary })
      expect(Object.keys(operation?.responses ?? {})).toContain(String(api[one].status))
      for (const [, name] of path.matchAll(/:(\w+)/g))
        expect(operation?.parameters).toContainEqual(expect.objectContaining({ name, in: 'path' }))
    }
    // Every reference leads somewhere.
    const whole = JSON.stringify(document)
    for (const [, place] of whole.matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      const target = place!
        .split('/')
        .reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], document)
      expect(target, place).toBeDefined()
    }
  })

  test('a token that is revoked or has expired is refused', async () => {
    const made = await it.cli(['token', 'add', 'a program'])
    const secret = made.out.trim()
    expect(await call('/api/v1/health', { headers: bearer(secret) })).toMatchObject({ status: 200 })
    const { tokens } = await it.api.listTokens()
    const { id } = tokens.find(({ name }) => name === 'a program')!
    expect(await it.cli(['token', 'ls'])).toMatchObject({ code: 0, out: expect.stringContaining(id) as string })
    expect(await it.cli(['token', 'revoke', id])).toMatchObject({ code: 0 })
    expect(await call('/api/v1/health', { headers: bearer(secret) })).toMatchObject(refusal('unauthenticated'))
    expect(await it.cli(['token', 'revoke', id])).toMatchObject({
      code: 1,
      err: expect.stringContaining('There is no token') as string,
    })

    const short = await it.api.createToken({ body: { name: 'for a day', days: 1 } })
    expect(await call('/api/v1/health', { headers: bearer(short.secret) })).toMatchObject({ status: 200 })
    using database = new DatabaseSync(join(it.state, 'anchorhold.db'))
    database.exec('pragma busy_timeout = 5000')
    database.prepare('update token set expires_at = ? where id = ?').run(Date.now() - 1, short.token.id)
    expect(await call('/api/v1/health', { headers: bearer(short.secret) })).toMatchObject(refusal('unauthenticated'))
  })

  test('a login link works once; its cookie is no bearer token, and logging out ends it', async () => {
    const { out } = await it.cli(['login-link'])
    expect(out).toMatch(/^http:\/\/localhost:\d+\/#login=anchor_[\w-]{43}\n$/)
    const secret = out.trim().split('#login=')[1]!
    // The secret of a link is neither a token nor a cookie.
    expect(await call('/api/v1/health', { headers: bearer(secret) })).toMatchObject(refusal('unauthenticated'))
    expect(await call('/api/v1/health', { headers: { cookie: `anchorhold=${secret}` } })).toMatchObject(
      refusal('unauthenticated'),
    )
    const tries = await Promise.all(Array.from({ length: 5 }, () => post('/login', { secret }, {})))
    expect(tries.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 401, 401, 401, 401])
    const set = tries.find(({ status }) => status === 200)!.headers['set-cookie']![0]!
    expect(set).toMatch(/^anchorhold=anchor_[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+$/)
    const cookie = set.split(';')[0]!
    expect(await call('/api/v1/sessions', { headers: { cookie: `other=1; ${cookie}` } })).toMatchObject({ status: 200 })
    expect(await call('/api/v1/sessions', { headers: bearer(cookie.split('=')[1]) })).toMatchObject(refusal('unauthenticated'))
    expect(await post('/logout', undefined, { cookie })).toMatchObject(refusal('foreign_origin'))
    expect(await post('/logout', undefined, { cookie, origin: it.url })).toMatchObject({ status: 200 })
    expect(await call('/api/v1/sessions', { headers: { cookie } })).toMatchObject(refusal('unauthenticated'))
    expect(await post('/login', { secret: 'x' }, {})).toMatchObject(refusal('unauthenticated'))
  })
})

describe('where the request comes from', () => {
  test.each([
    'evil.example',
    'evil.example:7777',
    'localhost',
    'localhost.evil.example',
    '127.0.0.1',
    '0.0.0.0:PORT',
    'localhost:1',
  ])('a Host of %j is refused, also with a token (DNS rebinding)', async (host) => {
    const headers = { ...bearer(), host: host.replace('PORT', new URL(it.url).port) }
    for (const path of ['/', '/api/v1/health', '/api/v1/openapi.json', '/service-worker.js'])
      expect(await call(path, { headers })).toMatchObject(refusal('foreign_host'))
    expect(await call('/api/v1/panic', { method: 'POST', headers })).toMatchObject(refusal('foreign_host'))
  })
  test('a request without a Host, or with an empty one, is refused', async () => {
    expect(await spoken('GET /api/v1/health HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 40[03] /)
    expect(await spoken('GET /api/v1/health HTTP/1.1\r\nhost: \r\n\r\n')).toMatch(/^HTTP\/1\.1 40[03] /)
  })
  test.each(['localhost', '127.0.0.1', '[::1]', 'LOCALHOST'])('a Host of %s with the port is the daemon itself', async (name) => {
    const host = `${name}:${new URL(it.url).port}`
    expect(await call('/api/v1/health', { headers: { ...bearer(), host } })).toMatchObject({ status: 200 })
  })

  test.each(['http://evil.example', 'null', 'http://localhost', 'https://localhost:PORT', 'http://localhost:1', 'file://'])(
    'an Origin of %s is refused, and gets no word of CORS',
    async (origin) => {
      const headers = { ...bearer(), origin: origin.replace('PORT', new URL(it.url).port) }
      for (const method of ['GET', 'OPTIONS']) {
        const told = await call('/api/v1/sessions', { method, headers })
        expect(told).toMatchObject(refusal('foreign_origin'))
        expect(Object.keys(told.headers).filter((name) => name.startsWith('access-control-'))).toEqual([])
      }
      expect(await post('/panic', undefined, headers)).toMatchObject(refusal('foreign_origin'))
    },
  )
  test('what a browser marks as cross-site is refused, but a link to the page is not', async () => {
    const headers = { ...bearer(), 'sec-fetch-site': 'cross-site' }
    expect(await call('/api/v1/sessions', { headers: { ...headers, 'sec-fetch-mode': 'no-cors' } })).toMatchObject(
      refusal('foreign_origin'),
    )
    expect(await call('/api/v1/panic', { method: 'POST', headers: { ...headers, 'sec-fetch-mode': 'navigate' } })).toMatchObject(
      refusal('foreign_origin'),
    )
    expect(await call('/', { headers: { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' } })).toMatchObject({
      status: 200,
    })
    const own = { ...bearer(), origin: it.url, 'sec-fetch-site': 'same-origin' }
    expect(await call('/api/v1/sessions', { headers: own })).toMatchObject({ status: 200 })
  })

  test.each(['/', '/inbox', '/service-worker.js', '/icon.svg', '/api/v1/health', '/nothing'])(
    '%s comes with security headers',
    async (path) => {
      const { headers, text } = await call(path, { headers: bearer() })
      expect(headers['content-security-policy']).toContain("default-src 'none'")
      expect(headers['content-security-policy']).toContain("frame-ancestors 'none'")
      expect(headers['content-security-policy']).not.toContain('unsafe')
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'x-frame-options': 'DENY',
      })
      expect(headers['permissions-policy']).toContain('camera=()')
      expect(headers['access-control-allow-origin']).toBeUndefined()
      expect(text).not.toContain(it.token)
    },
  )
})

describe('what is sent', () => {
  test('a body that is too large, malformed or of another type is refused', async () => {
    const json = { ...bearer(), 'content-type': 'application/json' }
    const at = '/api/v1/sessions'
    expect(
      await call(at, { method: 'POST', headers: { ...json, 'content-length': String(200 * 1024 * 1024) }, body: '{' }).catch(
        (error: NodeJS.ErrnoException) => error.code,
      ),
    ).toMatchObject(refusal('too_large'))
    expect(await call(at, { method: 'POST', headers: json, body: '{"name": ' })).toMatchObject(refusal('bad_request'))
    expect(await call(at, { method: 'POST', headers: json, body: Buffer.from([0x7b, 0xff, 0xfe]) })).toMatchObject(
      refusal('bad_request'),
    )
    expect(await call(at, { method: 'POST', headers: json, body: '' })).toMatchObject(refusal('bad_request'))
    expect(await call(at, { method: 'POST', headers: json, body: '[]' })).toMatchObject(refusal('bad_request'))
    expect(await call(at, { method: 'POST', headers: json, body: 'null' })).toMatchObject(refusal('bad_request'))
    expect(await call(at, { method: 'POST', headers: { ...bearer(), 'content-type': 'text/plain' }, body: '{}' })).toMatchObject(
      refusal('bad_request'),
    )
    expect(
      await call(at, {
        method: 'POST',
        headers: { ...bearer(), 'content-type': 'application/x-www-form-urlencoded' },
        body: 'a=b',
      }),
    ).toMatchObject(refusal('bad_request'))
    expect(await call(at, { method: 'POST', headers: json, body: '['.repeat(200_000) })).toMatchObject(refusal('bad_request'))
  })
  test('a body of someone unknown is refused before it has come', async () => {
    // The rest of the body never comes: an answer shows that nobody waited for it.
    const head = `POST /api/v1/sessions HTTP/1.1\r\nhost: localhost:${new URL(it.url).port}\r\ncontent-type: application/json\r\n`
    expect(await spoken(`${head}transfer-encoding: chunked\r\n\r\n1\r\n{\r\n`)).toMatch(/^HTTP\/1\.1 401 /)
    expect(await spoken(`${head}content-length: 1000\r\n\r\n{`)).toMatch(/^HTTP\/1\.1 401 /)
    expect(await post('/login', { secret: 'x'.repeat(20_000) }, {})).toMatchObject(refusal('too_large'))
  })

  test.each([
    ['an unknown field', { nmae: 'x' }],
    ['a prompt that is only a word', { prompt: 'hi' }],
    ['an empty prompt', { prompt: { text: '' } }],
    ['a prompt with an unknown field', { prompt: { text: 'x', mode: 'steer' } }],
    ['a prompt that is too long', { prompt: { text: 'x'.repeat(1_000_001) } }],
    ['an image that is no base64', { prompt: { text: 'x', images: [{ media_type: 'image/png', data: '%%%' }] } }],
    ['an image of another type', { prompt: { text: 'x', images: [{ media_type: 'image/svg+xml', data: 'AAAA' }] } }],
    ['a negative budget', { budget_micros: -1 }],
    ['a budget with a fraction', { budget_micros: 0.5 }],
    ['a budget beyond whole numbers', { budget_micros: 1e300 }],
    ['a rung that there is not', { rung: 'steel' }],
    ['a timeout too short', { timeout_ms: 1 }],
    ['a model with spaces', { model: 'a b' }],
    ['a model that looks like an option', { model: '--dangerously-skip-permissions' }],
    ['a tool with a rule in it', { tools: ['Bash(rm:*)'] }],
    ['a toolchain with a path', { toolchains: ['../../etc'] }],
    ['a pattern that nothing fits', { repo_filter: { denylist: ['['] } }],
    ['a name that is too long', { name: 'x'.repeat(201) }],
    ['a name that is empty', { name: '   ' }],
    ['a prototype', JSON.parse('{"__proto__": {"rung": "none"}}') as object],
    ['a key that is too long', { idempotency_key: 'x'.repeat(201) }],
  ])('POST /sessions refuses %s', async (_, body) => {
    expect(await post('/sessions', body)).toMatchObject(refusal('bad_request'))
  })

  test('unknown and malformed ids, numbers and words are refused, each as what it is', async () => {
    const get = (path: string) => call(`/api/v1${path}`, { headers: bearer() })
    for (const path of [
      `/sessions/${nobody}`,
      `/sessions/${nobody}/events`,
      '/requests/req_0000000000000000',
      `/usage?session=${nobody}`,
    ])
      expect(await get(path), path).toMatchObject(refusal('not_found'))
    expect(await post(`/sessions/${nobody}/prompts`, { text: 'x' })).toMatchObject(refusal('not_found'))
    expect(await post(`/sessions/${nobody}/purge`, { confirm: nobody })).toMatchObject(refusal('not_found'))
    for (const verb of ['interrupt', 'pause', 'resume', 'stop', 'start', 'fork', 'archive'])
      expect(await post(`/sessions/${nobody}/${verb}`, {}), verb).toMatchObject(refusal('not_found'))
    expect(await post('/requests/req_0000000000000000/answer', { decision: 'allow' })).toMatchObject(refusal('not_found'))
    expect(await post('/requests/req_0000000000000000/answer', { decision: 'withdrawn' })).toMatchObject(refusal('bad_request'))
    expect(await call('/api/v1/tokens/tok_0000000000000000', { method: 'DELETE', headers: bearer() })).toMatchObject(
      refusal('not_found'),
    )
    expect(await call('/api/v1/providers/nothing', { method: 'DELETE', headers: bearer() })).toMatchObject(refusal('not_found'))
    expect(await post('/providers/nothing/test', undefined)).toMatchObject(refusal('provider_unavailable'))
    expect(await post('/sessions', { provider: 'nothing' })).toMatchObject(refusal('provider_unavailable'))
    for (const id of [
      'x',
      'ses_',
      'SES_0000000000000000',
      `${nobody}0`,
      'ses_000000000000000%00',
      'tok_0000000000000000',
      'ses_000000000000000\u0131',
      '..%2f..%2fetc',
    ])
      expect(await get(`/sessions/${encodeURI(id).replaceAll('%25', '%')}`), id).toMatchObject({ status: 400 })
    for (const path of [
      `/sessions/${nobody}/events?after=-1`,
      `/sessions/${nobody}/events?limit=0`,
      `/sessions/${nobody}/events?limit=100000`,
      '/events?after=1e99',
      '/events?after=x',
      '/sessions?state=asleep',
      '/sessions?unknown=1',
      '/search',
      '/search?q=',
      `/search?q=${'x'.repeat(501)}`,
    ])
      expect(await get(path), path).toMatchObject(refusal('bad_request'))
    // Words that the search engine has a meaning for are only words.
    for (const q of ['"', '*', 'a"b', 'NEAR(', 'a AND', 'text:', '^x', '-', '%', ' ', '\0', '(((', "'", '{', 'a OR "b'])
      expect(await get(`/search?q=${encodeURIComponent(q)}`), JSON.stringify(q)).toMatchObject({ status: 200 })
  })

  test.each([
    '/api/v1/../v1/health',
    '/api/v1/..%2f..%2f..%2fetc/passwd',
    '/../../etc/passwd',
    '/%2e%2e/%2e%2e/etc/passwd',
    '//etc/passwd',
    '/assets/../../package.json',
    '/assets/..%2f..%2fcli.mjs',
    '/.vite/manifest.json',
    '/.git/config',
    '/api/v1/sessions/%00',
    '/api/v1/sessions/%',
    '/api/v1/sessions/%ff',
    '/index.html',
    '/api/v2/health',
    '/api/v1',
    `/api/v1/${'x/'.repeat(2000)}`,
  ])('the path %s leads to nothing', async (path) => {
    const told = await call(path)
    expect([400, 401, 404, 431]).toContain(told.status)
    expect(told.text).not.toMatch(/root:|\[core\]|"workspaces"/)
    const known = await call(path, { headers: bearer() })
    expect(known.status, known.text).toBeLessThan(500)
  })

  test('a path in `workspace` that is not a plain folder of the owner is refused in words', async () => {
    const base = it.workspace({ 'a-file': 'x' })
    mkdirSync(join(base, 'inner'))
    symlinkSync('/etc', join(base, 'to-etc'))
    symlinkSync('/', join(base, 'to-root'))
    symlinkSync(it.state, join(base, 'to-state'))
    symlinkSync(homedir(), join(base, 'to-home'))
    symlinkSync(join(base, 'loop'), join(base, 'loop'))
    const refused = {
      inner: 'not an absolute path',
      '../../../etc': 'not an absolute path',
      '/': 'the whole file system',
      '//': 'the whole file system',
      '/etc': 'belongs to the system',
      '/etc/../usr': 'belongs to the system',
      [`${base}/../../../etc`]: '',
      [`${base}/to-etc`]: 'belongs to the system',
      [`${base}/to-etc/ssl`]: '',
      [`${base}/to-root`]: 'the whole file system',
      [`${base}/to-root/proc/1/root`]: '',
      [`${base}/to-state`]: '',
      [`${base}/to-home`]: '',
      [`${base}/loop`]: 'there is no such folder',
      [`${base}/nowhere`]: 'there is no such folder',
      [`${base}/a-file`]: 'it is not a folder',
      [`${base}/inner\0/x`]: 'not an absolute path',
      [homedir()]: '',
      [it.state]: 'belongs to Anchorhold itself',
      [`${it.state}/sessions`]: 'belongs to Anchorhold itself',
      [join(it.state, '..')]: 'contains what Anchorhold keeps for itself',
      '/proc/self/cwd': '',
      '/tmp': 'folders of the system or of all users',
      '/dev/shm': 'belongs to the system',
    }
    for (const [path, why] of Object.entries(refused)) {
      const told = await post('/sessions', { workspace: path })
      expect(told, path).toMatchObject(refusal('workspace_refused'))
      expect(told.message).toContain('Cannot use "')
      expect(told.message, path).toContain(why)
    }
    expect((await it.api.listSessions()).sessions).toEqual([])
    const told = await it.cli(['run', '--workspace', join(base, 'to-etc'), 'say hello'])
    expect(told).toMatchObject({
      code: 2,
      err: expect.stringContaining('to-etc" as workspace: it leads to "/etc": it belongs') as string,
    })
  })
})

describe('sent twice', () => {
  test('a hundred creates with one key make one session; another body is a conflict', async () => {
    const body = { name: 'once', idempotency_key: 'k1' }
    const made = await Promise.all(Array.from({ length: 100 }, () => it.api.createSession({ body })))
    expect(new Set(made.map(({ id }) => id)).size).toBe(1)
    const { sessions } = await it.api.listSessions()
    expect(sessions.filter(({ name }) => name === 'once')).toHaveLength(1)
    expect(await post('/sessions', { ...body, name: 'twice' })).toMatchObject(refusal('conflict'))
    await it.api.archive({ params: { id: made[0]!.id } })
  })
  test('a prompt with one key is taken once; another text is a conflict', async () => {
    const { id } = await it.api.createSession({ body: {} })
    const body = { text: 'say once', idempotency_key: 'p1' }
    const receipts = await Promise.all(Array.from({ length: 50 }, () => it.api.prompt({ params: { id }, body })))
    expect(new Set(receipts.map((one) => one.id)).size).toBe(1)
    await it.event(id, 0, ({ type }) => type === 'turn.ended')
    expect(await it.cli(['send', '--detach', '--key', 'p1', id, 'say once'])).toMatchObject({
      code: 0,
      out: `${receipts[0]!.id}\n`,
    })
    expect(await post(`/sessions/${id}/prompts`, { ...body, text: 'say twice' })).toMatchObject(refusal('conflict'))
    const log = await it.log(id)
    expect(log.filter(({ type }) => type === 'prompt')).toHaveLength(1)
    expect(log.filter(({ type }) => type === 'turn.started')).toHaveLength(1)
    await it.api.archive({ params: { id } })
  })
})

/** Reads a stream of events until enough have come, and lets go of it. */
async function streamed(
  path: string,
  enough: (ids: readonly number[], text: string) => boolean,
  headers: Record<string, string> = {},
): Promise<{ ids: number[]; text: string }> {
  const end = new AbortController()
  const response = await it.raw(path, { headers: { ...bearer(), accept: 'text/event-stream', ...headers }, signal: end.signal })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  let text = ''
  const ids = () => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))
  const decoder = new TextDecoder()
  for await (const chunk of response.body!) {
    text += decoder.decode(chunk, { stream: true })
    if (text.endsWith('\n\n') && enough(ids(), text)) break
  }
  end.abort()
  return { ids: ids(), text }
}

describe('the streams', () => {
  test('Last-Event-ID goes on without a gap or a repeat, wherever it was cut', async () => {
    const { session, events } = await it.run('use 3 tools in a row')
    const all = events.map(({ seq }) => seq)
    const seen: number[] = []
    while (seen.length < all.length) {
      const last = seen.at(-1)
      const part = await streamed(
        `/api/v1/sessions/${session.id}/events`,
        (ids) => ids.length > 0,
        last === undefined ? {} : { 'last-event-id': String(last) },
      )
      // A part may end with several: the client has seen what it has read.
      seen.push(part.ids[0]!)
    }
    expect(seen).toEqual(all)
    const fromQuery = await streamed(`/api/v1/sessions/${session.id}/events?after=5`, (ids) => ids.length === all.length - 5)
    expect(fromQuery.ids).toEqual(all.slice(5))
    expect(
      (await it.api.sessionEvents({ params: { id: session.id }, query: { before: 6, limit: 3 } })).events.map(({ seq }) => seq),
    ).toEqual([3, 4, 5])
  })

  test('GET /events has the events of all sessions by position, as pages and as a stream', async () => {
    const [one, two] = await Promise.all([it.run('say one'), it.run('say two')])
    const pages: number[] = []
    for (let after = 0; ;) {
      const page = await it.api.events({ query: { after, limit: 7 } })
      pages.push(...page.events.map(({ pos }) => pos))
      after = pages.at(-1)!
      if (!page.more) break
    }
    expect(pages).toEqual([...new Set(pages)].sort((a, b) => a - b))
    const { ids, text } = await streamed('/api/v1/events', (got) => got.length >= pages.length)
    expect(ids.slice(0, pages.length)).toEqual(pages)
    for (const { session } of [one, two]) expect(text).toContain(`"session":"${session.id}"`)
  })

  test('a position is never given twice: who follows all sessions misses nothing when one is purged', async () => {
    const { session } = await it.run('say nothing of note')
    const { id } = session
    await it.api.archive({ params: { id } })
    const newest = async () => (await it.api.events({ query: { before: Number.MAX_SAFE_INTEGER, limit: 1 } })).events[0]!.pos
    const seen = await newest()
    await it.api.purgeSession({ params: { id }, body: { confirm: id } })
    const { id: next } = await it.api.createSession({ body: { name: 'the next one' } })
    const { events } = await it.api.events({ query: { after: seen } })
    expect(events[0]).toMatchObject({ session: next, type: 'session.created' })
    expect(JSON.stringify(await it.api.search({ query: { q: 'the next one' } }))).toContain(next)
  })

  test('revoking a token ends the streams that were opened with it, and no others', async () => {
    const { id } = await it.api.createSession({ body: {} })
    const { token, secret } = await it.api.createToken({ body: { name: 'watcher' } })
    const open = (headers: Record<string, string>, path: string) =>
      it.raw(path, { headers: { accept: 'text/event-stream', ...headers } })
    const [mine, all, other] = await Promise.all([
      open(bearer(secret), `/api/v1/sessions/${id}/events`),
      open(bearer(secret), '/api/v1/events'),
      open(bearer(), `/api/v1/sessions/${id}/events`),
    ])
    await it.api.revokeToken({ params: { id: token.id } })
    // Each of these ends only when its stream does, in good order or with its connection.
    await Promise.allSettled([mine.text(), all.text()])
    await it.api.changeSession({ params: { id }, body: { name: 'still watched' } })
    let text = ''
    for await (const chunk of other.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk
      if (text.includes('still watched')) break
    }
    expect(text).toContain('still watched')
  })

  test('clients that read nothing, or go away in the middle, do no harm', async () => {
    const { session } = await it.run('say 2000 words')
    const { hostname, port } = new URL(it.url)
    const path = `/api/v1/sessions/${session.id}/events`
    const idle = await Promise.all(
      Array.from(
        { length: 20 },
        (_, index) =>
          new Promise<ReturnType<typeof connect>>((resolve) => {
            const socket = connect(Number(port), hostname, () => {
              socket.pause()
              socket.write(
                `GET ${path} HTTP/1.1\r\nhost: localhost:${port}\r\nauthorization: Bearer ${it.token}\r\naccept: text/event-stream\r\n\r\n`,
              )
              if (index % 2 === 0) socket.destroy()
              resolve(socket)
            })
            socket.on('error', () => {})
          }),
      ),
    )
    // Half of a request, and half of a body.
    for (const half of [
      `POST /api/v1/sessions HTTP/1.1\r\nhost: loc`,
      `POST /api/v1/sessions HTTP/1.1\r\nhost: localhost:${port}\r\nauthorization: Bearer ${it.token}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"na`,
    ]) {
      const socket = connect(Number(port), hostname, () => socket.end(half))
      socket.on('error', () => {}).resume()
    }
    const { session: after } = await it.run('say still here')
    expect(after).toMatchObject({ state: 'ready', turns: 1 })
    for (const socket of idle) socket.destroy()
    expect(await it.api.health()).toEqual({ ok: true, gate: true, store: true })
  })
})

test('hostile text from an agent comes out printable wherever the command line shows it', async () => {
  const hostile = '\u001b[31mred\u001b]0;title\u0007\u001b[2J \u202Eevil\u202C back\rover \u0008\u009b5m \u200bzero canary-7'
  const steps = script(
    [
      { text: hostile },
      {
        tool_use: 'Bash',
        input: { command: `printf '%s\\n' "$(printf '\\033[41m tool-canary \\342\\200\\256 \\r x')"`, description: hostile },
      },
    ],
    [
      {
        tool_use: 'AskUserQuestion',
        input: {
          questions: [
            {
              question: `${hostile}?`,
              header: 'h\u001b[1m',
              multiSelect: false,
              options: [
                { label: `yes${hostile}`, description: hostile },
                { label: 'no', description: 'no' },
              ],
            },
          ],
        },
      },
    ],
    [{ text: `end ${hostile}` }],
  )
  const running = it.start(['run', '--name', `name ${hostile}`, steps])
  const request = await until(async () => (await it.api.listRequests()).requests[0])
  const requests = await it.cli(['requests'])
  expect(requests.out).toContain('canary-7')
  const shown = [requests.out]
  expect(await it.cli(['allow', request.id, '--answer', '1'])).toMatchObject({ code: 0 })
  const ran = await running.ended
  expect(ran).toMatchObject({ code: 0 })
  expect(ran.out).toContain('tool-canary')
  expect(ran.out).toContain('end ␛[31mred')
  shown.push(ran.out, ran.err)
  for (const args of [['show', '--limit', '100', 'last'], ['search', 'canary'], ['ls'], ['requests', '--all'], ['usage']]) {
    const { code, out, err } = await it.cli(args)
    expect(code, args.join(' ')).toBe(0)
    shown.push(out, err)
  }
  expect(shown.join('')).toContain('canary-7')
  for (const text of shown) {
    // oxlint-disable-next-line no-control-regex
    expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/)
  }
})
