import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { kill } from './asking.ts'
import { type Installation, installation, outputsOf, script } from './installation.ts'

const words = 'A page that is read on our side of the wall. '.repeat(10)
const server = createServer((asked, response) => {
  if (asked.url === '/old') return void response.writeHead(302, { location: '/page' }).end()
  if (asked.url === '/out') return void response.writeHead(302, { location: 'http://169.254.169.254/secret' }).end()
  if (asked.url === '/picture') return void response.writeHead(200, { 'content-type': 'image/png' }).end('\u0089PNG')
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
  response.end(`<title>The page</title><script>evil()</script><h1>Hello</h1><p>${words}</p><a href="/next">next</a>`)
})
const place = () => `127.0.0.1:${(server.address() as AddressInfo).port}`

let it: Installation
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const rules = [
    `  - { on: net, match: { host: 127.0.0.1, port: ${port} }, effect: allow, own_network: true }`,
    '  - { on: net, match: { host: denied.example }, effect: deny, why: not from here }',
  ]
  it = await installation({ policy: `rules:\n${rules.join('\n')}\n` })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  server.closeAllConnections()
  server.close()
})

const use = (name: 'web_fetch' | 'request_access', input: object) => ({ tool_use: `mcp__anchorhold__${name}`, input })
const opened = async (id: SessionId, after = 0) =>
  (await it.event(id, after, ({ type }) => type === 'request.opened')) as Event & { type: 'request.opened' }

test('web_fetch gives title, final URL and text of a page, and says what it may not or cannot read', async () => {
  const reads = ['/old', '/out', '/picture'].map((path) => use('web_fetch', { url: `http://${place()}${path}` }))
  const others = ['http://denied.example/x', 'http://127.0.0.1:1/', 'file:///etc/passwd'].map((url) => use('web_fetch', { url }))
  // Nobody is asked about the tool, however little freedom the agent has: where it leads is what is judged.
  const { events, session } = await it.run(script(...reads, ...others, { text: 'done' }), { autonomy: 'supervised' })
  const [page, out, picture, denied, own, file] = events.flatMap((event) => (event.type === 'tool.finished' ? [event.body] : []))
  expect(page).toMatchObject({ failed: false })
  expect(page!.output).toContain(`{"url":"http://${place()}/page","status":200,"title":"The page","truncated":false}`)
  expect(page!.output).toContain(`# Hello\n\n${words.trim()}`)
  expect(page!.output).toContain(`[next](http://${place()}/next)`)
  expect(page!.output).not.toContain('evil')
  expect(out!.output).toContain('no cell is led to')
  expect(picture!.output).toContain('no text: it is image/png')
  expect(denied!.output).toContain('not from here')
  expect(denied!.output).toContain('request_access')
  expect(own!.output).toContain('no cell is led to')
  expect(file!.output).toContain('only http:// and https://')
  expect([out, picture, denied, own, file].every((one) => one!.failed)).toBe(true)
  expect(events.filter(({ type }) => type === 'request.opened')).toEqual([])
  const net = (await it.log(session.id)).flatMap((event) => (event.type === 'net' ? [event.body] : []))
  expect(net.find(({ host }) => host === '127.0.0.1')).toMatchObject({ connections: 4 })
})

test('request_access waits for a person, whose answer is for the call that follows', async () => {
  const ask = use('request_access', {
    host: 'unheard-of.invalid',
    port: 80,
    method: 'GET',
    path: '/',
    why: 'to look at ”it”\nnow',
  })
  const call = { tool_use: 'Bash', input: { command: 'for i in 1 2; do curl -sm 3 http://unheard-of.invalid/; done' } }
  const { id } = await it.api.createSession({ body: { prompt: { text: script(ask, call, { text: 'done' }) } } })
  const { body, seq } = await opened(id)
  expect(body.action).toEqual({ kind: 'net', host: 'unheard-of.invalid', port: 80, method: 'GET', path: '/' })
  expect(body.why).toContain('no rule covers it. The agent says: “to look at "it"␊now”')
  await it.api.answerRequest({ params: { id: body.id }, body: { decision: 'allow' } })
  // Allowed once, and one call was made by it: the second is asked for anew.
  const again = await opened(id, seq)
  expect(again.body.digest).toBe(body.digest)
  await it.api.answerRequest({ params: { id: again.body.id }, body: { decision: 'deny', reason: 'once is enough' } })
  await it.event(id, 0, ({ type }) => type === 'turn.ended')
  const log = await it.log(id)
  expect(outputsOf(log)).toContain(`Allowed: ${body.id} allowed by`)
  expect(log.flatMap((event) => (event.type === 'grant.used' ? [event.body.request] : []))).toEqual([body.id])
})

test('what is denied is told with its reason, also when the daemon was away in between', async () => {
  const ask = use('request_access', { host: 'unheard-of.invalid', why: 'to look' })
  const { id } = await it.api.createSession({ body: { prompt: { text: script(ask, { text: 'done' }) } } })
  const { body } = await opened(id)
  expect(body.action).toEqual({ kind: 'net', host: 'unheard-of.invalid', port: 443, method: null, path: null })
  await kill(it, 'daemon')
  await it.api.answerRequest({ params: { id: body.id }, body: { decision: 'deny', reason: 'not on a Sunday' } })
  await it.event(id, 0, ({ type }) => type === 'turn.ended')
  expect(outputsOf(await it.log(id))).toMatch(/Denied: .* denied it: not on a Sunday/)
  const denied = use('request_access', { host: 'denied.example', why: 'to look' })
  const never = use('request_access', { host: '169.254.169.254', port: 80, why: 'to look' })
  const said = outputsOf(await it.turn(id, script(denied, never, { text: 'done' })))
  expect(said).toContain('not from here')
  expect(said).toContain('no cell is led to')
})

test('a request for access that waits while the turn is parked is told to the agent when it is answered', async () => {
  await using other = await installation({ policy: 'park_after_seconds: 2\n' })
  const ask = use('request_access', { host: 'unheard-of.invalid', why: 'to look' })
  const { id } = await other.api.createSession({ body: { prompt: { text: script(ask, { text: 'done' }) } } })
  const ended = await other.event(id, 0, ({ type }) => type === 'turn.ended')
  expect(ended.body).toMatchObject({ reason: 'waiting' })
  const [request] = (await other.log(id)).flatMap((event) => (event.type === 'request.opened' ? [event.body] : []))
  await other.event(id, 0, ({ type }) => type === 'keeper.left')
  await other.api.answerRequest({ params: { id: request!.id }, body: { decision: 'allow' } })
  const told = await other.event(id, ended.seq, ({ type }) => type === 'prompt')
  expect(told.body).toMatchObject({ text: expect.stringContaining('allowed your call to unheard-of.invalid:443') as unknown })
})

test('without a net window there are no such tools, and the agent’s own WebFetch is never one', async () => {
  const ask = use('web_fetch', { url: `http://${place()}/page` })
  const { events } = await it.run(script(ask, { text: 'done' }), { network: 'none' })
  expect(outputsOf(events)).toMatch(/No such tool|not available|no network/i)
  const own = { tool_use: 'WebFetch', input: { url: `http://${place()}/page`, prompt: 'read' } }
  const named = await it.run(script(own, { text: 'done' }), { tools: ['Bash', 'WebFetch'] })
  expect(outputsOf(named.events)).toMatch(/No such tool|not available/i)
})
