import { createServer } from 'node:http'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fetchPath } from '@anchorhold/protocol/net-calls'
import { expect, test } from 'vitest'
import { systemResolve } from './resolve.ts'
import { type DnsAnswers, type DnsRecord, testDns } from './test-dns.ts'
import { listener, publicAddress, testNet, trap } from './test-net.ts'

/** A window that allows everything and asks a name server of the test's, with a place that must not be reached. */
async function hostile(answers: DnsAnswers, timeoutMs = 2000) {
  const stack = new AsyncDisposableStack()
  const never = stack.use(await trap())
  const dns = stack.use(await testDns(answers))
  const upstream = stack.use(await listener(createServer((_, response) => void response.end('fine'))))
  const resolve = systemResolve({ servers: [dns.server], hostsPath: '/dev/null', timeoutMs })
  const net = stack.use(await testNet({ judge: async () => ({ allow: true }), dial: { resolve }, upstream: upstream.port }))
  return {
    ...{ never, dns, net },
    get: () => net.get(`http://allowed.test:${never.port}/`),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
const only =
  (kind: 'A' | 'AAAA', ...records: readonly DnsRecord[]): DnsAnswers =>
  (question) =>
    question.kind === kind ? records : []

test('a name that changes its address between being judged and being dialled has only the one that was judged', async () => {
  await using net = await hostile(({ kind, asked }) =>
    kind === 'AAAA' ? [] : [{ address: asked === 1 ? publicAddress : '127.0.0.1' }],
  )
  expect((await net.get()).body).toBe('fine')
  expect(net.dns.questions.filter((one) => one.startsWith('A '))).toHaveLength(1)
  expect((await net.get()).status).toBe(403)
  expect(net.net.dialled).toEqual([`${publicAddress} ${net.never.port}`])
  expect(net.never.connections).toBe(0)
})

test.each([
  ['an alias of a private address', only('A', { alias: 'inside.test' }, { name: 'inside.test', address: '10.0.0.1' })],
  [
    'a chain of aliases to loopback',
    only('A', { alias: 'b.test' }, { name: 'b.test', alias: 'c.test' }, { name: 'c.test', address: '127.0.0.1' }),
  ],
  ['a public IPv4 and a private IPv6 address', ({ kind }) => [{ address: kind === 'A' ? publicAddress : 'fd00::1' }]],
  ['a private IPv4 and a public IPv6 address', ({ kind }) => [{ address: kind === 'A' ? '127.0.0.1' : '2606:4700::1' }]],
  ['a mapped loopback address', only('AAAA', { address: '::ffff:127.0.0.1' })],
  ['a translated loopback address', only('AAAA', { address: '64:ff9b::7f00:1' })],
  ['the metadata of a cloud', only('A', { address: '169.254.169.254' })],
  ['0.0.0.0', only('A', { address: '0.0.0.0' })],
  [
    'a private address after a thousand public ones',
    ({ kind }) =>
      kind === 'AAAA'
        ? []
        : [...Array.from({ length: 1000 }, (_, at) => ({ address: `93.184.${at >> 8}.${at & 255}` })), { address: '127.0.0.1' }],
  ],
] as [string, DnsAnswers][])('a name with %s is not dialled', async (_, answers) => {
  await using net = await hostile(answers)
  expect((await net.get()).status).toBe(403)
  expect((await net.net.refused(`allowed.test:${net.never.port}`)).status).toBe(403)
  const page = await net.net.own(fetchPath, { url: `http://allowed.test:${net.never.port}/` })
  expect(page.body).toMatchObject({ answer: 'blocked' })
  expect(net.net.dialled).toEqual([])
  expect(net.never.connections).toBe(0)
})

test('of a thousand public addresses a few are tried', async () => {
  await using net = await hostile(({ kind }) =>
    kind === 'AAAA' ? [] : Array.from({ length: 1000 }, () => ({ address: publicAddress })),
  )
  expect((await net.get()).body).toBe('fine')
  expect(net.net.dialled.length).toBeLessThanOrEqual(6)
})

test.each([
  ['nothing', () => []],
  ['an alias to nowhere', only('A', { alias: 'gone.test' })],
] as [string, DnsAnswers][])('a name with %s cannot be reached', async (_, answers) => {
  await using net = await hostile(answers)
  expect((await net.get()).status).toBe(502)
  expect(net.net.dialled).toEqual([])
})

test('a name server that says nothing is not waited for longer than it is worth, and one half of an answer does', async () => {
  await using silent = await hostile(() => null, 50)
  expect((await silent.get()).body).toContain('no name server answered')
  await using half = await hostile(({ kind }) => (kind === 'A' ? [{ address: publicAddress }] : null), 50)
  expect((await half.get()).body).toBe('fine')
})

test('systemResolve() takes the word of the hosts file before that of name servers', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ah-hosts-'))
  writeFileSync(
    join(folder, 'hosts'),
    '127.0.0.1 localhost\n# 1.1.1.1 commented.test\n10.0.0.5\tBuild.test build # here\nfd00::5 build.test\n',
  )
  await using dns = await testDns(() => [])
  const resolve = systemResolve({ servers: [dns.server], hostsPath: join(folder, 'hosts') })
  const signal = AbortSignal.timeout(10_000)
  expect(await resolve('build.test', signal)).toEqual(['10.0.0.5', 'fd00::5'])
  await expect(resolve('commented.test', signal)).rejects.toThrow()
  expect(dns.questions.length).toBe(2)
  rmSync(folder, { recursive: true })
})
