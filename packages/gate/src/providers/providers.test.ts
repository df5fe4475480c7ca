import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { fakeUpstream } from '../fake-upstream.ts'
import { local, realKey, rehearsal, testGate } from '../test-gate.ts'

const saying =
  (status: number, body: object | string) =>
  (response: ServerResponse): void =>
    void response
      .writeHead(status, { 'content-type': 'application/json' })
      .end(typeof body === 'string' ? body : JSON.stringify(body))
const error = (type: string, message: string) => ({ type: 'error', error: { type, message } })

test.each([
  ['ok', saying(200, { type: 'message', content: [] }), 'answered'],
  ['refused', saying(401, error('authentication_error', 'invalid x-api-key')), 'refused the credential: invalid x-api-key'],
  ['refused', saying(404, error('not_found_error', 'model: nope')), 'refused a call to model "m" (status 404): model: nope'],
  ['ok', saying(429, error('rate_limit_error', 'slow down')), 'is busy now'],
  ['incompatible', saying(404, '<html>not here</html>'), 'does not speak the Anthropic Messages API'],
  ['incompatible', saying(200, { object: 'chat.completion' }), 'does not speak'],
  [
    'incompatible',
    (response: ServerResponse): void => void response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
    'status 307',
  ],
] as const)('testProvider() says %s', async (verdict, answer, words) => {
  await using upstream = await fakeUpstream(answer)
  await using it = await testGate({ provider: rehearsal })
  const said = await it.gate.handle({ do: 'test', provider: local(upstream.url), model: 'm' })
  expect(said).toEqual({ verdict, message: expect.stringContaining(words) })
  expect(JSON.parse(upstream.received[0]!.body)).toMatchObject({ model: 'm', max_tokens: 1 })
  expect(upstream.received[0]!.headers['x-api-key']).toBe(realKey)
})

test('testProvider() says unreachable when nobody listens, and refused when there is no credential', async () => {
  const upstream = await fakeUpstream(saying(200, {}))
  await upstream[Symbol.asyncDispose]()
  await using it = await testGate({ provider: rehearsal })
  expect(await it.gate.handle({ do: 'test', provider: local(upstream.url), model: 'm' })).toEqual({
    verdict: 'unreachable',
    message: `Cannot reach provider "test" at ${upstream.url}: ECONNREFUSED`,
  })
  const none = local(upstream.url, { credential: { from: 'env', name: 'NOT_SET' } })
  expect(await it.gate.handle({ do: 'test', provider: none, model: 'm' })).toMatchObject({
    verdict: 'refused',
    message: expect.stringContaining('NOT_SET'),
  })
})

test('testProvider() finds that the rehearsal provider works', async () => {
  await using it = await testGate({ provider: rehearsal })
  const asked = { do: 'test', provider: rehearsal, model: 'rehearsal-1' } as const
  expect(await it.gate.handle(asked)).toMatchObject({ verdict: 'ok' })
  await it.endRehearsal()
  expect(await it.gate.handle(asked)).toEqual({
    verdict: 'unreachable',
    message: expect.stringMatching(/^The demo model .* is not running: ENOENT\. It is started again .*rehearsal\.log/),
  })
})

test('gate() opens a sealed credential for the provider that it belongs to', async () => {
  await using upstream = await fakeUpstream(saying(200, { type: 'message' }))
  await using it = await testGate({ provider: rehearsal })
  const { box } = (await it.gate.handle({ do: 'seal', plaintext: 'sk-sealed' })) as { box: string }
  expect(box).not.toContain('sk-sealed')
  const provider = local(upstream.url, { credential: { from: 'sealed', box } })
  expect(await it.gate.handle({ do: 'test', provider, model: 'm' })).toMatchObject({ verdict: 'ok' })
  expect(upstream.received[0]!.headers['x-api-key']).toBe('sk-sealed')
})

test.each([
  ['http for a provider that is not local', { kind: 'anthropic' as const, base_url: 'http://api.anthropic.com' }],
  ['a name and a password in the address', { base_url: 'http://user:pass@127.0.0.1:1' }],
  ['a query in the address', { base_url: 'http://127.0.0.1:1/?x=1' }],
  ['another scheme', { base_url: 'file:///etc/passwd' }],
])('upstream() refuses %s', async (_, more) => {
  await using it = await testGate({ provider: rehearsal })
  await expect(it.gate.handle({ ...it.opened, provider: local('http://127.0.0.1:1', more) })).rejects.toMatchObject({
    code: 'provider_unavailable',
  })
})

test('upstream() refuses a credential that would break out of its header', async () => {
  await using upstream = await fakeUpstream(saying(200, { type: 'message' }))
  await using it = await testGate({ provider: rehearsal })
  it.env.TEST_KEY = 'sk-1\r\nx-evil: 1'
  expect(await it.gate.handle({ do: 'test', provider: local(upstream.url), model: 'm' })).toMatchObject({ verdict: 'refused' })
  expect(upstream.received).toEqual([])
})

test('testProvider() shows nobody the credential that a provider says back', async () => {
  await using upstream = await fakeUpstream(saying(401, error('authentication_error', `"${realKey}" is not known`)))
  await using it = await testGate({ provider: rehearsal })
  const said = (await it.gate.handle({ do: 'test', provider: local(upstream.url), model: 'm' })) as { message: string }
  expect(said.message).toContain(`"${'*'.repeat(realKey.length)}" is not known`)
})
