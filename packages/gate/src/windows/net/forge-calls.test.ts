import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { listener, testNet } from './test-net.ts'

const mine = {
  host: 'forge.example',
  api: 'api.forge.example',
  repo: 'me/it',
  push: { branches: ['agent/*'], tags: [], deletes: false },
}
const allow = ['api.forge.example', 'api.github.com', 'elsewhere.example']
/** Answers with what it was sent. */
const mirror = () => listener(createServer((asked, response) => void text(asked).then((body) => response.end(body))))
const setUp = (upstream: number, refuse: (path: string) => boolean = () => false) =>
  testNet({
    upstream,
    allow,
    net: { forges: { 'forge.example': mine } },
    judge: async ({ path }) => (refuse(path ?? '') ? { allow: false, why: 'no rule covers it' } : { allow: true }),
  })
const json = { 'content-type': 'application/json; charset=utf-8' }
const post = (query: string, headers: Record<string, string> = json) => ({
  method: 'POST',
  headers,
  body: JSON.stringify({ query }),
})

test('screenForge() has a query judged by its path, and a change by one of its own; both go on as they were sent', async () => {
  await using server = await mirror()
  await using net = await setUp(server.port)
  const large = `mutation { createPullRequest(input: { body: "${'x'.repeat(300_000)}" }) { id } }`
  for (const host of ['api.forge.example', 'api.github.com'])
    for (const query of ['query { viewer { login } }', large])
      expect((await net.get(`http://${host}/graphql`, post(query))).body).toBe(JSON.stringify({ query }))
  expect(net.judged.map(({ path }) => path)).toEqual([
    ...['/graphql', '/graphql/mutation/createPullRequest', '/graphql', '/graphql/mutation/createPullRequest'],
  ])
})

test('screenForge() keeps a change from a session whose rules allow queries', async () => {
  await using server = await mirror()
  await using net = await setUp(server.port, (path) => path !== '/graphql')
  expect((await net.get('http://api.github.com/graphql', post('{ viewer { login } }'))).status).toBe(200)
  const { status, body } = await net.get('http://api.github.com/graphql', post('mutation { mergePullRequest { id } }'))
  expect(status).toBe(403)
  expect(JSON.parse(body)).toMatchObject({ anchorhold: { blocked: { path: '/graphql/mutation/mergePullRequest' } } })
  expect(server.connections).toBe(1)
})

test('screenForge() holds a change to a rule against its path, and asks nobody', async () => {
  await using server = await mirror()
  await using net = await testNet({
    ...{ upstream: server.port, allow, net: { forges: { 'forge.example': mine } } },
    denies: ({ path }) => (path === '/graphql' ? 'a rule is against it' : null),
  })
  const { status, body } = await net.get('http://api.github.com/graphql', post('mutation { addStar { id } }'))
  expect([status, body]).toEqual([403, expect.stringContaining('a rule is against it') as string])
  expect(net.judged).toEqual([])
})

test.each<[string, string, ReturnType<typeof post> | { method: string }]>([
  ['a GET', '/graphql', { method: 'GET' }],
  ['a query in the path', '/graphql?query=mutation', post('{ a }')],
  ['another spelling of the path', '/graphql/', post('{ a }')],
  ['a path in disguise', '/%67raphql', post('{ a }')],
  ['a form', '/graphql', post('{ a }', { 'content-type': 'application/x-www-form-urlencoded' })],
  ['another charset', '/graphql', post('{ a }', { 'content-type': 'application/json; charset=utf-7' })],
  ['no type', '/graphql', post('{ a }', {})],
  [
    'a packed body',
    '/graphql',
    { ...post('', { ...json, 'content-encoding': 'gzip' }), body: gzipSync('{"query":"{a}"}').toString('latin1') },
  ],
  ['several changes', '/graphql', post('mutation { a { id } b { id } }')],
  ['no body', '/graphql', { ...post(''), body: '' }],
  ['an endless body', '/graphql', post('x'.repeat(1_100_000))],
])('screenForge() refuses %s, and nobody is asked', async (_, path, options) => {
  await using server = await mirror()
  await using net = await setUp(server.port)
  const { status, body } = await net.get(`http://api.github.com${path}`, options)
  expect([status, body]).toEqual([403, expect.stringContaining('Cannot tell what this GraphQL request does') as string])
  expect(net.judged).toEqual([])
  expect(server.connections).toBe(0)
})

test('screenForge() leaves GraphQL of other hosts to their rules', async () => {
  await using server = await mirror()
  await using net = await setUp(server.port)
  expect((await net.get('http://elsewhere.example/graphql', post('mutation { a { id } b { id } }'))).status).toBe(200)
  expect(net.judged.map(({ path }) => path)).toEqual(['/graphql'])
})
