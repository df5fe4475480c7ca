import type { Event } from '@anchorhold/protocol/events'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createPlain } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { hasPip } from '../registries/commands.ts'
import { has } from './host.ts'
import { type Installation, installation, outputsOf } from './installation.ts'
import { certificate, fillFiles, giveFile, ownName, pathOf } from './outside.ts'

const scratch = mkdtempSync(join(tmpdir(), 'ah-e2e-net-'))
const files = join(scratch, 'files')

const host = ownName()

const tls = certificate(host)
fillFiles(files)
const seen: string[] = []
const server = createServer(tls, (request, response) => {
  const path = pathOf(request)
  seen.push(path)
  giveFile(files, path, response)
})
const place = () => `${host}:${(server.address() as AddressInfo).port}`

let it: Installation
beforeAll(async () => {
  server.listen(0, /^\d/.test(host) ? host : '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const rules = [
    `  - { on: net, match: { host: ${JSON.stringify(host)}, port: ${port} }, effect: allow, own_network: true }`,
    '  - { on: net, match: { host: denied.example }, effect: deny, why: not from here }',
  ]
  it = await installation({ policy: `rules:\n${rules.join('\n')}\n` })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  server.closeAllConnections()
  server.close()
  rmSync(scratch, { recursive: true })
})

const withCa = () => it.workspace({ 'authority.txt': tls.cert })

test.skipIf(!has('curl'))('curl, git clone and npm reach what a rule opens, and nothing else is needed for that', async () => {
  const commands = [
    `curl -sS --cacert authority.txt https://${place()}/hello`,
    `GIT_SSL_CAINFO=$PWD/authority.txt git clone -q https://${place()}/repo.git && cat repo/README`,
    `echo socks; curl -sS --noproxy x --socks5-hostname 127.0.0.1:8379 --cacert authority.txt https://${place()}/hello`,
    `npm view --fetch-retries 0 --cafile authority.txt --registry https://${place()}/ left version`,
    `/opt/anchorhold/forwarder/node -e 'fetch("https://${place()}/hello").then(r=>r.text()).then(t=>console.log("node",t))'`,
  ]
  const { session, events } = await it.run(`run \`export NODE_EXTRA_CA_CERTS=$PWD/authority.txt; ${commands.join('; ')}\``, {
    workspace: withCa(),
  })
  const said = outputsOf(events)
  expect(said).toContain('hello from outside')
  expect(said).toContain('cloned through the window')
  expect(said).toContain('socks\nhello from outside')
  expect(said).toContain('1.2.3')
  expect(said).toContain('node hello from outside')
  expect(seen).toEqual(expect.arrayContaining(['/hello', '/repo.git/info/refs', '/left']))
  expect(session.network).toBe('proxy_only')
  const { out } = await it.cli(['net', session.id, '--json'])
  const { hosts } = JSON.parse(out) as { hosts: { host: string; bytes_in: number; bytes_out: number; blocked: number }[] }
  expect(hosts).toMatchObject([{ host, blocked: 0 }])
  expect(hosts[0]!.bytes_in).toBeGreaterThan(1000)
  expect(hosts[0]!.bytes_out).toBeGreaterThan(1000)
  expect((await it.cli(['net', session.id])).out).toContain(place())
})

test.skipIf(!has('curl'))(
  'what is denied is answered in words that a program can read, and the agent’s own calls never come here',
  async () => {
    const commands = [
      'curl -s http://denied.example/x',
      'curl -s https://denied.example/tls',
      'curl -s http://127.0.0.1.:1/; curl -s --noproxy x http://localhost:1/',
      'curl -s --noproxy "*" -m 2 http://192.0.2.1/ || echo no way around',
      'for at in denied.example 127.0.0.1 169.254.169.254; do curl -sS --noproxy x --socks5-hostname 127.0.0.1:8379 https://$at/; done',
      'git clone https://denied.example/a/b.git',
      'npm view --fetch-retries 0 --registry https://denied.example/ left version',
      ...(hasPip
        ? [
            '/usr/bin/pip3 download --disable-pip-version-check --retries 1 --no-deps --index-url https://denied.example/simple left',
          ]
        : []),
    ]
    const { session, events } = await it.run(`run \`${commands.join('; ')}\``)
    const said = outputsOf(events)
    expect(said).toContain('"blocked":{"host":"denied.example","port":80,"method":"GET","path":"/x"}')
    expect(said).toContain('"blocked":{"host":"denied.example","port":443,"method":null,"path":null}')
    expect(said).toContain('how_to_ask')
    const why = 'Blocked by Anchorhold: This is not allowed (rule: deny net denied.example (not from here))'
    expect(said).toContain(`remote: ${why}`)
    expect(said).toMatch(/npm (error|ERR!) 403 .*not from here/)
    if (hasPip) expect(said).toContain(`Tunnel connection failed: 403 ${why}`)
    expect(said).toContain('no way around')
    // Not allowed by a ruleset: how SOCKS says that something is blocked.
    expect(said.match(/\(2\)/g)).toHaveLength(3)
    const net = (await it.log(session.id)).flatMap((event) => (event.type === 'net' ? [event.body.host] : []))
    expect(net.filter((name) => name !== null && /anthropic|claude|statsig|sentry/.test(name))).toEqual([])
  },
)

test.skipIf(!has('curl'))(
  'a call that no rule speaks of is asked for, and goes on in the same connection when it is allowed',
  async () => {
    const { id } = await it.api.createSession({
      body: { prompt: { text: 'run `curl -s -o /dev/null -w "%{http_code} %{errormsg}" http://unheard-of.invalid/`' } },
    })
    const opened = (await it.event(id, 0, ({ type }) => type === 'request.opened')) as Event & { type: 'request.opened' }
    expect(opened.body.action).toEqual({ kind: 'net', host: 'unheard-of.invalid', port: 80, method: 'GET', path: '/' })
    await it.api.answerRequest({ params: { id: opened.body.id }, body: { decision: 'allow' } })
    await it.event(id, 0, ({ type }) => type === 'turn.ended')
    // Allowed, so it was looked up; and there is no such host.
    expect(outputsOf(await it.log(id))).toContain('502')
  },
)

test('a session with network none has no window, and one without a cell has the network of the host', async () => {
  const { events, session } = await it.run('run `ls /run/windows; env | grep -ci proxy`', { network: 'none' })
  expect(outputsOf(events)).toContain('model.sock\n0')
  expect(session.network).toBe('none')
  await expect(it.api.createSession({ body: { network: 'host' } })).rejects.toThrow('no policy allows it')
})

test.skipIf(!has('curl'))(
  'a cell has the network of the host where a policy allows it and it is asked for by name, and is no weaker otherwise',
  async () => {
    const policies = join(it.state, 'config/policies')
    mkdirSync(policies, { recursive: true })
    writeFileSync(join(policies, 'host.yaml'), 'network_mode: host\n')
    expect(await it.cli(['policy', 'reload'])).toMatchObject({ code: 0 })
    await using plain = createPlain((_, answer) => answer.end('from the loopback of the host'))
    plain.listen(0, '127.0.0.1')
    await once(plain, 'listening')
    const { port } = plain.address() as AddressInfo
    const look = `curl -s -m 5 --noproxy '*' http://127.0.0.1:${port}/; echo; ls /run/windows; env | grep -ci _proxy; ls ${it.state} 2>&1`
    const { events, session } = await it.run(`run \`${look}\``, { network: 'host', policy: 'host' })
    expect(outputsOf(events)).toMatch(/^from the loopback of the host\nmodel\.sock\n0\nls: cannot access/m)
    expect(session).toMatchObject({ network: 'host', rung: 'bwrap' })
    expect((await it.cli(['show', session.id])).out).toMatch(/network\s+host/)
    expect((await it.cli(['audit', '--session', session.id])).out).toMatch(
      /created: .* on bwrap with the network of the host by owner/,
    )
    const { events: walled } = await it.run(`run \`${look}\``, { policy: 'host' })
    expect(outputsOf(walled)).toMatch(/^Exit code 2\n\nmodel\.sock\nnet\.sock\n/)
  },
)
